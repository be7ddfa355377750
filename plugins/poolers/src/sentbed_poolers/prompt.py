"""The pooler `prompt`."""

from __future__ import annotations

import attrs

from sentbed_poolers.last import Last
from sentbed_poolers.template_prompt import TemplatePrompt


@attrs.frozen
class Prompt(Last):
    """The state of the last token of a prompt that asks a causal model what the sentence means.

    By default, the prompt is the template `prompt` with the text rules `prompt-eol`. These change the end and the
    quotes of a sentence; see `TemplatePrompt.normalizer`.

    Source: PromptEOL, section 3.1 (PromptBERT's idea for a causal model).
    """

    name = "prompt"
    cites = ("jiang2023prompteol", "jiang2022promptbert")
    needs = frozenset({"causal", "template"})
    prompt = TemplatePrompt("prompt", normalizer="prompt-eol")
    pooling = "lasttoken"
