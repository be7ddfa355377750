"""What a model's configuration says about the direction of its attention."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def attends_both_ways(config: Mapping[str, Any]) -> bool:
    """Whether a `config.json` of transformers says that every token of a text attends to the whole text.

    transformers reads `is_causal` for all decoders; `use_bidirectional_attention` is Gemma's, `"vision"` if
    only the tokens of images attend so. What its code makes of them shows in the built model alone.
    """
    return config.get("is_causal") is False or config.get(
        "use_bidirectional_attention"
    ) in (True, "all")
