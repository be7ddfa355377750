"""What a model's configuration says about the length of its input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

COUNTED_AFTER_PADDING = frozenset(
    {
        "camembert",
        "data2vec-text",
        "esm",
        "ibert",
        "longformer",
        "luke",
        "mpnet",
        "roberta",
        "roberta-prelayernorm",
        "xlm-roberta",
        "xlm-roberta-xl",
        "xmod",
    }
)
"""Model types of transformers whose first token has the position after the padding id, as in RoBERTa."""

PADDING = 1
"""RoBERTa's padding id."""

FEWEST = 2
"""Tokens of the shortest text that can be asked for."""


def positions_of(config: Mapping[str, Any]) -> int | None:
    """Return the number of tokens for which a `config.json` of transformers gives positions; None if none."""
    positions = config.get("max_position_embeddings", config.get("n_positions"))
    if type(positions) is not int:
        return None

    kind = config.get("model_type")
    if isinstance(kind, str) and kind in COUNTED_AFTER_PADDING:
        padding = config.get("pad_token_id")
        if type(padding) is not int:
            padding = PADDING

        positions -= padding + 1

    if positions < FEWEST:
        # Building the model says what is wrong.
        return None

    return positions
