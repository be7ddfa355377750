"""The STS and SICK files of SentEval: their paths and contents."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import attrs
from sentbed import DataError
from sentbed.helpers import sha256

from sentbed_evaluators import directories
from sentbed_evaluators.pairs import PairFile, ScoredPairs, parse_score, read_lines

YEARS: dict[str, tuple[str, ...]] = {
    "STS12": ("MSRpar", "MSRvid", "SMTeuroparl", "surprise.OnWN", "surprise.SMTnews"),
    "STS13": ("FNWN", "headlines", "OnWN"),
    "STS14": ("deft-forum", "deft-news", "headlines", "OnWN", "images", "tweet-news"),
    "STS15": ("answers-forums", "answers-students", "belief", "headlines", "images"),
    "STS16": ("answer-answer", "headlines", "plagiarism", "postediting", "question-question"),
}
"""Subsets of the yearly tasks, as SentEval lists them: STS13 is without SMT, whose licence forbids copies."""

SPLITS: dict[str, tuple[str, tuple[str, ...]]] = {
    "STSB": ("test", ("sts-test.csv",)),
    "STSB-dev": ("dev", ("sts-dev.csv",)),
    "STSB-train": ("train", ("sts-train.csv",)),
    "SICKR": ("test", ("SICK_test_annotated.txt",)),
    "SICKR-dev": ("dev", ("SICK_trial.txt",)),
    "SICKR-train": ("train", ("SICK_train.txt",)),
    "SICKR-all": ("train+dev+test", ("SICK_train.txt", "SICK_trial.txt", "SICK_test_annotated.txt")),
}
"""Split and files of the tasks with a single list of pairs."""

TASKS = (*YEARS, *SPLITS)

DEVELOPMENT = frozenset(task for task, (split, _) in SPLITS.items() if split in ("train", "dev"))
"""Tasks without any pair of the papers' test sets."""

ROOTS = ("senteval/downstream", "downstream", "data/downstream", ".")
"""Possible paths of SentEval's `downstream`, relative to the data directory."""

_FOLDERS = (*(f"STS/{year}-en-test" for year in YEARS), "STS/STSBenchmark", "STSBenchmark", "SICK")


@attrs.frozen
class Task:
    """The scored pairs of one task."""

    name: str
    split: str
    subsets: tuple[ScoredPairs, ...]
    """One entry per subset; a single one for STS-B and SICK-R."""
    sources: tuple[Path, ...]
    """File of gold scores of each subset; for a subset of several files, the first."""
    data: str
    """SHA-256 over the files."""

    @property
    def is_yearly(self) -> bool:
        """Whether the task is one of STS12-16, which are scored over subsets."""
        return self.name in YEARS


def find_root(data_dir: str | None) -> Path:
    """Return the directory that holds `STS` and `SICK`; raises `DataError` if there is none."""
    return directories.find_root(data_dir, ROOTS, _FOLDERS, "SentEval data", "senteval")


def task_files(root: Path, task: str) -> tuple[Path, ...]:
    """Return the files of a task, whether they exist or not."""
    if task in YEARS:
        folder = root / "STS" / f"{task}-en-test"
        return tuple(folder / f"STS.{kind}.{name}.txt" for name in YEARS[task] for kind in ("input", "gs"))
    if task.startswith("SICK"):
        folder = root / "SICK"
    else:
        folder = root / "STS" / "STSBenchmark"
        if not folder.is_dir() and (root / "STSBenchmark").is_dir():
            folder = root / "STSBenchmark"
    return tuple(folder / name for name in SPLITS[task][1])


def missing_files(root: Path, task: str) -> tuple[Path, ...]:
    """Return the missing files of a task."""
    return tuple(file for file in task_files(root, task) if not file.is_file())


def missing_message(root: Path, task: str) -> str:
    """Return a message with a task's first missing file and the tasks that are complete."""
    missing = missing_files(root, task)
    more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
    present = ", ".join(f"`{name}`" for name in TASKS if not missing_files(root, name)) or "none"
    return (
        f"task `{task}` needs `{missing[0].relative_to(root).as_posix()}`{more}, missing in `{root}`; "
        f"add the files (`sentbed data get senteval`) or leave the task out; tasks present: {present}"
    )


def read_task(root: Path, task: str) -> Task:
    """Read a task; raises `DataError` with file and line."""
    if missing_files(root, task):
        raise DataError(missing_message(root, task))
    return _read_task(root, task, digest(task_files(root, task)))


@lru_cache(maxsize=len(TASKS))
def _read_task(root: Path, task: str, data: str) -> Task:
    """Read a task whose files have the digest `data`, cached since successive runs read the same tasks."""
    files = task_files(root, task)
    if task in YEARS:
        subsets = tuple(_read_year(files[i], files[i + 1]) for i in range(0, len(files), 2))
        return Task(task, "test", subsets, files[1::2], data)
    parts = [_read_split(file, task) for file in files]
    pairs = ScoredPairs(
        first=tuple(text for part in parts for text in part.first),
        second=tuple(text for part in parts for text in part.second),
        scores=tuple(score for part in parts for score in part.scores),
    )
    return Task(task, SPLITS[task][0], (pairs,), files[:1], data)


def _read_split(file: Path, task: str) -> ScoredPairs:
    if task.startswith("SICK"):
        columns = ("sentence_A", "sentence_B", "relatedness_score")
        return PairFile(str(file), columns, separator="\t", score_range=(1, 5)).read()
    return PairFile(str(file), ("5", "6", "4"), header=False, separator="\t", score_range=(0, 5)).read()


def _read_year(texts: Path, gold: Path) -> ScoredPairs:
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
        kept.append(parse_score(score, gold, line, (0, 5)))
    if not kept:
        raise DataError("none of the pairs has a score; download the file again", gold)
    return ScoredPairs(tuple(first), tuple(second), tuple(kept), dropped=len(rows) - len(kept))


def digest(files: Sequence[Path]) -> str:
    """Return the SHA-256 over files and their names; for a single file, its own."""
    if len(files) == 1:
        return sha256(files[0])
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.name}\0{sha256(file)}\n".encode())
    return digest.hexdigest()
