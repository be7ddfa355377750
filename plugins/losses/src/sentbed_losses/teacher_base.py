"""The base class of losses that compare the trained encoder with a frozen teacher."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
from sentbed.protocols import Loss, StagePlace

from sentbed_losses.columns import TEACHER


@attrs.frozen
class Taught(Loss):
    """A loss with columns `teacher_NAME`. They have the texts of `NAME`, and a frozen encoder encodes them.

    The data source `for-teacher` adds these columns. The stage names their encoder:

        columns = { anchor = "student", positive = "student", teacher_anchor = "teacher", ... }
    """

    def misfits(self, place: StagePlace) -> Iterator[str]:
        """Yield a problem for each column of the teacher whose encoder the stage would train."""
        for column in sorted(self.columns):
            if column.startswith(TEACHER) and column not in place.fixed:
                yield (
                    f"the loss `{self.name}` takes the column `{column}` from a teacher, and this stage "
                    "trains the encoder of that column; name the teacher in `freeze` and in "
                    f'`columns = {{ {column} = "..." }}`'
                )


def teachers(columns: frozenset[str]) -> frozenset[str]:
    """Return the names of the teacher's columns for these columns of texts."""
    return frozenset(TEACHER + name for name in columns)
