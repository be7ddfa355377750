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


def positions_of(config: Mapping[str, Any]) -> int | None:
    """Return the number of tokens for which a `config.json` of transformers gives positions; None if none."""
    positions = config.get("max_position_embeddings", config.get("n_positions"))
    if not isinstance(positions, int):
        return None
    if config.get("model_type") in COUNTED_AFTER_PADDING:
        padding = config.get("pad_token_id", PADDING)
        positions -= (padding if isinstance(padding, int) else PADDING) + 1
    return positions
