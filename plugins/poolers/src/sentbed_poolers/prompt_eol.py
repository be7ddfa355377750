"""The pooler `prompt-eol`."""

from __future__ import annotations

import attrs
from sentbed.protocols import PoolerTraits

from sentbed_poolers.last import Last


@attrs.frozen
class PromptEOL(Last):
    """The state of the last token of a prompt that asks a causal model for the sentence in one word.

    The prompt is the template `prompt-eol` with PromptEOL's text rules, unless the recipe sets another prompt.

    Source: PromptEOL, section 3.1; equation 1 for training.
    """

    name = "prompt-eol"
    traits = PoolerTraits(
        cites=("jiang2023prompteol",),
        needs=frozenset({"causal", "template"}),
        template="prompt-eol",
        normalizer="prompt-eol",
        pooling="lasttoken",
    )
