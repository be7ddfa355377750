"""Statistics that compute a score from its items, and the variance and confidence interval of the score.

`sentbed.protocols.Items` uses them. Authors of evaluators may also call them: `average_precision(x, y)`.
"""

from __future__ import annotations

# mypy: implicit-reexport
from typing import TYPE_CHECKING

from sentbed._lazy_exports import lazy as _lazy

if TYPE_CHECKING:
    from sentbed.statistics.estimated_difference import EstimatedDifference, Source
    from sentbed.statistics.influences import influence_values
    from sentbed.statistics.item_components import (
        Block,
        ItemComponents,
        satterthwaite,
    )
    from sentbed.statistics.named_statistics import (
        STATISTICS,
        average_precision,
        f1,
        matthews,
        mean,
        pearson,
        spearman,
        v_measure,
    )

if not TYPE_CHECKING:
    __getattr__, __dir__ = _lazy(__name__)
