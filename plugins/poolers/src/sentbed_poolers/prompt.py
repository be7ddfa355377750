"""The pooler `prompt`."""

from __future__ import annotations

import attrs
from sentbed.protocols import PoolerTraits

from sentbed_poolers.last import Last


@attrs.frozen
class Prompt(Last):
    """The state of the last token of a prompt that asks a causal model what the sentence means.

    The prompt is the template `prompt` with PromptEOL's text rules, unless the recipe sets another prompt.

    Source: PromptEOL, section 3.1 (PromptBERT's idea for a causal model).
    """

    name = "prompt"
    traits = PoolerTraits(
        cites=("jiang2023prompteol", "jiang2022promptbert"),
        needs=frozenset({"causal", "template"}),
        template="prompt",
        normalizer="prompt-eol",
        pooling="lasttoken",
    )
