"""Names of the columns for a study's axes, the same in CSV files and data frames."""

from __future__ import annotations

RESERVED = frozenset(
    {
        "cell",
        "seed",
        "encoder",
        "evaluator",
        "protocol",
        "protocol_hash",
        "split",
        "task",
        "metric",
        "value",
        "direction",
        "degenerate",
        "axis",
        "score",
        "status",
    }
)
"""Names of the other columns in a study's tables."""


def axis_column(axis: str) -> str:
    """Return the name of an axis's column: the axis's own name, or `axis NAME` if another column has it."""
    return f"axis {axis}" if axis in RESERVED else axis
