"""The torch module of an encoder: backbone, pooler and head."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentbed import ModelError, PluginError
from sentbed.helpers import full_name
from sentbed.protocols import (
    BuiltBackbone,
    Head,
    Output,
    Pooler,
    TokenStates,
    TokenVectors,
)
from torch import Tensor, nn
from torch.nn import functional

from sentbed_hardware._common.module_fingerprint import fingerprint
from sentbed_hardware._common.tensor_files import Tensors, read_tensors, write_tensors

MODULES_FILE = "modules.safetensors"
"""Name of the file with the weights of pooler and head, in the directory of a saved encoder."""
BACKBONE_DIRECTORY = "backbone"
"""Name of the directory of the backbone's files, in the directory of a saved encoder."""
FITTED_ON = "fitted_on"
"""Entry of the metadata of `MODULES_FILE`: a JSON description of the data that the transform was fitted on."""


class EncoderModule(nn.Module):
    """The module that turns token ids `(batch, length)` into sentence vectors `(batch, width)`.

    If the pooler gives token vectors, it returns `TokenVectors` instead.
    """

    def __init__(
        self,
        backbone: BuiltBackbone,
        pooler: Pooler,
        head: Head,
    ) -> None:
        super().__init__()
        width = backbone.width
        pooled = pooler.output_width(width)
        trained = pooler.trained_width(width)
        if head.projection is not None and trained != pooled:
            raise ModelError(
                f"the pooler `{pooler.name}` gives vectors of the width {trained} in training and {pooled} when "
                "encoding, and a projection is for one width; take `projection` out of the head"
            )

        self.pooler_component = pooler
        """The component of the pooler, for messages."""
        self.output: Output = pooler.output
        """Kind of the result. If it is `tokens`, the module returns `TokenVectors`, otherwise a tensor."""
        self.backbone = backbone.module
        self.pooler = pooler.build(width)
        self.pooled_width = pooled
        self.trained_pooled_width = trained

        self.projection = _projection(trained, head)
        self.dimensions = head.dimensions
        self.normalize = head.normalize
        self.trained_width = head.projection or trained
        self.untransformed_width = head.projection or pooled
        """Width of a vector when encoding, before it is transformed and cut to `dimensions`."""

        self.transform: nn.Module = nn.Identity()
        self.fits = head.transform
        """The component that fits the transform; None if the head has no transform."""
        self.fitted_on: Mapping[str, Any] | None = None
        """Description of the data that the transform was fitted on; None if it is not fitted."""
        self.autocast: Callable[[], AbstractContextManager[Any]] = nullcontext
        """Context in which the backbone computes."""
        self.gives_input = False
        """Whether this module returns the input of the transform, so that the transform can be fitted."""
        self.transformed_width = self.untransformed_width
        if head.transform is not None:
            self.transformed_width = head.transform.output_width(
                self.untransformed_width
            )

        narrowest = min(self.untransformed_width, self.transformed_width)
        if (head.dimensions or 0) > narrowest:
            raise ModelError(
                f"the head keeps {head.dimensions} dimensions of vectors that are {narrowest} wide; give "
                f"it `dimensions` of at most {narrowest}"
            )

    @property
    def width(self) -> int:
        """Width of the vectors when encoding."""
        if self.gives_input:
            return self.untransformed_width
        if self.dimensions:
            return self.dimensions
        if self.fitted_on is None:
            return self.untransformed_width

        return self.transformed_width

    @property
    def parameter_counts(self) -> tuple[int, int]:
        """The number of all parameters, and the number of trained parameters.

        Parameters that modules share count once. In weights of 4 bits, each weight counts, not each byte.
        """
        count = trained_count = 0
        for parameter in self.parameters():
            # bitsandbytes stores two weights of 4 bits in a byte, and the shape of the weights in `quant_state`.
            quantized = getattr(parameter, "quant_state", None)
            size = math.prod(getattr(quantized, "shape", parameter.shape))
            count += size
            if parameter.requires_grad:
                trained_count += size

        return count, trained_count

    def transformed(
        self, fit: tuple[Any, Any] | None = None, on: Mapping[str, Any] | None = None
    ) -> EncoderModule:
        """Return a module with the fitted transform `fit`, which shares its weights with this module.

        If `fit` is None, the module has no transform: it returns the vectors to which one can be fitted. `on`
        describes the data of the fit.
        """
        other = copy.copy(self)
        other._modules = dict(self._modules)
        other.gives_input = fit is None

        if fit is None:
            other.fitted_on = None
            other.transform = nn.Identity()
        else:
            other.fitted_on = dict(on or {})
            other.transform = linear_transform(fit, self)

        return other

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None,
        **keywords: Tensor,
    ) -> Any:
        """Return the result of `finish` for a batch, whose fields are the arguments; see `TokenBatch`."""
        with self.autocast():
            states = self.backbone(input_ids, attention_mask, **keywords)

        return self.finish(states, cut=not self.training)

    def finish(self, states: TokenStates, *, cut: bool) -> Any:
        """Pool, project and normalise token states, in fp32 whatever the backbone's precision.

        Returns a tensor, or `TokenVectors` if `output` is `tokens`. In the second case, the head is applied to
        the vector of each token. With `cut`, vectors are transformed and reduced to the head's `dimensions`
        before they are normalised.

        Raises:
            PluginError: if the pooler's vectors have another width than it says.
        """
        pooled = self.pooler(self.in_fp32(states))
        if self.output == "tokens":
            self._require_width(pooled.vectors)
            return TokenVectors(self._head(pooled.vectors, cut), pooled.mask)

        self._require_width(pooled)
        return self._head(pooled, cut)

    def _require_width(self, pooled: Tensor) -> None:
        """Raise `PluginError` if the pooler's vectors have another width than it says."""
        method, width = "output_width", self.pooled_width
        if self.pooler.training:
            method, width = "trained_width", self.trained_pooled_width
        if pooled.shape[-1] != width:
            pooler = full_name(self.pooler_component)
            raise PluginError(
                f"`{method}` of {pooler} returned {width}, its module returned vectors of "
                f"{pooled.shape[-1]} numbers"
            )

    def _head(self, pooled: Tensor, cut: bool) -> Tensor:
        """Apply the head to vectors, `(..., width)`; see `finish` for `cut`."""
        vectors: Tensor = self.projection(pooled)
        if self.gives_input:
            return vectors

        if cut:
            vectors = self.transform(vectors)[..., : self.dimensions]
        if self.normalize:
            vectors = functional.normalize(vectors, dim=-1)
        return vectors

    @staticmethod
    def in_fp32(states: TokenStates) -> TokenStates:
        """Return the token states in fp32, in which the pooler computes."""
        layers = states.layers
        if layers is not None:
            layers = tuple(layer.float() for layer in layers)
        return states._replace(
            last_hidden_state=states.last_hidden_state.float(),
            layers=layers,
            decoder_state=_in_fp32(states.decoder_state),
            mask_state=_in_fp32(states.mask_state),
        )

    def fingerprint(self, how: object) -> str | None:
        """Return a hash of the weights and of how they are used; see `module_fingerprint.fingerprint`."""
        # A method, since engines of other distributions do not import `_common`.
        return fingerprint(self, how)

    def extra_repr(self) -> str:
        """Return the settings that torch prints, and that are part of the fingerprint."""
        pooler = self.pooler_component
        return f"{pooler}, dimensions={self.dimensions}, normalize={self.normalize}, bare={self.gives_input}"

    def own_weights(self) -> dict[str, Tensor]:
        """Return the weights of pooler and head."""
        weights = {}
        for name, value in self.state_dict().items():
            if not name.startswith("backbone."):
                weights[name] = value.contiguous()

        return weights


def _in_fp32(states: Tensor | None) -> Tensor | None:
    """Return optional states in fp32."""
    return None if states is None else states.float()


def traceable(module: EncoderModule, backbone: BuiltBackbone) -> EncoderModule:
    """Return the module that an exporter of another library traces.

    Its arguments are token ids and mask, each int64 `(batch, length)`. It returns the vectors after the head's
    projection, fp32 `(batch, untransformed_width)`; the transform, the choice of dimensions and the normalisation
    are left out. The backbone is a copy that uses only operations known to compilers, and in which adapters are
    merged.
    """
    projecting = module.transformed().eval()
    projecting.backbone = backbone.inference(
        module.backbone, torch.float32, traceable=True
    )
    for part in projecting.backbone.modules():
        if hasattr(part, "set_attn_implementation"):
            part.set_attn_implementation("eager")

    return projecting


def assembled(
    backbone: BuiltBackbone,
    pooler: Pooler,
    head: Head,
    saved: Path | None = None,
) -> EncoderModule:
    """Build the module of an encoder on the host.

    `saved` is the directory of a saved encoder, from which pooler and head are loaded. Without it, they are
    initialised, except for weights that the pooler takes from the files of the backbone's model.

    Raises:
        ModelError: if the saved weights do not fit, or the model's files lack weights of the pooler.
    """
    module = EncoderModule(backbone, pooler, head)

    if saved is not None:
        load_modules(module, saved / MODULES_FILE)
    elif pooler.pretrained:
        if backbone.weights_directory is None:
            raise ModelError(
                f"the pooler `{pooler.name}` starts with weights of the backbone's model, and this backbone "
                "names no files that it was loaded from; take `pretrained` out of the pooler"
            )
        pooler.load_pretrained(module.pooler, backbone.weights_directory)

    return module


ACTIVATIONS = {"gelu": nn.GELU, "relu": nn.ReLU, "tanh": nn.Tanh}


def _projection(width: int, head: Head) -> nn.Module:
    """Return the linear layers of a head.

    A single layer is not wrapped in a `Sequential`, since that would change the names of its weights in files.
    """
    layers: list[nn.Module] = []
    for hidden in head.hidden:
        layers.append(nn.Linear(width, hidden, bias=head.bias))
        if head.activation != "none":
            layers.append(ACTIVATIONS[head.activation]())
        width = hidden

    if head.projection is None:
        return nn.Identity()

    last = nn.Linear(width, head.projection, bias=head.bias)
    if not layers:
        return last

    return nn.Sequential(*layers, last)


def linear_transform(fit: Any, module: EncoderModule) -> nn.Linear:
    """Return a linear layer for a fitted transform: x -> `x W - mean W`.

    `fit` is the pair of the mean and the matrix W.
    """
    mean, matrix = (np.asarray(part, np.float64) for part in fit)
    layer = empty_transform(module)
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(matrix.T))
        layer.bias.copy_(torch.from_numpy(-mean @ matrix))

    return layer


def empty_transform(module: EncoderModule) -> nn.Linear:
    """Return an uninitialised linear layer for the module's transform.

    Initialising it would draw random numbers, and so change those of later layers.
    """
    widths = module.untransformed_width, module.transformed_width
    layer: nn.Linear = nn.utils.skip_init(nn.Linear, *widths)  # type: ignore[no-untyped-call]  # torch leaves it untyped
    return layer.requires_grad_(False)


def save_modules(module: EncoderModule, path: Path) -> None:
    """Write the weights of pooler and head to a file, with a description of the data that the transform was
    fitted on."""
    notes = None
    if module.fitted_on is not None:
        notes = {FITTED_ON: json.dumps(module.fitted_on)}
    write_tensors(module.own_weights(), path, notes)


def load_modules(module: EncoderModule, path: Path) -> None:
    """Load the weights of pooler and head from a file that `save_modules` wrote.

    Raises:
        ModelError: if they do not fit the module.
    """
    weights, notes = read_tensors(path, "save this encoder again")
    if module.fits is not None and FITTED_ON in notes:
        module.transform = empty_transform(module)
        module.fitted_on = json.loads(notes[FITTED_ON])

    shapes, expected = _shapes(weights), _shapes(module.own_weights())
    if shapes != expected:
        raise ModelError(
            f"`{path}` holds {shapes}, the pooler and head of its recipe have {expected}; "
            "the files of this encoder do not belong together, save it again"
        )

    module.load_state_dict(weights, strict=False)


def _shapes(weights: Tensors) -> dict[str, tuple[int, ...]]:
    """Return the shape of each tensor, sorted by name."""
    return {name: tuple(weights[name].shape) for name in sorted(weights)}
