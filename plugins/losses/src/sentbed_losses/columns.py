"""Names of the columns that several losses read."""

from __future__ import annotations

HARD_NEGATIVES = ("negative", *(f"negative_{number}" for number in range(2, 17)))
"""Columns of hard negatives, up to 16 in a row."""

SCORE = "score"
"""Column of scores."""

TEACHER = "teacher_"
"""Beginning of a column that a teacher encodes: `teacher_anchor` has the texts of `anchor`."""
