"""The files of SentEval's transfer tasks, read as SentEval does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TypeAlias

import attrs
from sentbed import DataError

from sentbed_evaluators import data_directories
from sentbed_evaluators.known_collections import how_to_get
from sentbed_evaluators.senteval_sts_files import ROOTS, digest
from sentbed_evaluators.text_lines import lines

Row: TypeAlias = tuple[tuple[str, ...], int]
"""The sentences of an example, and its class."""

QUESTION_TYPES = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")
"""The coarse classes of TREC, numbered as SentEval numbers them."""


@attrs.frozen
class TransferTask:
    """The files and sizes of a task."""

    folder: str
    files: Mapping[str, tuple[str, ...]]
    """Files by split; a task that is cross-validated as a whole has the single split `all`."""
    sizes: Mapping[str, int]
    """Examples of each split, as published."""
    classes: int
    read: Callable[[Path, int], list[Row]]
    """(file, its index in the split) -> rows."""
    pairs: bool = False


@attrs.frozen
class Split:
    """The examples of one split, in the order in which SentEval gives them to the classifier."""

    sentences: tuple[tuple[str, ...], ...]
    """First sentences and, for pairs, second sentences."""
    labels: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.labels)


def _words(text: str) -> str:
    return " ".join(text.split())


def _one_class_a_file(file: Path, place: int) -> list[Row]:
    # The first file holds class 1. Empty lines count: CR has four of them.
    rows: list[Row] = [
        ((_words(line),), 1 - place) for _, line in lines(file, "latin-1")
    ]
    return rows


def _sst2(file: Path, place: int) -> list[Row]:
    rows: list[Row] = []
    for number, line in lines(file):
        fields = line.strip().split("\t")
        if len(fields) < 2:
            raise DataError(
                "the line has no tab, expected sentence, tab, label; repair it",
                file,
                number,
            )
        rows.append(((_words(fields[0]),), _label(fields[1], 2, file, number)))
    return rows


def _sst5(file: Path, place: int) -> list[Row]:
    rows: list[Row] = []
    for number, line in lines(file):
        label, _, sentence = line.strip().partition(" ")
        rows.append(((_words(sentence),), _label(label, 5, file, number)))
    return rows


def _trec(file: Path, place: int) -> list[Row]:
    rows: list[Row] = []
    for number, line in lines(file, "latin-1"):
        coarse, colon, rest = line.strip().partition(":")
        _, space, sentence = rest.partition(" ")
        if not colon or not space or coarse not in QUESTION_TYPES:
            raise DataError(
                f"the line begins with {line[:20]!r}, expected `LABEL:fine question` with a label of "
                f"{', '.join(QUESTION_TYPES)}; repair it",
                file,
                number,
            )
        rows.append(((_words(sentence),), QUESTION_TYPES.index(coarse)))
    return rows


def _mrpc(file: Path, place: int) -> list[Row]:
    rows: list[Row] = []
    # The first line is a header.
    for number, line in islice(lines(file), 1, None):
        fields = line.strip().split("\t")
        if len(fields) != 5:
            raise DataError(
                f"the line has {len(fields)} fields, expected 5 (label, two ids, two sentences); repair it",
                file,
                number,
            )
        rows.append(
            ((_words(fields[3]), _words(fields[4])), _label(fields[0], 2, file, number))
        )
    return rows


def _label(text: str, classes: int, file: Path, number: int) -> int:
    if text not in [str(label) for label in range(classes)]:
        raise DataError(
            f"found the label {text!r}, expected one of 0 to {classes - 1}; repair the line",
            file,
            number,
        )
    return int(text)


def _binary(folder: str, files: tuple[str, str], size: int) -> TransferTask:
    return TransferTask(folder, {"all": files}, {"all": size}, 2, _one_class_a_file)


_SST = {split: (f"sentiment-{split}",) for split in ("train", "dev", "test")}

TRANSFER: dict[str, TransferTask] = {
    "MR": _binary("MR", ("rt-polarity.pos", "rt-polarity.neg"), 10_662),
    "CR": _binary("CR", ("custrev.pos", "custrev.neg"), 3_775),
    "SUBJ": _binary("SUBJ", ("subj.objective", "subj.subjective"), 10_000),
    "MPQA": _binary("MPQA", ("mpqa.pos", "mpqa.neg"), 10_606),
    "SST2": TransferTask(
        "SST/binary", _SST, {"train": 67_349, "dev": 872, "test": 1_821}, 2, _sst2
    ),
    "SST5": TransferTask(
        "SST/fine", _SST, {"train": 8_544, "dev": 1_101, "test": 2_210}, 5, _sst5
    ),
    "TREC": TransferTask(
        "TREC",
        {"train": ("train_5500.label",), "test": ("TREC_10.label",)},
        {"train": 5_452, "test": 500},
        len(QUESTION_TYPES),
        _trec,
    ),
    "MRPC": TransferTask(
        "MRPC",
        {"train": ("msr_paraphrase_train.txt",), "test": ("msr_paraphrase_test.txt",)},
        {"train": 4_076, "test": 1_725},
        2,
        _mrpc,
        pairs=True,
    ),
}
"""Tasks by name, with the sizes published with SentEval (Conneau & Kiela, 2018)."""


def find_transfer_root(data_dir: str | None) -> Path:
    """Return SentEval's `downstream` directory; raises `DataError` if it has no transfer task."""
    folders = (task.folder for task in TRANSFER.values())
    return data_directories.find_root(
        data_dir, ROOTS, folders, "transfer task of SentEval's", "senteval"
    )


def transfer_files(root: Path, name: str) -> tuple[Path, ...]:
    """Return the files of a task, whether they exist or not."""
    task = TRANSFER[name]
    return tuple(
        root / task.folder / file for files in task.files.values() for file in files
    )


def missing_transfer(root: Path, name: str) -> str | None:
    """Return a message with a task's first missing file; None if there is none."""
    missing = [file for file in transfer_files(root, name) if not file.is_file()]
    if not missing:
        return None
    present = [
        other
        for other in TRANSFER
        if all(file.is_file() for file in transfer_files(root, other))
    ]
    return (
        f"task `{name}` needs `{missing[0].relative_to(root).as_posix()}`, missing in `{root}`; add it "
        f"({how_to_get('senteval')}) or leave the task out (`skip_missing = true`); "
        f"tasks present: {', '.join(present) or 'none'}"
    )


def read_transfer(
    root: Path, name: str, check_sizes: bool = True
) -> tuple[dict[str, Split], str]:
    """Return the splits of a task, sorted as SentEval sorts them, and a hash of its files.

    Raises `DataError` with file and line; with `check_sizes`, also if a split has another number of
    examples than published.
    """
    if message := missing_transfer(root, name):
        raise DataError(message)
    task = TRANSFER[name]
    splits = {}
    for split, files in task.files.items():
        paths = [root / task.folder / file for file in files]
        rows = [
            row for place, path in enumerate(paths) for row in task.read(path, place)
        ]
        if not rows:
            raise DataError(
                f"the split has no example; take SentEval's files ({how_to_get('senteval')})",
                paths[0],
            )
        if check_sizes and len(rows) != task.sizes[split]:
            raise DataError(
                f"found {len(rows):,} examples in {split} of `{name}`, expected {task.sizes[split]:,}; "
                f"take SentEval's files ({how_to_get('senteval')}), or set `check_sizes = false`",
                paths[0],
            )
        if split in ("all", "train") and len({label for _, label in rows}) < 2:
            raise DataError(
                f"all examples in {split} of `{name}` have the class {rows[0][1]}, but a classifier needs "
                f"two; repair the files, or take SentEval's ({how_to_get('senteval')})",
                paths[0],
            )
        splits[split] = _sorted(rows)
    return splits, digest(transfer_files(root, name))


def _sorted(rows: Sequence[Row]) -> Split:
    """Sort by the number of words of each sentence, then by class: the folds depend on this order."""
    ordered = sorted(
        rows, key=lambda row: (*(len(text.split()) for text in row[0]), row[1])
    )
    sides = zip(*(texts for texts, _ in ordered), strict=True)
    return Split(tuple(sides), tuple(label for _, label in ordered))
