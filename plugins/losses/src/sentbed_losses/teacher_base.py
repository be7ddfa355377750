"""What the losses with a teacher share."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
from sentbed.protocols import Loss

from sentbed_losses.columns import TEACHER


@attrs.frozen
class Taught(Loss):
    """A loss with columns `teacher_NAME`, which a frozen encoder encodes from the texts of `NAME`.

    The data source `for-teacher` gives these columns, and the stage names their encoder:

        columns = { anchor = "student", positive = "student", teacher_anchor = "teacher", ... }
    """

    def misfits(self, batch_size: int, fixed: frozenset[str]) -> Iterator[str]:
        """Yield which of a teacher's columns the stage would train."""
        for column in sorted(
            name for name in self.traits.needs if name.startswith(TEACHER)
        ):
            if column not in fixed:
                yield (
                    f"the loss `{self.name}` takes the column `{column}` from a teacher, and this stage "
                    "trains the encoder of that column; name the teacher in `freeze` and in "
                    f'`columns = {{ {column} = "..." }}`'
                )

    def negatives(self, batch_size: int, columns: frozenset[str]) -> int:
        """Return 0: the teacher's word is a measure, by which nothing is right or wrong."""
        return 0


def teachers(columns: frozenset[str]) -> frozenset[str]:
    """Return the teacher's columns for these columns of texts."""
    return frozenset(TEACHER + name for name in columns)
