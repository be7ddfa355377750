"""The files of SentEval's probing tasks: where they are, and a strict reader."""

from __future__ import annotations

from pathlib import Path

import attrs
from sentbed import DataError
from sentbed_common import text_lines

from sentbed_evaluators.data_directories import (
    TaskFiles,
    digest,
    find_task_files,
    require_count,
)
from sentbed_evaluators.probe_task import LabelledTexts, ProbeTask

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


def find_files(data_dir: str | None) -> TaskFiles:
    """Return the files of all tasks; raises `DataError` if no file of any task is found."""
    paths = {task: [file] for task, (file, _) in TASKS.items()}
    return find_task_files(data_dir, "senteval-probing", paths)


def read_task(
    files: TaskFiles,
    name: str,
    check_sizes: bool,
) -> ProbeTask:
    """Read the training, development and test part of a task, in SentEval's order: by words, then by class.

    Classes are numbered by the sorted labels of the training part.

    Raises:
        DataError: if the file is malformed; with `check_sizes`, also if it has other numbers of rows or classes
            than SentEval's.
    """
    (file,) = files[name]
    rows = _read_rows(file)
    for part, expected in SPLITS.items():
        if check_sizes or not rows[part]:
            count = len(rows[part])
            require_count(count, [expected], part, file, files.collection, TOLERANCE)

    labels = sorted({row.label for row in rows["tr"]})
    if check_sizes and len(labels) != TASKS[name][1]:
        raise DataError(
            f"found {len(labels)} labels, expected {TASKS[name][1]}; `sentbed data get {files.collection}` "
            "downloads the file again, or set `check_sizes = false` where it is data of your own",
            file,
        )

    splits = {}
    for part, split in (("tr", "train"), ("va", "dev"), ("te", "test")):
        splits[split] = _sorted(rows[part], labels, file)
    return ProbeTask(name, splits, len(labels), digest([file]))


def _read_rows(file: Path) -> dict[str, list[_Row]]:
    """Return the rows of each part of a file."""
    rows: dict[str, list[_Row]] = {part: [] for part in SPLITS}
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
    return rows


def _sorted(
    rows: list[_Row],
    labels: list[str],
    file: Path,
) -> LabelledTexts:
    """Return the rows in SentEval's order, with class numbers for their labels."""
    numbers = {label: number for number, label in enumerate(labels)}
    for row in rows:
        if row.label not in numbers:
            raise DataError(
                f"the label {row.label!r} is in no row of `tr`, so no classifier can learn it; repair or "
                f"remove the line",
                file,
                row.line,
            )

    labelled = []
    for row in sorted(rows, key=lambda row: (len(row.words), numbers[row.label])):
        labelled.append(((" ".join(row.words),), numbers[row.label]))
    return LabelledTexts.of(labelled)
