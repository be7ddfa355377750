"""The name of an axis as a column of a table: the same in CSV and data frames."""

from __future__ import annotations

RESERVED = frozenset(
    {
        *(
            "cell",
            "seed",
            "seeds",
            "encoder",
            "evaluator",
            "protocol",
            "task",
            "metric",
            "value",
        ),
        *("direction", "degenerate", "status", "table"),
        *("mean", "std", "difference", "corrected p", "published"),
        *(
            "letters",
            "lowest_rank",
            "highest_rank",
            "from_best",
            "low",
            "high",
            "mean_rank",
            "task_letters",
        ),
    }
)
"""Columns of the tables of a study that are no axes."""


def axis_column(axis: str) -> str:
    """Return the name of an axis's column: its own, or `axis NAME` if a column in `RESERVED` has it."""
    return f"axis {axis}" if axis in RESERVED else axis
