"""The pooler `mask-mlp`."""

from __future__ import annotations

import attrs
from sentbed.protocols import Module

from sentbed_poolers.mask import Mask
from sentbed_poolers.trained_layer import TrainedLayer


@attrs.frozen
class MaskMLP(TrainedLayer, Mask):
    """The state of the mask token in a prompt, then a dense layer of the same width, then tanh.

    With the state h of `mask` (after `denoise`, if it is set), the vector is tanh(W h + b). By default, the layer
    is new: W is drawn from a normal distribution with standard deviation 0.02, and b is 0. `pretrained` loads a
    trained layer instead.

    Source: the released code of PromptBERT (Jiang et al., 2022), which trains PromptRoBERTa on NLI in this way.
    """

    name = "mask-mlp"

    mlp_only_train: bool = False
    """Whether layer and tanh are used only in training, as in PromptBERT's unsupervised runs."""
    pretrained: bool = False
    """Whether to load the layer from the files of the backbone's model, for a model released by PromptBERT."""

    @property
    def at_test(self) -> str | None:
        """The pooling without the layer, if encoding leaves it out."""
        if self.mlp_only_train:
            return "mask"
        return None

    def build(self, width: int) -> Module:
        """Return the module, which turns `TokenStates` into vectors `(batch, width)`."""
        from sentbed_poolers._torch.cls_mlp import MLPPooling
        from sentbed_poolers._torch.given_state import GivenState

        state = GivenState("mask_state", self.name)
        return MLPPooling(state, width, width, self.mlp_only_train)
