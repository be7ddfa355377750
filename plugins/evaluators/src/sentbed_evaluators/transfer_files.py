"""The files of SentEval's transfer tasks: where they are, and a strict reader with SentEval's rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import TypeAlias

import attrs
from sentbed import DataError
from sentbed_common import text_lines

from sentbed_evaluators.data_directories import TaskFiles, digest, find_task_files
from sentbed_evaluators.text_lines import class_number, single_spaced

Row: TypeAlias = tuple[tuple[str, ...], int]
"""The one or two sentences of an example, and its class number."""

_HOW_TO_GET = "`sentbed data get senteval` downloads it"

_BINARY = ("0", "1")
_FIVE = ("0", "1", "2", "3", "4")
"""Labels of SST5, from very negative to very positive."""

QUESTION_TYPES = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")
"""The coarse classes of TREC, numbered as SentEval numbers them."""


@attrs.frozen
class TaskLayout:
    """The files, the published sizes, the number of classes and the reader of a task."""

    folder: str
    files: Mapping[str, tuple[str, ...]]
    """Files of each split. A task without a test set has the single split `all`."""
    sizes: Mapping[str, int]
    """Published number of examples of each split."""
    classes: int
    read: Callable[[Path, int], Iterator[Row]]
    """Function that yields the rows of a file; its second argument is the index of the file in the split."""
    pairs: bool = False


@attrs.frozen
class Split:
    """The examples of one split, in the order in which SentEval gives them to the classifier."""

    sentences: tuple[tuple[str, ...], ...]
    """A tuple of all sentences; for pairs, a tuple of all first and a tuple of all second sentences."""
    labels: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.labels)


def _one_class_per_file(file: Path, place: int) -> Iterator[Row]:
    """Yield the rows of a file of MR, CR, SUBJ or MPQA, which has the sentences of one class."""
    # The first file has the sentences of class 1. Empty lines are sentences, too: CR has four of them.
    for _, line in text_lines(file, "latin-1"):
        yield (single_spaced(line),), 1 - place


def _sst2(file: Path, place: int) -> Iterator[Row]:
    """Yield the rows of a file of SST2: sentence, tab, label."""
    for number, line in text_lines(file):
        fields = line.strip().split("\t")
        if len(fields) < 2:
            raise DataError(
                "the line has no tab, expected sentence, tab, label; repair it",
                file,
                number,
            )

        yield (
            (single_spaced(fields[0]),),
            class_number(fields[1], _BINARY, file, number),
        )


def _sst5(file: Path, place: int) -> Iterator[Row]:
    """Yield the rows of a file of SST5: label, space, sentence."""
    for number, line in text_lines(file):
        label, _, sentence = line.strip().partition(" ")
        yield (single_spaced(sentence),), class_number(label, _FIVE, file, number)


def _trec(file: Path, place: int) -> Iterator[Row]:
    """Yield the rows of a file of TREC: coarse class, colon, fine class, space, question."""
    for number, line in text_lines(file, "latin-1"):
        coarse, colon, rest = line.strip().partition(":")
        _, space, sentence = rest.partition(" ")
        if not colon or not space or coarse not in QUESTION_TYPES:
            raise DataError(
                f"the line begins with {line[:20]!r}, expected `LABEL:fine question` with a label of "
                f"{', '.join(QUESTION_TYPES)}; repair it",
                file,
                number,
            )

        yield (single_spaced(sentence),), QUESTION_TYPES.index(coarse)


def _mrpc(file: Path, place: int) -> Iterator[Row]:
    """Yield the rows of a file of MRPC: label, two ids and two sentences, separated by tabs."""
    # The first line is a header.
    for number, line in islice(text_lines(file), 1, None):
        fields = line.strip().split("\t")
        if len(fields) != 5:
            raise DataError(
                f"the line has {len(fields)} fields, expected 5 (label, two ids, two sentences); repair it",
                file,
                number,
            )

        sentences = single_spaced(fields[3]), single_spaced(fields[4])
        yield sentences, class_number(fields[0], _BINARY, file, number)


def _binary(
    folder: str,
    files: tuple[str, str],
    size: int,
) -> TaskLayout:
    """Return the layout of a task with a file of positive and a file of negative sentences, without splits."""
    return TaskLayout(folder, {"all": files}, {"all": size}, 2, _one_class_per_file)


_SST = {
    "train": ("sentiment-train",),
    "dev": ("sentiment-dev",),
    "test": ("sentiment-test",),
}

TRANSFER: dict[str, TaskLayout] = {
    "MR": _binary("MR", ("rt-polarity.pos", "rt-polarity.neg"), 10_662),
    "CR": _binary("CR", ("custrev.pos", "custrev.neg"), 3_775),
    "SUBJ": _binary("SUBJ", ("subj.objective", "subj.subjective"), 10_000),
    "MPQA": _binary("MPQA", ("mpqa.pos", "mpqa.neg"), 10_606),
    "SST2": TaskLayout(
        "SST/binary", _SST, {"train": 67_349, "dev": 872, "test": 1_821}, 2, _sst2
    ),
    "SST5": TaskLayout(
        "SST/fine", _SST, {"train": 8_544, "dev": 1_101, "test": 2_210}, 5, _sst5
    ),
    "TREC": TaskLayout(
        "TREC",
        {"train": ("train_5500.label",), "test": ("TREC_10.label",)},
        {"train": 5_452, "test": 500},
        len(QUESTION_TYPES),
        _trec,
    ),
    "MRPC": TaskLayout(
        "MRPC",
        {"train": ("msr_paraphrase_train.txt",), "test": ("msr_paraphrase_test.txt",)},
        {"train": 4_076, "test": 1_725},
        2,
        _mrpc,
        pairs=True,
    ),
}
"""The layout of each task, with the sizes that SentEval published (Conneau & Kiela, 2018)."""


def find_files(data_dir: str | None) -> TaskFiles:
    """Return the files of all tasks; raises `DataError` if the data directory has no file of any task."""
    paths = {}
    for name, task in TRANSFER.items():
        names = chain.from_iterable(task.files.values())
        paths[name] = [f"{task.folder}/{file}" for file in names]

    return find_task_files(data_dir, "senteval", paths)


def read_transfer(
    files: TaskFiles,
    name: str,
    check_sizes: bool = True,
) -> tuple[dict[str, Split], str]:
    """Return the splits of a task, sorted as SentEval sorts them, and a hash of the task's files.

    Raises:
        DataError: if a file is missing or malformed, or a split has no example or examples of one class only;
            with `check_sizes`, also if a split has another number of examples than published.
    """
    task = TRANSFER[name]
    data = digest(files[name])
    splits = {}
    for split, file_names in task.files.items():
        rows: list[Row] = []
        for place, file_name in enumerate(file_names):
            rows += task.read(files.root / task.folder / file_name, place)

        for problem in _problems(name, split, rows, check_sizes):
            raise DataError(problem, files.root / task.folder / file_names[0])

        splits[split] = _sorted(rows)

    return splits, data


def _problems(
    name: str,
    split: str,
    rows: Sequence[Row],
    check_sizes: bool,
) -> Iterator[str]:
    """Yield problems with the examples of a split."""
    size = TRANSFER[name].sizes[split]
    if not rows:
        yield f"the split has no example; take SentEval's files ({_HOW_TO_GET})"
    if check_sizes and len(rows) != size:
        yield (
            f"found {len(rows):,} examples in {split} of `{name}`, expected {size:,}; "
            f"take SentEval's files ({_HOW_TO_GET}), or set `check_sizes = false`"
        )

    labels = {label for _, label in rows}
    if split in ("all", "train") and len(labels) < 2:
        yield (
            f"all examples in {split} of `{name}` have the class {rows[0][1]}, but a classifier needs "
            f"two; repair the files, or take SentEval's ({_HOW_TO_GET})"
        )


def _sorted(rows: Sequence[Row]) -> Split:
    """Return the rows as a split, sorted by the number of words of each sentence, then by class.

    The folds of a cross-validation depend on this order.
    """

    def order(row: Row) -> tuple[list[int], int]:
        sentences, label = row
        return [len(text.split()) for text in sentences], label

    sentences, labels = zip(*sorted(rows, key=order), strict=True)
    return Split(tuple(zip(*sentences, strict=True)), labels)
