"""The number of positions that a model's configuration gives, which limits the length of texts."""

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
"""Model types of transformers in which the first token has the position padding id + 1, as in RoBERTa."""

PADDING = 1
"""RoBERTa's padding id, for a configuration that has none."""

FEWEST = 2
"""Smallest number of tokens to which a recipe may limit the length of texts."""


def positions_of(config: Mapping[str, Any]) -> int | None:
    """Return for how many tokens a model has positions, by its `config.json`; None if that is unknown."""
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
        # Building the model reports what is wrong.
        return None

    return positions
