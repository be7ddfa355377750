"""Names of the columns of a batch that several losses read."""

from __future__ import annotations

HARD_NEGATIVES = ("negative", *(f"negative_{number}" for number in range(2, 9)))
"""Columns of hard negatives. A row may have up to 8."""

SCORE = "score"
"""Column of the scores of pairs, or of a teacher's margins."""

TEACHER = "teacher_"
"""Prefix of the name of a column that a teacher encodes. `teacher_anchor` has the texts of `anchor`."""
