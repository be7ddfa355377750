"""SentEval's probing files: their paths and contents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
from sentbed import DataError

from sentbed_evaluators.data_directories import TaskFiles, find_root
from sentbed_evaluators.text_lines import lines

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

TASKS: dict[str, tuple[str, int]] = {
    "Length": ("sentence_length.txt", 6),
    "WordContent": ("word_content.txt", 1000),
    "Depth": ("tree_depth.txt", 7),
    "TopConstituents": ("top_constituents.txt", 20),
    "BigramShift": ("bigram_shift.txt", 2),
    "Tense": ("past_present.txt", 2),
    "SubjNumber": ("subj_number.txt", 2),
    "ObjNumber": ("obj_number.txt", 2),
    "OddManOut": ("odd_man_out.txt", 2),
    "CoordinationInversion": ("coordination_inversion.txt", 2),
}
"""File and number of classes of each task, in SentEval's order."""

SPLITS = {"tr": 100_000, "va": 10_000, "te": 10_000}
"""Part -> its number of rows, give or take `TOLERANCE`."""

TOLERANCE = 10
"""Rows by which a part may be longer or shorter than in `SPLITS`, since its classes were balanced:
CoordinationInversion has 100,002, 10,002 and 10,002 rows."""

ROOTS = ("senteval/probing", "probing", "data/probing", ".")
"""Possible paths of SentEval's `probing`, relative to the data directory."""


@attrs.frozen
class _Row:
    """A line of the file."""

    line: int
    label: str
    words: list[str]


@attrs.frozen(eq=False)
class Part:
    """The rows of one part, in SentEval's training order: by number of words, then by class."""

    texts: tuple[str, ...]
    labels: NDArray[np.int64]


def find_files(data_dir: str | None) -> TaskFiles:
    """Return the files of all tasks in `probing`; raises `DataError` if it has none."""
    names = [file for file, _ in TASKS.values()]
    what, collection = "probing data of SentEval", "senteval-probing"
    root = find_root(data_dir, (*ROOTS, "../probing"), names, what, collection)
    files = {task: (root / file,) for task, (file, _) in TASKS.items()}
    return TaskFiles(collection, root, files)


def read_task(file: Path, classes: int | None) -> tuple[Part, Part, Part]:
    """Read training, development and test part of a task; raises `DataError` with file and line.

    The labels of the training part are numbered in sorted order. With `classes`, there must be exactly
    that many, and SentEval's numbers of rows.
    """
    rows: dict[str, list[_Row]] = {split: [] for split in SPLITS}
    for line, text in lines(file):
        fields = text.rstrip().split("\t")
        if len(fields) < 3 or fields[0] not in SPLITS:
            raise DataError(
                f"the line has {len(fields)} fields, the first {fields[0][:20]!r}, but `tr`, `va` or `te`, a "
                f"label and a sentence were expected, with tabs between; repair or remove the line",
                file,
                line,
            )
        rows[fields[0]].append(_Row(line, fields[1], fields[-1].split()))
    _check_sizes(file, rows, classes)
    labels = sorted({row.label for row in rows["tr"]})
    train, development, test = (_sort(part, labels, file) for part in rows.values())
    return train, development, test


def _check_sizes(
    file: Path, rows: Mapping[str, list[_Row]], classes: int | None
) -> None:
    """Raise `DataError` for a wrong number of rows or labels."""
    again = "download it again with `sentbed data get senteval-probing`"
    advice_for_own_data = "or set `check_sizes = false` where it is data of your own"
    for split, expected in SPLITS.items():
        size = len(rows[split])
        if not size or (classes is not None and abs(size - expected) > TOLERANCE):
            raise DataError(
                f"found {size:,} rows of `{split}`, but SentEval's file has about {expected:,}; {again}, "
                f"{advice_for_own_data}",
                file,
            )

    counts = Counter(row.label for row in rows["tr"])
    if classes is not None and len(counts) != classes:
        rarest = min(rows["tr"], key=lambda row: counts[row.label])
        raise DataError(
            f"found {len(counts)} labels, but SentEval's file has {classes}; the rarest, {rarest.label!r}, is "
            f"first here; repair the line, {again}, {advice_for_own_data}",
            file,
            rarest.line,
        )
    if len(counts) < 2:
        label = rows["tr"][0].label
        raise DataError(
            f"all rows of `tr` have the label {label!r}; a task needs two", file
        )


def _sort(rows: list[_Row], labels: list[str], file: Path) -> Part:
    """Return the rows in SentEval's training order, with their labels numbered."""
    import numpy as np

    numbers = {label: number for number, label in enumerate(labels)}
    for row in rows:
        if row.label not in numbers:
            raise DataError(
                f"the label {row.label!r} is in no row of `tr`, so no classifier can learn it; repair or "
                f"remove the line",
                file,
                row.line,
            )
    texts, classes = [], []
    for row in sorted(rows, key=lambda row: (len(row.words), numbers[row.label])):
        texts.append(" ".join(row.words))
        classes.append(numbers[row.label])
    return Part(tuple(texts), np.array(classes, np.int64))
