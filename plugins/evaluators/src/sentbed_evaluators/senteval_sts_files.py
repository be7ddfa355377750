"""The STS and SICK files of SentEval: their paths and contents."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from pathlib import Path

import attrs
from sentbed import DataError
from sentbed.helpers import sha256

from sentbed_evaluators import data_directories
from sentbed_evaluators.scored_pair_files import PairFile, ScoredPairs, parse_score
from sentbed_evaluators.text_lines import Hashes, read_lines

YEARS: dict[str, tuple[str, ...]] = {
    "STS12": ("MSRpar", "MSRvid", "SMTeuroparl", "surprise.OnWN", "surprise.SMTnews"),
    "STS13": ("FNWN", "headlines", "OnWN"),
    "STS14": ("deft-forum", "deft-news", "headlines", "OnWN", "images", "tweet-news"),
    "STS15": ("answers-forums", "answers-students", "belief", "headlines", "images"),
    "STS16": (
        "answer-answer",
        "headlines",
        "plagiarism",
        "postediting",
        "question-question",
    ),
}
"""Subsets of the yearly tasks, as SentEval lists them: STS13 is without SMT, whose licence forbids copies."""

SPLITS: dict[str, tuple[str, tuple[str, ...]]] = {
    "STSB": ("test", ("sts-test.csv",)),
    "STSB-dev": ("dev", ("sts-dev.csv",)),
    "STSB-train": ("train", ("sts-train.csv",)),
    "SICKR": ("test", ("SICK_test_annotated.txt",)),
    "SICKR-dev": ("dev", ("SICK_trial.txt",)),
    "SICKR-train": ("train", ("SICK_train.txt",)),
    "SICKR-all": (
        "train+dev+test",
        ("SICK_train.txt", "SICK_trial.txt", "SICK_test_annotated.txt"),
    ),
}
"""Split and files of the tasks with a single list of pairs."""

TASKS = (*YEARS, *SPLITS)

SIZES: dict[str, tuple[int, ...]] = {
    "STS12": (750, 750, 459, 750, 399),
    "STS13": (189, 750, 561),
    "STS14": (450, 300, 750, 750, 750, 750),
    "STS15": (375, 750, 375, 750, 750),
    "STS16": (254, 249, 230, 244, 209),
    "STSB": (1379,),
    "STSB-dev": (1500,),
    "STSB-train": (5749,),
    "SICKR": (4927,),
    "SICKR-dev": (500,),
    "SICKR-train": (4500,),
    "SICKR-all": (4500, 500, 4927),
}
"""Published numbers of scored pairs, in the order of `YEARS` and of the files in `SPLITS`."""

DEVELOPMENT = frozenset(
    task for task, (split, _) in SPLITS.items() if split in ("train", "dev")
)
"""Tasks without any pair of the papers' test sets."""

ROOTS = ("senteval/downstream", "downstream", "data/downstream", ".")
"""Possible paths of SentEval's `downstream`, relative to the data directory."""

_FOLDERS = (
    *(f"STS/{year}-en-test" for year in YEARS),
    "STS/STSBenchmark",
    "STSBenchmark",
    "SICK",
)


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
    def texts(self) -> list[tuple[str, str]]:
        """The two sentences of each pair, subset after subset."""
        return list(chain.from_iterable(subset.texts for subset in self.subsets))

    @property
    def is_yearly(self) -> bool:
        """Whether the task is one of STS12-16, which are scored over subsets."""
        return self.name in YEARS


def find_root(data_dir: str | None) -> Path:
    """Return the directory that holds `STS` and `SICK`; raises `DataError` if there is none."""
    return data_directories.find_root(
        data_dir, ROOTS, _FOLDERS, "SentEval data", "senteval"
    )


def task_files(root: Path, task: str) -> tuple[Path, ...]:
    """Return the files of a task, whether they exist or not."""
    if task in YEARS:
        folder = root / "STS" / f"{task}-en-test"
        return tuple(
            folder / f"STS.{kind}.{name}.txt"
            for name in YEARS[task]
            for kind in ("input", "gs")
        )
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
    present = (
        ", ".join(f"`{name}`" for name in TASKS if not missing_files(root, name))
        or "none"
    )
    return (
        f"task `{task}` needs `{missing[0].relative_to(root).as_posix()}`{more}, missing in `{root}`; "
        "add the files (`sentbed data get senteval`) or leave the task out (`skip_missing = true`); "
        f"tasks present: {present}"
    )


def read_task(root: Path, task: str, check_sizes: bool = True) -> Task:
    """Read a task; raises `DataError` with file and line.

    With `check_sizes`, also if a file has another number of scored pairs than published.
    """
    if missing_files(root, task):
        raise DataError(missing_message(root, task))
    return _read_task(root, task, digest(task_files(root, task)), check_sizes)


@lru_cache(maxsize=len(TASKS))
def _read_task(root: Path, task: str, data: str, check_sizes: bool) -> Task:
    """Read a task whose files have the digest `data`, cached since successive runs read the same tasks."""
    files = task_files(root, task)
    hashes: Hashes = {}
    if task in YEARS:
        subsets = tuple(
            _read_year(files[i], files[i + 1], hashes) for i in range(0, len(files), 2)
        )
    else:
        subsets = tuple(_read_split(file, task, hashes) for file in files)
    if digest(files, hashes) != data:
        raise DataError(
            f"the files of `{task}` changed while they were read; run again", files[0]
        )
    sources = files[1::2] if task in YEARS else files
    if check_sizes:
        _require_sizes(task, subsets, sources)
    if task in YEARS:
        return Task(task, "test", subsets, sources, data)
    pairs = ScoredPairs(
        first=tuple(text for part in subsets for text in part.first),
        second=tuple(text for part in subsets for text in part.second),
        scores=tuple(score for part in subsets for score in part.scores),
    )
    return Task(task, SPLITS[task][0], (pairs,), files[:1], data)


def _require_sizes(
    task: str, subsets: Sequence[ScoredPairs], sources: Sequence[Path]
) -> None:
    """Raise `DataError` if a file has another number of scored pairs than published."""
    for pairs, source, expected in zip(subsets, sources, SIZES[task], strict=True):
        if len(pairs) != expected:
            raise DataError(
                f"found {len(pairs):,} scored pairs of `{task}`, expected {expected:,}: the file was cut, or "
                "is another one; get it again (`sentbed data get senteval`), or set `check_sizes = false` "
                "where it is data of your own",
                source,
            )


def _read_split(file: Path, task: str, hashes: Hashes) -> ScoredPairs:
    if task.startswith("SICK"):
        columns = ("sentence_A", "sentence_B", "relatedness_score")
        return PairFile(str(file), columns, separator="\t", score_range=(1, 5)).read(
            hashes
        )
    layout = PairFile(
        str(file), ("5", "6", "4"), header=False, separator="\t", score_range=(0, 5)
    )
    return layout.read(hashes)


def _read_year(texts: Path, gold: Path, hashes: Hashes) -> ScoredPairs:
    rows, scores = read_lines(texts, hashes=hashes), read_lines(gold, hashes=hashes)
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
    return ScoredPairs(
        tuple(first), tuple(second), tuple(kept), dropped=len(rows) - len(kept)
    )


def digest(files: Sequence[Path], hashes: Hashes | None = None) -> str:
    """Return the SHA-256 over files and their names; for a single file, its own.

    `hashes` has those of the files, if they are known.
    """
    hashes = hashes or {file: sha256(file) for file in files}
    if len(files) == 1:
        return hashes[files[0]]
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.name}\0{hashes[file]}\n".encode())
    return digest.hexdigest()
