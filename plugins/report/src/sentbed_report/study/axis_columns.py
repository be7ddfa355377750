"""Names of axes as columns of tables, the same in CSV files and data frames."""

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
"""Names of the columns of a study's tables that are not axes."""


def axis_column(axis: str) -> str:
    """Return the column name of an axis: the axis's name, or `axis NAME` if that is in `RESERVED`."""
    return f"axis {axis}" if axis in RESERVED else axis
