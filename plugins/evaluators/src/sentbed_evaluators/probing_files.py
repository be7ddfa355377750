"""The files of SentEval's probing tasks: where they are, and a strict reader."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
from sentbed import DataError
from sentbed_common import text_lines

from sentbed_evaluators.data_directories import TaskFiles, find_task_files

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
"""Name of the file and number of classes of each task, in SentEval's order."""

SPLITS = {"tr": 100_000, "va": 10_000, "te": 10_000}
"""Number of rows of each part of a file, up to a difference of `TOLERANCE`."""

TOLERANCE = 10
"""Number of rows by which a part may be longer or shorter than in `SPLITS`. Files differ from these numbers
because their classes were balanced: CoordinationInversion has 100,002, 10,002 and 10,002 rows."""


@attrs.frozen
class _Row:
    """A line of a file: its number, label and words, without the name of its part."""

    line: int
    label: str
    words: list[str]


@attrs.frozen(eq=False)
class Part:
    """The rows of one part of a file, in SentEval's order: by number of words, then by class."""

    texts: tuple[str, ...]
    labels: NDArray[np.int64]


def find_files(data_dir: str | None) -> TaskFiles:
    """Return the files of all tasks; raises `DataError` if no file of any task is found."""
    paths = {task: [file] for task, (file, _) in TASKS.items()}
    return find_task_files(data_dir, "senteval-probing", paths)


def read_task(file: Path, classes: int | None) -> tuple[Part, Part, Part]:
    """Read the training, development and test part of a task.

    Classes are numbered by the sorted labels of the training part. If `classes` is given, the file must have this
    number of classes, and SentEval's numbers of rows.

    Raises:
        DataError: if the file is malformed or has other numbers of rows or classes; with file and line.
    """
    rows: dict[str, list[_Row]] = {"tr": [], "va": [], "te": []}
    for line, text in text_lines(file):
        fields = text.rstrip().split("\t")
        if len(fields) < 3 or fields[0] not in SPLITS:
            raise DataError(
                f"the line has {len(fields)} fields, the first {fields[0][:20]!r}, but `tr`, `va` or `te`, a "
                f"label and a sentence were expected, with tabs between; repair or remove the line",
                file,
                line,
            )

        rows[fields[0]].append(_Row(line, fields[1], fields[-1].split()))

    counts = Counter(row.label for row in rows["tr"])
    _check_sizes(file, rows, counts, classes)
    labels = sorted(counts)
    return (
        _sort(rows["tr"], labels, file),
        _sort(rows["va"], labels, file),
        _sort(rows["te"], labels, file),
    )


def _check_sizes(
    file: Path,
    rows: Mapping[str, list[_Row]],
    counts: Mapping[str, int],
    classes: int | None,
) -> None:
    """Raise `DataError` if a part has a wrong number of rows, or the file a wrong number of labels.

    `counts` has the number of training rows of each label.
    """
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


def _sort(
    rows: list[_Row],
    labels: list[str],
    file: Path,
) -> Part:
    """Return the rows in SentEval's order, with class numbers for their labels."""
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
