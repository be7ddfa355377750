"""The pooler `mask`."""

from __future__ import annotations

from typing import Literal

import attrs
from sentbed.protocols import Module, Pooler

from sentbed_poolers.template_prompt import TemplatePrompt


@attrs.frozen
class Mask(Pooler):
    """The state of the mask token in a prompt that asks what the sentence means.

    By default, the prompt is the template `prompt-bert` with the text rules `prompt-eol`. These change the end
    and the quotes of a sentence; see `TemplatePrompt.normalizer`.

    Source: PromptBERT (Jiang et al., 2022), section 4.1, equation 1; section 4.3 for `denoise`.
    """

    name = "mask"

    denoise: bool = False
    """Whether to subtract the state that the mask token has in the template without a sentence. This is done both
    in training and when encoding. The tokens after the sentence keep the positions that they have with the
    sentence. So each text needs a second pass, over the tokens of the template. PromptBERT's supervised models do
    this; its unsupervised models did it only in training."""
    template_positions: Literal["text", "zero"] = "text"
    """First position of the template without a sentence. `text`: the first position of a text, which is 2 in
    RoBERTa. `zero`: 0, as in PromptBERT's released code, also for RoBERTa."""

    cites = ("jiang2022promptbert",)
    prompt = TemplatePrompt("prompt-bert", normalizer="prompt-eol")

    @property
    def needs(self) -> frozenset[str]:
        """A mask token in a template, and the state of the template alone if it is subtracted."""
        needs = frozenset({"mask-token", "template"})
        if not self.denoise:
            return needs
        if self.template_positions == "zero":
            return needs | {"template-alone-from-0"}
        return needs | {"template-alone"}

    def build(self, width: int) -> Module:
        """Return the module, which turns `TokenStates` into vectors `(batch, width)`."""
        from sentbed_poolers._torch.given_state import GivenState

        return GivenState("mask_state", self.name)
