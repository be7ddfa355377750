"""The files of the nine GLUE tasks that SentGLUE uses: where they are, and a strict reader."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal, TypeAlias

import attrs
from sentbed import DataError
from sentbed_common import find_columns, require_number, text_lines

from sentbed_evaluators.data_directories import TaskFiles, find_task_files
from sentbed_evaluators.text_lines import class_number

Split: TypeAlias = Literal["train", "dev"]

_BINARY = ("0", "1")
_ENTAILMENT = ("entailment", "not_entailment")


@attrs.frozen
class Task:
    """The layout of the files of one task."""

    folder: str
    texts: tuple[str, ...]
    """Columns of the one or two sentences: names in the header or, if there is none, positions from 0."""
    label: str
    """Column of the class or of the score: a name or a position."""
    classes: tuple[str, ...]
    """Labels, in the order of their class numbers; empty if the task has scores from 0 to 5 instead."""
    sizes: tuple[tuple[int, int], ...]
    """Numbers of training and development rows, one pair for each release that is in use."""
    dev: str = "dev.tsv"
    header: bool = True
    broken_rows: bool = False
    """Whether the published file has rows with too few fields, since a question contains a line end. Such rows
    are skipped, as is usual."""

    def path(self, split: Split) -> str:
        """Return the path of a split's file, relative to the directory of GLUE."""
        file = "train.tsv" if split == "train" else self.dev
        return f"{self.folder}/{file}"


def _mnli(dev: str, size: int) -> Task:
    """Return the layout of MNLI with the file `dev` as its development set, which has `size` rows."""
    classes = ("contradiction", "entailment", "neutral")
    return Task(
        "MNLI",
        ("sentence1", "sentence2"),
        "gold_label",
        classes,
        ((392_702, size),),
        dev,
    )


TASKS: dict[str, Task] = {
    "CoLA": Task("CoLA", ("3",), "1", _BINARY, ((8_551, 1_043),), header=False),
    "SST-2": Task("SST-2", ("sentence",), "label", _BINARY, ((67_349, 872),)),
    "MRPC": Task(
        "MRPC", ("#1 String", "#2 String"), "Quality", _BINARY, ((3_668, 408),)
    ),
    "STS-B": Task("STS-B", ("sentence1", "sentence2"), "score", (), ((5_749, 1_500),)),
    "QQP": Task(
        "QQP",
        ("question1", "question2"),
        "is_duplicate",
        _BINARY,
        ((363_846, 40_430), (363_849, 40_430)),
        broken_rows=True,
    ),
    "MNLI-m": _mnli("dev_matched.tsv", 9_815),
    "MNLI-mm": _mnli("dev_mismatched.tsv", 9_832),
    "QNLI": Task(
        "QNLI", ("question", "sentence"), "label", _ENTAILMENT, ((104_743, 5_463),)
    ),
    "RTE": Task(
        "RTE", ("sentence1", "sentence2"), "label", _ENTAILMENT, ((2_490, 277),)
    ),
}
"""The nine tasks of SentGLUE, in the order of Sentence-T5's table 6. GLUE's WNLI is not among them, and MNLI is
two tasks, one for each development set. QNLI's sizes are those of its second release."""


@attrs.frozen
class Rows:
    """The rows of a file, in the order of the file."""

    sides: tuple[tuple[str, ...], ...]
    """A tuple of all sentences; for pairs, a tuple of all first and a tuple of all second sentences."""
    labels: tuple[int, ...] = ()
    """Class number of each row."""
    scores: tuple[float, ...] = ()
    """Score of each row, in a task that has scores instead of classes."""
    skipped: int = 0
    """Number of rows that were left out, since they have fewer fields than the header."""

    def __len__(self) -> int:
        return len(self.sides[0])


def find_files(data_dir: str | None, regression: bool = False) -> TaskFiles:
    """Return the files of all tasks. Raises `DataError` if there is no folder of any task, such as `CoLA`.

    The training file of a task with scores is included only with `regression`, since only a regression is trained
    on it.
    """
    paths = {}
    for name, task in TASKS.items():
        paths[name] = [task.path("train"), task.path("dev")]
        if not task.classes and not regression:
            paths[name] = [task.path("dev")]

    return find_task_files(data_dir, "glue", paths)


def read_rows(
    root: Path,
    name: str,
    split: Split,
    check_size: bool,
) -> Rows:
    """Read a split of a task; raises `DataError`, with its file, if a row or the number of rows is wrong."""
    task = TASKS[name]
    file = root / task.path(split)
    sides: list[list[str]] = [[] for _ in task.texts]
    labels, scores, skipped = [], [], 0
    # Lines are read one at a time, since MNLI's parse trees alone have 300 MB.
    numbered_lines = text_lines(file)
    places, width = _columns(task, numbered_lines, file)
    for line, text in numbered_lines:
        fields = text.split("\t")
        if task.broken_rows and len(fields) < width:
            skipped += 1
            continue
        if len(fields) != width:
            raise DataError(
                f"the row has {len(fields)} fields, but {width} were expected; repair the line, or download "
                f"the file again with `sentbed data get glue`",
                file,
                line,
            )

        *sentences, label = (fields[place] for place in places)
        for side, sentence in zip(sides, sentences, strict=True):
            side.append(sentence)

        if task.classes:
            labels.append(class_number(label, task.classes, file, line))
        else:
            scores.append(require_number(label, task.label, file, line, (0, 5)))

    rows = Rows(tuple(map(tuple, sides)), tuple(labels), tuple(scores), skipped)
    sizes = sorted({size[split == "dev"] for size in task.sizes})
    if not rows or (check_size and len(rows) not in sizes):
        expected = " or ".join(f"{size:,}" for size in sizes)
        raise DataError(
            f"found {len(rows):,} rows, but GLUE's `{task.path(split)}` has {expected}; download it again "
            f"with `sentbed data get glue`, or set `check_sizes = false` where it is data of your own",
            file,
        )
    return rows


def _columns(
    task: Task,
    numbered_lines: Iterator[tuple[int, str]],
    file: Path,
) -> tuple[list[int], int]:
    """Read the header; return the places of texts and label in a row, and the number of fields of a row."""
    columns = (*task.texts, task.label)
    if not task.header:
        places = [int(column) for column in columns]
        return places, max(places) + 1

    header = next(numbered_lines, (1, ""))[1]
    if not header:
        raise DataError(
            "the file or its first line is empty, but the names of the columns were expected; "
            "download it again with `sentbed data get glue`",
            file,
        )

    header_names = header.split("\t")
    names = find_columns(columns, header_names, file, 1)
    return [header_names.index(name) for name in names], len(header_names)
