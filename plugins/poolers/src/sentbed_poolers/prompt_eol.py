"""The pooler `prompt-eol`."""

from __future__ import annotations

import attrs

from sentbed_poolers.last import Last
from sentbed_poolers.template_prompt import TemplatePrompt


@attrs.frozen
class PromptEOL(Last):
    """The state of the last token of a prompt that asks a causal model for the sentence in one word.

    By default, the prompt is the template `prompt-eol` with the text rules `prompt-eol`. These change the end and
    the quotes of a sentence; see `TemplatePrompt.normalizer`.

    Source: PromptEOL, section 3.1; equation 1 for training.
    """

    name = "prompt-eol"
    cites = ("jiang2023prompteol",)
    needs = frozenset({"causal", "template"})
    prompt = TemplatePrompt("prompt-eol", normalizer="prompt-eol")
    pooling = "lasttoken"
