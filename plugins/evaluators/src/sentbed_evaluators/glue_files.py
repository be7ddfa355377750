"""The files of the nine GLUE tasks that SentGLUE uses: where they are, and a strict reader."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sentbed_common import TableLayout, table_rows

from sentbed_evaluators.data_directories import (
    TaskFiles,
    find_task_files,
    require_count,
)
from sentbed_evaluators.labelled_files import LabelledFiles, Row
from sentbed_evaluators.scored_pair_files import PairFile, ScoredPairs
from sentbed_evaluators.text_lines import class_number

_BINARY = ("0", "1")
_ENTAILMENT = ("entailment", "not_entailment")
_PAIR = ("sentence1", "sentence2")
_TABS = TableLayout(separator="\t")


def _task(
    folder: str,
    texts: tuple[str, ...],
    label: str,
    labels: tuple[str, ...],
    train: tuple[int, ...],
    dev: int,
    dev_file: str = "dev.tsv",
    layout: TableLayout = _TABS,
) -> LabelledFiles:
    """Return the files of a task, with the columns of texts and label, and the labels by class number."""

    def rows(file: Path, place: int) -> Iterator[Row]:
        for number, values in table_rows(str(file), (*texts, label), layout):
            *sentences, row_label = values
            yield tuple(sentences), class_number(row_label, labels, file, number)

    files = {"train": (f"{folder}/train.tsv",), "dev": (f"{folder}/{dev_file}",)}
    sizes = {"train": train, "dev": (dev,)}
    return LabelledFiles(files, sizes, len(labels), rows, pairs=len(texts) == 2)


def _mnli(dev_file: str, size: int) -> LabelledFiles:
    """Return the files of MNLI with `dev_file` as its development set, which has `size` rows."""
    labels = ("contradiction", "entailment", "neutral")
    return _task("MNLI", _PAIR, "gold_label", labels, (392_702,), size, dev_file)


STS_B = "STS-B"
"""The task with scores from 0 to 5 instead of classes."""

_STS_B_SIZES = {"train": 5_749, "dev": 1_500}

CLASSIFIED: dict[str, LabelledFiles] = {
    "CoLA": _task(
        "CoLA",
        ("3",),
        "1",
        _BINARY,
        (8_551,),
        1_043,
        layout=TableLayout(header=False, separator="\t"),
    ),
    "SST-2": _task("SST-2", ("sentence",), "label", _BINARY, (67_349,), 872),
    "MRPC": _task(
        "MRPC", ("#1 String", "#2 String"), "Quality", _BINARY, (3_668,), 408
    ),
    "QQP": _task(
        "QQP",
        ("question1", "question2"),
        "is_duplicate",
        _BINARY,
        (363_846, 363_849),
        40_430,
        # Some questions of the published file contain a line end. These rows are skipped, as is usual.
        layout=TableLayout(separator="\t", skip_short_rows=True),
    ),
    "MNLI-m": _mnli("dev_matched.tsv", 9_815),
    "MNLI-mm": _mnli("dev_mismatched.tsv", 9_832),
    "QNLI": _task(
        "QNLI", ("question", "sentence"), "label", _ENTAILMENT, (104_743,), 5_463
    ),
    "RTE": _task("RTE", _PAIR, "label", _ENTAILMENT, (2_490,), 277),
}
"""The tasks with classes. MNLI is two tasks, one for each development set. QNLI's sizes are those of its second
release."""

TASKS = ("CoLA", "SST-2", "MRPC", STS_B, "QQP", "MNLI-m", "MNLI-mm", "QNLI", "RTE")
"""The nine tasks of SentGLUE, in the order of Sentence-T5's table 6. GLUE's WNLI is not among them."""


def find_files(data_dir: str | None, regression: bool = False) -> TaskFiles:
    """Return the files of all tasks. Raises `DataError` if there is no folder of any task, such as `CoLA`.

    STS-B's training file is included only with `regression`, which alone is trained on it.
    """
    paths = {name: CLASSIFIED[name].paths for name in TASKS if name in CLASSIFIED}
    paths[STS_B] = ["STS-B/dev.tsv"]
    if regression:
        paths[STS_B] = ["STS-B/train.tsv", "STS-B/dev.tsv"]
    return find_task_files(data_dir, "glue", paths)


def read_sts_b(
    files: TaskFiles,
    split: str,
    check_sizes: bool,
) -> ScoredPairs:
    """Read a split of STS-B; raises `DataError`, with its file, if a row or the number of rows is wrong."""
    file = files.root / f"STS-B/{split}.tsv"
    columns = (*_PAIR, "score")
    pairs = PairFile(str(file), columns, separator="\t", score_range=(0, 5)).read()
    if check_sizes:
        require_count(len(pairs), [_STS_B_SIZES[split]], split, file, files.collection)
    return pairs
