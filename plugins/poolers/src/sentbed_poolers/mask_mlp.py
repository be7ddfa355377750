"""The pooler `mask-mlp`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import attrs
from sentbed import FilePath
from sentbed.protocols import Module

from sentbed_poolers.cls_mlp import problems_of_layer_file
from sentbed_poolers.mask import Mask


@attrs.frozen
class MaskMLP(Mask):
    """The state of the mask token in a prompt, then a dense layer of the same width, then tanh.

    With the state h of `mask` (after `denoise`, if it is set), the vector is tanh(W h + b). By default, the layer
    is new: W is drawn from a normal distribution with standard deviation 0.02, and b is 0. `pretrained` or `mlp`
    loads a trained layer instead.

    Source: the released code of PromptBERT (Jiang et al., 2022), which trains PromptRoBERTa on NLI in this way.
    """

    name = "mask-mlp"

    mlp_only_train: bool = False
    """Whether layer and tanh are used only in training, as in PromptBERT's unsupervised runs."""
    pretrained: bool = False
    """Whether to load the layer from the files of the backbone's model, for a model released by PromptBERT."""
    mlp: FilePath | None = None
    """A safetensors file from which to load the layer. Its name there is `mlp.dense.*`, or `pooler.dense.*` in a
    released model. Default: a new layer. A saved encoder contains its layer, and does not need this file."""

    def check(self) -> Iterator[str]:
        """Yield the problems of the file in `mlp`."""
        yield from problems_of_layer_file(self.mlp, self.pretrained)

    @property
    def at_test(self) -> str | None:
        """The pooling without the layer, if encoding leaves it out."""
        if self.mlp_only_train:
            return "mask"
        return None

    @property
    def new_layer(self) -> bool:
        """Whether encoding uses the layer, and its weights are random."""
        return not (self.mlp_only_train or self.pretrained or self.mlp)

    def build(self, width: int) -> Module:
        """Return the module, which turns `TokenStates` into vectors `(batch, width)`.

        Raises:
            ModelError: if the file in `mlp` has no such layer, or its width is another.
        """
        from sentbed_poolers._torch.cls_mlp import MLPPooling
        from sentbed_poolers._torch.given_state import GivenState

        state = GivenState("mask_state", self.name)
        return MLPPooling(state, width, width, self.mlp_only_train, self.mlp)

    def load_pretrained(self, module: Module, directory: Path) -> None:
        """Load the layer from the files of the model in `directory`.

        Raises:
            ModelError: if the files have no such layer, or its width is another.
        """
        from sentbed_poolers._torch.cls_mlp import load_layer_from_directory

        load_layer_from_directory(module.dense, directory)
