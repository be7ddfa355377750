"""Names of the columns that several losses read."""

from __future__ import annotations

HARD_NEGATIVES = ("negative", *(f"negative_{number}" for number in range(2, 9)))
"""Columns of hard negatives, up to 8 in a row."""

SCORE = "score"
"""Column of scores."""

TEACHER = "teacher_"
"""Beginning of a column that a teacher encodes: `teacher_anchor` has the texts of `anchor`."""
