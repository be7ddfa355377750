"""The STS and SICK files of SentEval: where they are, and a strict reader."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import attrs
from sentbed import DataError
from sentbed_common import require_number

from sentbed_evaluators.data_directories import (
    TaskFiles,
    digest,
    find_task_files,
    require_count,
)
from sentbed_evaluators.scored_pair_files import PairFile, ScoredPairs
from sentbed_evaluators.text_lines import read_lines, single_spaced

YEARS: dict[str, dict[str, int]] = {
    "STS12": {
        "MSRpar": 750,
        "MSRvid": 750,
        "SMTeuroparl": 459,
        "surprise.OnWN": 750,
        "surprise.SMTnews": 399,
    },
    "STS13": {"FNWN": 189, "headlines": 750, "OnWN": 561},
    "STS14": {
        "deft-forum": 450,
        "deft-news": 300,
        "headlines": 750,
        "OnWN": 750,
        "images": 750,
        "tweet-news": 750,
    },
    "STS15": {
        "answers-forums": 375,
        "answers-students": 750,
        "belief": 375,
        "headlines": 750,
        "images": 750,
    },
    "STS16": {
        "answer-answer": 254,
        "headlines": 249,
        "plagiarism": 230,
        "postediting": 244,
        "question-question": 209,
    },
}
"""Subsets of each yearly task that SentEval lists, with their published numbers of scored pairs.

STS13 lacks the subset SMT, whose licence forbids copies."""

_TRAIN = {"SICK_train.txt": 4500}
_TRIAL = {"SICK_trial.txt": 500}
_TEST = {"SICK_test_annotated.txt": 4927}

SPLITS: dict[str, tuple[str, dict[str, int]]] = {
    "STSB": ("test", {"sts-test.csv": 1379}),
    "STSB-dev": ("dev", {"sts-dev.csv": 1500}),
    "STSB-train": ("train", {"sts-train.csv": 5749}),
    "SICKR": ("test", _TEST),
    "SICKR-dev": ("dev", _TRIAL),
    "SICKR-train": ("train", _TRAIN),
    "SICKR-all": ("train+dev+test", _TRAIN | _TRIAL | _TEST),
}
"""Task with a single list of pairs -> its split, and its files with their published numbers of pairs."""

TASKS = (*YEARS, *SPLITS)

DEVELOPMENT = frozenset(
    task for task, (split, _) in SPLITS.items() if split in ("train", "dev")
)
"""Tasks of development or training data only."""


@attrs.frozen
class Task:
    """The scored pairs of one task."""

    name: str
    split: str
    subsets: tuple[ScoredPairs, ...]
    """The pairs of each subset. STS-B and SICK-R have a single subset."""
    sources: tuple[Path, ...]
    """The file of gold scores of each subset, for messages. If a subset comes from several files, it is
    the first of them."""
    data: str
    """SHA-256 over the files of the task."""

    @property
    def pairs(self) -> ScoredPairs:
        """The pairs of all subsets, subset after subset."""
        return ScoredPairs.joined(self.subsets)

    @property
    def is_yearly(self) -> bool:
        """Whether the task is one of STS12-16, which also have scores over their subsets."""
        return self.name in YEARS


def find_files(data_dir: str | None) -> TaskFiles:
    """Return the files of all tasks; raises `DataError` if the data directory has no folder of any task."""
    paths: dict[str, list[str]] = {}
    for task, subsets in YEARS.items():
        paths[task] = []
        for subset, kind in product(subsets, ("input", "gs")):
            paths[task].append(f"STS/{task}-en-test/STS.{kind}.{subset}.txt")

    for task, (_, names) in SPLITS.items():
        folder = "SICK" if task.startswith("SICK") else "STS/STSBenchmark"
        paths[task] = [f"{folder}/{name}" for name in names]

    return find_task_files(data_dir, "senteval", paths)


def read_task(
    files: TaskFiles,
    task: str,
    check_sizes: bool = True,
) -> Task:
    """Read the scored pairs of a task.

    Raises:
        DataError: if a file is missing or malformed; with `check_sizes`, also if it has another number of scored
            pairs than published. The message has file and line.
    """
    paths = files[task]
    data = digest(paths)
    subsets = []
    if task in YEARS:
        split, sizes = "test", YEARS[task]
        sources = paths[1::2]
        for texts, gold in zip(paths[::2], sources, strict=True):
            subsets.append(_single_spaced(_read_year(texts, gold)))
    else:
        split, sizes = SPLITS[task]
        sources = paths
        for path in paths:
            subsets.append(_single_spaced(_read_split(path, task)))

    if check_sizes:
        for pairs, source, size in zip(subsets, sources, sizes.values(), strict=True):
            require_count(len(pairs), [size], task, source, files.collection)
    if task not in YEARS:
        subsets = [ScoredPairs.joined(subsets)]
        sources = paths[:1]
    return Task(task, split, tuple(subsets), sources, data)


def _single_spaced(pairs: ScoredPairs) -> ScoredPairs:
    """Return pairs with one space between the words of each sentence."""
    return attrs.evolve(
        pairs,
        first=tuple(map(single_spaced, pairs.first)),
        second=tuple(map(single_spaced, pairs.second)),
    )


def _read_split(file: Path, task: str) -> ScoredPairs:
    """Read a file of SICK or STS-B."""
    if task.startswith("SICK"):
        columns = ("sentence_A", "sentence_B", "relatedness_score")
        return PairFile(str(file), columns, separator="\t", score_range=(1, 5)).read()

    columns = ("5", "6", "4")
    return PairFile(
        str(file), columns, header=False, separator="\t", score_range=(0, 5)
    ).read()


def _read_year(texts: Path, gold: Path) -> ScoredPairs:
    """Read a subset of STS12-16, from a file of pairs and a file of gold scores; a blank score drops the pair."""
    rows, scores = read_lines(texts), read_lines(gold)
    if len(rows) != len(scores):
        raise DataError(
            f"found {len(scores)} lines of scores, but `{texts.name}` has {len(rows)} pairs; "
            f"download both files again",
            gold,
        )

    first, second, kept = [], [], []
    for line, (row, score) in enumerate(zip(rows, scores, strict=True), start=1):
        if not score.strip():
            continue

        sentences = row.split("\t")
        if len(sentences) < 2:
            raise DataError(
                f"the line has {len(sentences)} sentence, but two with a tab between were expected; "
                f"repair the line",
                texts,
                line,
            )

        first.append(sentences[0])
        second.append(sentences[1])
        kept.append(require_number(score, "score", gold, line, (0, 5)))

    if not kept:
        raise DataError("none of the pairs has a score; download the file again", gold)
    return ScoredPairs(
        tuple(first), tuple(second), tuple(kept), dropped=len(rows) - len(kept)
    )
