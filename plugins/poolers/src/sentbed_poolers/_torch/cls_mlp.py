"""A single state with a dense layer and tanh."""

from __future__ import annotations

from collections.abc import Container, Sequence
from pathlib import Path

import torch
from safetensors import safe_open
from sentbed import DataError, ModelError, locate
from sentbed.helpers import foreign
from sentbed.protocols import TokenStates
from torch import Tensor, nn

INITIAL_DEVIATION = 0.02
"""Standard deviation of the initial weights: `initializer_range` of BERT and RoBERTa."""
LAYERS = ("mlp.dense", "pooler.dense")
"""Names of the layer in a training run of SimCSE's code and in a released model, the former first: beside it,
`pooler.dense` is that of next-sentence prediction."""
PREFIXES = ("", "bert.", "roberta.")
"""What stands before the names in the files of a model with a head."""


class MLPPooling(nn.Module):
    """A state of each text, `(batch, width)`, after layer and tanh, `(batch, mlp_width)`.

    `state` takes it from the tokens' states. With `mlp_only_train` and in eval mode, it is the state itself.
    The layer is new, or that of the safetensors file `mlp`.
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
            start_from_file(self.dense, mlp)

    def forward(self, states: TokenStates) -> Tensor:
        """Return the sentence vectors."""
        state: Tensor = self.state(states)
        if self.mlp_only_train and not self.training:
            return state

        return torch.tanh(self.dense(state))


def start_from_file(dense: nn.Linear, location: str) -> None:
    """Set the layer to that of a safetensors file, or to NaN where there is no file.

    Raises:
        ModelError: if the file is damaged, or has no such layer of finite numbers.
    """
    try:
        file = locate(location)
    except DataError:
        # The file of a saved encoder may be gone. Its own layer is loaded next; nothing else may pass for it.
        for value in dense.parameters():
            nn.init.constant_(value, float("nan"))

        return

    _start_from(
        dense,
        [file],
        f"`{file}`",
        "name a file of SimCSE's, or take `mlp` out for a new layer",
    )


def start_from_directory(dense: nn.Linear, directory: Path) -> None:
    """Set the layer to that of a model, whose weights are safetensors in one or several files.

    Raises:
        ModelError: if a file is damaged, or none has such a layer of finite numbers.
    """
    remedy = "name a model of SimCSE's in the backbone, or take `pretrained` out for a new layer"
    _start_from(
        dense,
        sorted(directory.glob("*.safetensors")),
        f"the model in `{directory}`",
        remedy,
    )


def _start_from(
    dense: nn.Linear, files: Sequence[Path], where: str, remedy: str
) -> None:
    tensors: dict[str, Tensor] = {}
    for file in files:
        with (
            foreign(ModelError, f"`{file}` cannot be read", "fetch the model again"),
            safe_open(file, "pt") as weights,
        ):
            for key in weights.keys():  # noqa: SIM118 - it is no mapping
                if key.rpartition(".")[0].endswith(LAYERS):
                    tensors[key] = weights.get_tensor(key)

    layer = _layer_among(tensors)
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
        if not torch.isfinite(pretrained).all():
            raise ModelError(
                f"{where} has NaN or infinite values in `{key}`; fetch the model again"
            )

        with torch.no_grad():
            value.copy_(pretrained)


def _layer_among(keys: Container[str]) -> str | None:
    """Return the name of the MLP's layer, with its prefix; None if the keys have none."""
    for layer in LAYERS:
        for prefix in PREFIXES:
            if f"{prefix}{layer}.weight" in keys:
                return f"{prefix}{layer}"

    return None
