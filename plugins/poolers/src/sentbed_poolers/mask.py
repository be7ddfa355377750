"""The pooler `mask`."""

from __future__ import annotations

from typing import Literal

import attrs
from sentbed.protocols import Module, Pooler, PoolerTraits


@attrs.frozen
class Mask(Pooler):
    """The state of the mask token in a prompt that asks what the sentence means.

    The prompt is the template `prompt-bert` with PromptEOL's text rules, unless the recipe sets another.

    Source: PromptBERT (Jiang et al., 2022), section 4.1, equation 1; template denoising is its section 4.3.
    """

    name = "mask"

    denoise: bool = False
    """Whether the state of the mask token in the template without a sentence is subtracted, in training and
    at test. What stands behind the sentence keeps the positions that it has there, so that each text takes a
    second pass over as many tokens as the template has. PromptBERT's supervised models have it; its
    unsupervised ones had it in training only."""
    template_positions: Literal["text", "zero"] = "text"
    """Where the positions of the template without a sentence start. `text`: where those of every text start,
    in RoBERTa at 2; `zero`: at 0, as in PromptBERT's released code, also for RoBERTa."""

    @property
    def traits(self) -> PoolerTraits:
        """A mask token in a template, and with `denoise` the template alone."""
        needs = {"mask-token", "template"}
        if self.denoise and self.template_positions == "zero":
            needs.add("template-alone-from-0")
        elif self.denoise:
            needs.add("template-alone")

        return PoolerTraits(
            cites=("jiang2022promptbert",),
            needs=frozenset(needs),
            template="prompt-bert",
            normalizer="prompt-eol",
        )

    def build(self, width: int) -> Module:
        """Return `module(TokenStates) -> (batch, width)`."""
        from sentbed_poolers._torch.given_state import GivenState

        return GivenState("mask_state", self.name)
