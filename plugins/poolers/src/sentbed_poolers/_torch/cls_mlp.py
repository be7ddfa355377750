"""The module of the poolers `cls-mlp` and `mask-mlp`: a dense layer and tanh, and loading of a trained layer."""

from __future__ import annotations

from collections.abc import Container, Sequence
from pathlib import Path

import torch
from sentbed import DataError, ModelError, locate
from sentbed.protocols import TokenStates
from sentbed_common import read_tensors, weight_files
from torch import Tensor, nn

INITIAL_DEVIATION = 0.02
"""Standard deviation of the initial weights, the `initializer_range` of BERT and RoBERTa."""
LAYERS = ("mlp.dense", "pooler.dense")
"""Names of the layer in a file: `mlp.dense` in a training run of SimCSE's code, `pooler.dense` in a released
model. A training run has both, and its `pooler.dense` is the pooler of next-sentence prediction, so `mlp.dense`
is tried first."""
PREFIXES = ("", "bert.", "roberta.")
"""Possible prefixes of these names in a file. The names have one if the model has a language-modelling head."""


class MLPPooling(nn.Module):
    """A dense layer and tanh after the module `state`, which gives one state per text, `(batch, width)`.

    The vectors are `(batch, mlp_width)`. With `mlp_only_train`, the vectors in eval mode are the states
    themselves. The layer is loaded from the safetensors file `mlp`. If `mlp` is None, the layer is new.
    """

    def __init__(
        self,
        state: nn.Module,
        width: int,
        mlp_width: int,
        mlp_only_train: bool,
        mlp: str | None,
    ) -> None:
        super().__init__()
        self.state = state
        self.dense = nn.Linear(width, mlp_width)
        nn.init.normal_(self.dense.weight, std=INITIAL_DEVIATION)
        nn.init.zeros_(self.dense.bias)
        self.mlp_only_train = mlp_only_train
        if mlp is not None:
            load_layer_from_file(self.dense, mlp)

    def forward(self, states: TokenStates) -> Tensor:
        """Return the sentence vectors."""
        state: Tensor = self.state(states)
        if self.mlp_only_train and not self.training:
            return state

        return torch.tanh(self.dense(state))


def load_layer_from_file(dense: nn.Linear, location: str) -> None:
    """Load the layer from a safetensors file. If there is no such file, set the layer to NaN.

    Raises:
        ModelError: if the file has no such layer, or its layer does not fit.
    """
    try:
        file = locate(location)
    except DataError:
        # A saved encoder does not need the file: its own layer is loaded after this. If that is forgotten, all
        # vectors are NaN, which is noticed.
        for value in dense.parameters():
            nn.init.constant_(value, float("nan"))

        return

    remedy = "name a file of SimCSE's, or take `mlp` out for a new layer"
    _load_layer(dense, [file], f"`{file}`", remedy)


def load_layer_from_directory(dense: nn.Linear, directory: Path) -> None:
    """Load the layer from the files of the model in a directory.

    Raises:
        ModelError: if no file has such a layer, or the layer does not fit.
    """
    files = weight_files(directory)
    remedy = "name a model of SimCSE's in the backbone, or take `pretrained` out for a new layer"
    _load_layer(dense, files, f"the model in `{directory}`", remedy)


def _load_layer(
    dense: nn.Linear,
    files: Sequence[Path],
    where: str,
    remedy: str,
) -> None:
    """Load the layer from one of the files; `where` names these in messages, which end with `remedy`."""
    tensors: dict[str, Tensor] = {}
    for file in files:
        tensors |= read_tensors(
            file, lambda key: key.rpartition(".")[0].endswith(LAYERS)
        )

    layer = _layer_name(tensors)
    if layer is None:
        names = " or ".join(f"`{name}.weight`" for name in LAYERS)
        raise ModelError(f"{where} has no MLP ({names}); {remedy}")

    for name, value in dense.named_parameters():
        key = f"{layer}.{name}"
        pretrained = tensors.get(key)
        if pretrained is None:
            raise ModelError(f"{where} has `{layer}.weight` and no `{key}`; {remedy}")

        if pretrained.shape != value.shape:
            raise ModelError(
                f"{where} has `{key}` {tuple(pretrained.shape)}, expected {tuple(value.shape)} for this "
                "backbone; name a model of its size"
            )
        with torch.no_grad():
            value.copy_(pretrained)


def _layer_name(tensor_names: Container[str]) -> str | None:
    """Return the name of the layer with its prefix, or None if there is no such layer."""
    for layer in LAYERS:
        for prefix in PREFIXES:
            if f"{prefix}{layer}.weight" in tensor_names:
                return f"{prefix}{layer}"

    return None
