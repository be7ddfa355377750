"""The module of the poolers `cls-mlp` and `mask-mlp`: a dense layer and tanh, and loading of a trained layer."""

from __future__ import annotations

from pathlib import Path

import torch
from sentbed import ModelError
from sentbed.protocols import TokenStates
from sentbed_common import read_tensors, weight_files
from torch import Tensor, nn

INITIAL_DEVIATION = 0.02
"""Standard deviation of the initial weights, the `initializer_range` of BERT and RoBERTa."""
LAYERS = ("mlp.dense", "pooler.dense")
"""Names of the layer in a model's files, perhaps after a prefix: `mlp.dense` in a training run of SimCSE's code,
`pooler.dense` in a released model. A training run has both, and its `pooler.dense` is the pooler of next-sentence
prediction, so `mlp.dense` is tried first."""


class MLPPooling(nn.Module):
    """A dense layer and tanh after the module `state`, which gives one state per text, `(batch, width)`.

    The vectors are `(batch, mlp_width)`. With `mlp_only_train`, the vectors in eval mode are the states
    themselves.
    """

    def __init__(
        self,
        state: nn.Module,
        width: int,
        mlp_width: int,
        mlp_only_train: bool,
    ) -> None:
        super().__init__()
        self.state = state
        self.dense = nn.Linear(width, mlp_width)
        nn.init.normal_(self.dense.weight, std=INITIAL_DEVIATION)
        nn.init.zeros_(self.dense.bias)
        self.mlp_only_train = mlp_only_train

    def forward(self, states: TokenStates) -> Tensor:
        """Return the sentence vectors."""
        state: Tensor = self.state(states)
        if self.mlp_only_train and not self.training:
            return state

        return torch.tanh(self.dense(state))


def load_layer(dense: nn.Linear, directory: Path) -> None:
    """Load the layer from the files of the model in a directory.

    Raises:
        ModelError: if no file has such a layer, or the layer does not fit.
    """
    tensors: dict[str, Tensor] = {}
    for file in weight_files(directory):
        tensors |= read_tensors(file, _is_of_layer)

    for layer in LAYERS:
        state = {}
        for name, value in tensors.items():
            if name.rpartition(".")[0].endswith(layer):
                state[name.rpartition(".")[2]] = value

        if not state:
            continue

        try:
            dense.load_state_dict(state)
        except RuntimeError as error:
            raise ModelError(
                f"the layer `{layer}` of the model in `{directory}` does not fit this backbone; name a model "
                f"of its size: {error}"
            ) from error

        return

    names = " or ".join(f"`{name}.weight`" for name in LAYERS)
    raise ModelError(
        f"the model in `{directory}` has no MLP ({names}); name a model of SimCSE's in the backbone, or take "
        "`pretrained` out for a new layer"
    )


def _is_of_layer(name: str) -> bool:
    """Return whether a tensor belongs to a layer that may be the MLP."""
    return name.rpartition(".")[0].endswith(LAYERS)
