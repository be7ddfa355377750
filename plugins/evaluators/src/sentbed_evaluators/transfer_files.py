"""The files of SentEval's transfer tasks: where they are, and a strict reader with SentEval's rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from sentbed import DataError
from sentbed_common import TableLayout, table_rows, text_lines

from sentbed_evaluators.data_directories import TaskFiles, digest, find_task_files
from sentbed_evaluators.labelled_files import LabelledFiles, Row
from sentbed_evaluators.probe_task import LabelledTexts, ProbeTask
from sentbed_evaluators.text_lines import class_number, single_spaced

_BINARY = ("0", "1")
_FIVE = ("0", "1", "2", "3", "4")
"""Labels of SST5, from very negative to very positive."""

QUESTION_TYPES = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")
"""The coarse classes of TREC, numbered as SentEval numbers them."""


def _one_class_per_file(file: Path, place: int) -> Iterator[Row]:
    """Yield the rows of a file of MR, CR, SUBJ or MPQA, which has the sentences of one class."""
    # The first file has the sentences of class 1. Empty lines are sentences, too: CR has four of them.
    for _, line in text_lines(file, "latin-1"):
        yield (single_spaced(line),), 1 - place


def _sst2(file: Path, place: int) -> Iterator[Row]:
    """Yield the rows of a file of SST2: sentence, tab, label."""
    for number, line in text_lines(file):
        sentence, _, label = line.strip().partition("\t")
        yield (single_spaced(sentence),), class_number(label, _BINARY, file, number)


def _sst5(file: Path, place: int) -> Iterator[Row]:
    """Yield the rows of a file of SST5: label, space, sentence."""
    for number, line in text_lines(file):
        label, _, sentence = line.strip().partition(" ")
        yield (single_spaced(sentence),), class_number(label, _FIVE, file, number)


def _trec(file: Path, place: int) -> Iterator[Row]:
    """Yield the rows of a file of TREC: coarse class, colon, fine class, space, question."""
    for number, line in text_lines(file, "latin-1"):
        coarse, _, rest = line.strip().partition(":")
        _, _, sentence = rest.partition(" ")
        if not sentence:
            raise DataError(
                f"the line begins with {line[:20]!r}, expected `LABEL:fine question`; repair it",
                file,
                number,
            )

        label = class_number(coarse, QUESTION_TYPES, file, number)
        yield (single_spaced(sentence),), label


def _mrpc(file: Path, place: int) -> Iterator[Row]:
    """Yield the rows of a file of MRPC: label, two ids and two sentences, separated by tabs."""
    columns = ("#1 String", "#2 String", "Quality")
    for number, row in table_rows(str(file), columns, TableLayout(separator="\t")):
        first, second, label = row
        sentences = single_spaced(first), single_spaced(second)
        yield sentences, class_number(label, _BINARY, file, number)


def _binary(
    folder: str,
    positive: str,
    negative: str,
    size: int,
) -> LabelledFiles:
    """Return the files of a task with a file of positive and a file of negative sentences, without splits."""
    files = (f"{folder}/{positive}", f"{folder}/{negative}")
    return LabelledFiles({"all": files}, {"all": (size,)}, 2, _one_class_per_file)


def _sst(folder: str) -> dict[str, tuple[str, ...]]:
    """Return the files of each split of SST."""
    files: dict[str, tuple[str, ...]] = {}
    for split in ("train", "dev", "test"):
        files[split] = (f"SST/{folder}/sentiment-{split}",)
    return files


TRANSFER: dict[str, LabelledFiles] = {
    "MR": _binary("MR", "rt-polarity.pos", "rt-polarity.neg", 10_662),
    "CR": _binary("CR", "custrev.pos", "custrev.neg", 3_775),
    "SUBJ": _binary("SUBJ", "subj.objective", "subj.subjective", 10_000),
    "MPQA": _binary("MPQA", "mpqa.pos", "mpqa.neg", 10_606),
    "SST2": LabelledFiles(
        _sst("binary"), {"train": (67_349,), "dev": (872,), "test": (1_821,)}, 2, _sst2
    ),
    "SST5": LabelledFiles(
        _sst("fine"), {"train": (8_544,), "dev": (1_101,), "test": (2_210,)}, 5, _sst5
    ),
    "TREC": LabelledFiles(
        {"train": ("TREC/train_5500.label",), "test": ("TREC/TREC_10.label",)},
        {"train": (5_452,), "test": (500,)},
        len(QUESTION_TYPES),
        _trec,
    ),
    "MRPC": LabelledFiles(
        {
            "train": ("MRPC/msr_paraphrase_train.txt",),
            "test": ("MRPC/msr_paraphrase_test.txt",),
        },
        {"train": (4_076,), "test": (1_725,)},
        2,
        _mrpc,
        pairs=True,
    ),
}
"""The files of each task, with the sizes that SentEval published (Conneau & Kiela, 2018)."""


def find_files(data_dir: str | None) -> TaskFiles:
    """Return the files of all tasks; raises `DataError` if the data directory has no file of any task."""
    paths = {name: task.paths for name, task in TRANSFER.items()}
    return find_task_files(data_dir, "senteval", paths)


def read_transfer(
    files: TaskFiles,
    name: str,
    check_sizes: bool = True,
) -> ProbeTask:
    """Return a task, with each split sorted as SentEval sorts it.

    Raises:
        DataError: if a file is missing or malformed, or a split has no example; with `check_sizes`, also if it
            has another number of examples than published.
    """
    task = TRANSFER[name]
    data = digest(files[name])
    splits = {}
    for split in task.files:
        rows = task.read(files, split, check_sizes)
        splits[split] = LabelledTexts.of(sorted(rows, key=_order))
    return ProbeTask(name, splits, task.classes, data, "senteval")


def _order(row: tuple[Sequence[str], int]) -> tuple[list[int], int]:
    """Return the number of words of each sentence, and the class; the folds depend on the order by them."""
    sentences, label = row
    return [len(text.split()) for text in sentences], label
