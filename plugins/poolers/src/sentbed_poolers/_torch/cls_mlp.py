"""A single state with a dense layer and tanh."""

from __future__ import annotations

import torch
from safetensors import safe_open
from sentbed import DataError, ModelError, locate
from sentbed.helpers import foreign
from sentbed.protocols import TokenStates

INITIAL_DEVIATION = 0.02
"""Standard deviation of the initial weights: `initializer_range` of BERT and RoBERTa."""
LAYERS = ("mlp.dense", "pooler.dense")
"""Names of the layer in a training run of SimCSE's code and in a released model."""


class MLPPooling(torch.nn.Module):
    """A state of each text, `(batch, width)`, after the layer and tanh; `state` takes it from the tokens'."""

    def __init__(self, state: torch.nn.Module, width: int, mlp_only_train: bool) -> None:
        super().__init__()
        self.state = state
        self.dense = torch.nn.Linear(width, width)
        torch.nn.init.normal_(self.dense.weight, std=INITIAL_DEVIATION)
        torch.nn.init.zeros_(self.dense.bias)
        self.mlp_only_train = mlp_only_train

    def forward(self, states: TokenStates) -> torch.Tensor:
        """Return the sentence vectors."""
        state: torch.Tensor = self.state(states)
        if self.mlp_only_train and not self.training:
            return state
        return torch.tanh(self.dense(state))


def start_from(dense: torch.nn.Linear, location: str) -> None:
    """Set the layer to that of a safetensors file, or to NaN where there is no file.

    Raises:
        ModelError: if the file is damaged, or has no such layer of finite numbers.
    """
    try:
        file = locate(location)
    except DataError:
        # The file of a saved encoder may be gone. Its own layer is loaded next; nothing else may pass for it.
        for value in dense.parameters():
            torch.nn.init.constant_(value, float("nan"))
        return
    damaged = foreign(ModelError, f"`{file}` cannot be read", "fetch the model again")
    with damaged, safe_open(file, "pt") as weights:
        there = set(weights.keys())
        layer = next((name for name in LAYERS if f"{name}.weight" in there), None)
        if layer is None:
            names = " or ".join(f"`{name}.weight`" for name in LAYERS)
            raise ModelError(
                f"`{file}` has no MLP ({names}); name a file of SimCSE's, or take `mlp` out for a new layer"
            )
        found = {name: weights.get_tensor(f"{layer}.{name}") for name, _ in dense.named_parameters()}
    for name, value in dense.named_parameters():
        given = found[name]
        if given.shape != value.shape:
            raise ModelError(
                f"`{file}` has `{layer}.{name}` {tuple(given.shape)}, expected {tuple(value.shape)} for this "
                "backbone; name the file of a model of its size"
            )
        if not torch.isfinite(given).all():
            raise ModelError(
                f"`{file}` has NaN or infinite values in `{layer}.{name}`; fetch the model again"
            )
        with torch.no_grad():
            value.copy_(given)
