"""Files of labelled sentences or pairs of sentences, such as those of SentEval's transfer tasks and of GLUE."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import TypeAlias

import attrs

from sentbed_evaluators.data_directories import TaskFiles, require_count

Row: TypeAlias = tuple[tuple[str, ...], int]
"""The one or two sentences of an example, and its class number."""


@attrs.frozen
class LabelledFiles:
    """The files of a task, how they are read, and what is published about them."""

    files: Mapping[str, tuple[str, ...]]
    """Paths of the files of each split. A task without a test set has the single split `all`."""
    sizes: Mapping[str, tuple[int, ...]]
    """Published number of rows of each split, one for each release that is in use."""
    classes: int
    rows: Callable[[Path, int], Iterator[Row]]
    """Function that yields the rows of a file; its second argument is the index of the file in the split."""
    pairs: bool = False

    @property
    def paths(self) -> list[str]:
        """The paths of the files of all splits."""
        return list(chain.from_iterable(self.files.values()))

    def read(
        self,
        files: TaskFiles,
        split: str,
        check_sizes: bool,
    ) -> list[Row]:
        """Return the rows of a split, in the order of its files.

        Raises:
            DataError: if a file is malformed, or the split has no row; with `check_sizes`, also if it has another
                number of rows than published.
        """
        rows: list[Row] = []
        for place, path in enumerate(self.files[split]):
            rows += self.rows(files.root / path, place)

        file = files.root / self.files[split][0]
        if check_sizes or not rows:
            require_count(len(rows), self.sizes[split], split, file, files.collection)
        return rows
