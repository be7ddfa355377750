"""The pooler `mask-mlp`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import attrs
from sentbed import FilePath
from sentbed.protocols import Module, PoolerTraits

from sentbed_poolers.cls_mlp import problems_of_layer_file
from sentbed_poolers.mask import Mask


@attrs.frozen
class MaskMLP(Mask):
    """The state of the mask token in a prompt, then a dense layer of the same width, then tanh.

    For h the state, with `denoise` less that of the template alone, the vector is tanh(W h + b). The layer is
    new, W drawn from N(0, 0.02) and b = 0, unless `pretrained` or `mlp` takes a trained one.

    Source: the released code of PromptBERT (Jiang et al., 2022), whose PromptRoBERTa is trained on NLI so.
    """

    name = "mask-mlp"

    mlp_only_train: bool = False
    """Whether layer and tanh are used in training only, as in PromptBERT's unsupervised runs."""
    pretrained: bool = False
    """Whether the layer is that of the backbone's own model, from its files: a released PromptBERT's."""
    mlp: FilePath | None = None
    """A safetensors file with the layer to start from: `mlp.dense.*`, or `pooler.dense.*` in a released
    model. Default: a new layer. A saved encoder has its own layer, and no need of the file."""

    def check(self) -> Iterator[str]:
        """Yield what is wrong with the file that `mlp` names."""
        yield from problems_of_layer_file(self.mlp, self.pretrained)

    @property
    def traits(self) -> PoolerTraits:
        """Those of `mask`; with `mlp_only_train` encoding is like it."""
        at_test = None
        if self.mlp_only_train:
            at_test = "mask"

        new_layer = not (self.mlp_only_train or self.pretrained or self.mlp)
        return attrs.evolve(
            super().traits,
            at_test=at_test,
            pretrained=self.pretrained,
            new_layer=new_layer,
        )

    def build(self, width: int) -> Module:
        """Return `module(TokenStates) -> (batch, width)`.

        Raises:
            ModelError: if the file of `mlp` has no such layer, or one of another width.
        """
        from sentbed_poolers._torch.cls_mlp import MLPPooling
        from sentbed_poolers._torch.given_state import GivenState

        state = GivenState("mask_state", self.name)
        return MLPPooling(state, width, width, self.mlp_only_train, self.mlp)

    def load_pretrained(self, module: Module, directory: Path) -> None:
        """Set the layer to that of the model in `directory`.

        Raises:
            ModelError: if its files have no such layer, or one of another width.
        """
        from sentbed_poolers._torch.cls_mlp import start_from_directory

        start_from_directory(module.dense, directory)
