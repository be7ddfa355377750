"""The pooler `prompt`."""

from __future__ import annotations

from typing import ClassVar

import attrs

from sentbed_poolers.last import Last


@attrs.frozen
class Prompt(Last):
    """The state of the last token of a prompt that asks a causal model what the sentence means.

    The prompt is the template `prompt` with PromptEOL's text rules, where the recipe gives no other.

    Source: PromptEOL, section 3.1 (PromptBERT's idea for a causal model).
    """

    name: ClassVar[str] = "prompt"
    cites: ClassVar[tuple[str, ...]] = ("jiang2023prompteol", "jiang2022promptbert")
    needs: ClassVar[frozenset[str]] = frozenset({"causal", "template"})
    template: ClassVar[str] = "prompt"
    normalizer: ClassVar[str] = "prompt-eol"
