"""What a model's configuration says about the direction of its attention."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def attends_both_ways(config: Mapping[str, Any]) -> bool:
    """Whether a `config.json` of transformers says that every token of a text attends to the whole text.

    transformers reads `is_causal` for every decoder. `use_bidirectional_attention` is a setting of Gemma. If
    its value is `"vision"`, only tokens of images attend in both directions, so the result is False. Whether
    the model's code follows these settings shows only in the built model.
    """
    if config.get("is_causal") is False:
        return True

    return config.get("use_bidirectional_attention") in (True, "all")
