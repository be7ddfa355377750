"""Backbone, pooler and head as one torch module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from sentbed import ModelError
from sentbed.protocols import BuiltBackbone, Head, Module, TokenStates
from torch.nn import functional

from sentbed_hardware._common.files import read_tensors

MODULES_FILE = "modules.safetensors"
"""File of the weights of pooler and head, beside the backbone's directory."""
BACKBONE_DIRECTORY = "backbone"
SHAPES = 256
"""Largest number of batch shapes to compile; further shapes run uncompiled."""


class EncoderModule(torch.nn.Module):
    """Token ids `(batch, length)` -> sentence vectors `(batch, width)`."""

    def __init__(self, backbone: Module, pooler: Module, head: Head, pooled: int) -> None:
        super().__init__()
        self.backbone = backbone
        self.pooler = pooler
        self.projection = (
            torch.nn.Identity()
            if head.projection is None
            else torch.nn.Linear(pooled, head.projection, bias=head.bias)
        )
        self.normalize = head.normalize
        self.width = head.projection or pooled

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor | None) -> torch.Tensor:
        """Encode one batch."""
        return self.finish(self.backbone(input_ids, attention_mask))

    def finish(self, states: TokenStates) -> torch.Tensor:
        """Pool, project and normalise, in fp32 whatever the backbone's precision."""
        vectors: torch.Tensor = self.projection(self.pooler(_in_fp32(states)))
        return functional.normalize(vectors, dim=-1) if self.normalize else vectors

    def own_weights(self) -> dict[str, torch.Tensor]:
        """Return the weights of pooler and head."""
        return {
            name: value.detach().contiguous()
            for name, value in self.state_dict().items()
            if not name.startswith("backbone.")
        }

    def inference(self, backbone: BuiltBackbone, dtype: torch.dtype, compile: bool = False) -> Module:
        """Return a form for encoding: the backbone in `dtype`, pooler and head in fp32."""
        if not compile:
            return InferenceModule(self.eval(), backbone.inference(self.backbone, dtype))
        torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, SHAPES)
        module = InferenceModule(self.eval(), backbone.inference(self.backbone, dtype, traceable=True))
        return torch.compile(module, dynamic=False)


class InferenceModule(torch.nn.Module):
    """An `EncoderModule` whose backbone is replaced by a copy made for encoding."""

    def __init__(self, encoder: EncoderModule, backbone: Module) -> None:
        super().__init__()
        self.encoder = encoder
        self.backbone = backbone

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None,
        prefix: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Encode one batch; `prefix` precedes every row."""
        shared = () if prefix is None else (prefix,)
        return self.encoder.finish(self.backbone(input_ids, attention_mask, *shared))

    def several(
        self,
        encoders: Sequence[EncoderModule],
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None,
        prefix: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Encode one batch for several encoders of this backbone, with vectors joined along the width."""
        shared = () if prefix is None else (prefix,)
        states = self.backbone(input_ids, attention_mask, *shared)
        return torch.cat([encoder.finish(states) for encoder in encoders], -1)


def _in_fp32(states: TokenStates) -> TokenStates:
    return states._replace(
        last_hidden_state=states.last_hidden_state.float(),
        layers=states.layers and tuple(layer.float() for layer in states.layers),
        decoder_state=None if states.decoder_state is None else states.decoder_state.float(),
        mask_state=None if states.mask_state is None else states.mask_state.float(),
    )


def load_modules(module: EncoderModule, path: Path) -> None:
    """Read the weights of pooler and head. Raises `ModelError` if they do not match the module."""
    weights = read_tensors(path, "save this encoder again")
    found, expected = _shapes(weights), _shapes(module.own_weights())
    if found != expected:
        raise ModelError(
            f"`{path}` holds {found}, the pooler and head of its recipe have {expected}; "
            "the files of this encoder do not belong together, save it again"
        )
    for name, value in weights.items():
        if not (value.is_floating_point() and torch.isfinite(value).all()):
            raise ModelError(
                f"`{name}` in `{path}` has NaN, infinite or whole numbers, expected finite floating point: "
                "the file is damaged, or training diverged; take another checkpoint"
            )
    module.load_state_dict(weights, strict=False)


def _shapes(weights: Mapping[str, torch.Tensor]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(weights[name].shape) for name in sorted(weights)}
