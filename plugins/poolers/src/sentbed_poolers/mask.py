"""The pooler `mask`."""

from __future__ import annotations

from typing import ClassVar

import attrs
from sentbed.protocols import Module, Pooler, PoolerTraits


@attrs.frozen
class Mask(Pooler):
    """The state of the mask token in a prompt that asks what the sentence means.

    The prompt is the template `prompt-bert` with PromptEOL's text rules, unless the recipe sets another.

    Source: PromptBERT (Jiang et al., 2022), section 4.1, equation 1.
    """

    name: ClassVar[str] = "mask"
    traits = PoolerTraits(
        cites=("jiang2022promptbert",),
        needs=frozenset({"mask-token", "template"}),
        template="prompt-bert",
        normalizer="prompt-eol",
    )

    def build(self, width: int) -> Module:
        """Return `module(TokenStates) -> (batch, width)`."""
        from sentbed_poolers._torch.given_state import GivenState

        return GivenState("mask_state", self.name)
