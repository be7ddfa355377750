"""Reader of MTEB's result files: of the format since MTEB 1.11, and of the earlier one. A file has one task.

From 1.11 on, a file has `scores`. It maps each split to a list of subsets, and each subset has its
`main_score`. In earlier versions, the splits were at the top level. A split had either its numbers or an object
with the numbers of each subset. Nothing marked the main score: it stood under the name of its metric.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from sentbed_audit.score_rows import ScoreRow

DEFAULT = "default"
"""MTEB's name for the subset of a task that has no subsets."""

UNKNOWN_REVISIONS = ("no_revision_available", "external", "None")
"""Values that MTEB writes for an unknown revision."""

SPLITS = ("test", "validation", "dev", "train")

_OLD_MAIN_SCORES = (
    ("main_score",),
    ("cos_sim", "spearman"),
    ("cos_sim", "ap"),
    ("ndcg_at_10",),
    ("map",),
    ("v_measure",),
    ("f1",),
    ("accuracy",),
)
"""Nested keys where files from before 1.11 may have the main score. Of those in a file, the first are used."""


def is_mteb_result(content: Any) -> bool:
    """Whether the content of a JSON file is a result file of MTEB."""
    if not isinstance(content, Mapping):
        return False
    if "mteb_dataset_name" in content:
        return True
    return "task_name" in content and "scores" in content


def model_of_path(path: PurePosixPath) -> tuple[str, str]:
    """Return the model and its revision from a path `MODEL/REVISION/TASK.json`.

    `__` in a folder's name stands for a slash. If the path has a single folder, its name is that of the model,
    and the revision is empty. If it has no folder, the name of the file is taken instead.
    """
    folders = path.parts[:-1]
    if not folders:
        return path.stem.replace("__", "/"), ""
    if len(folders) == 1:
        return folders[0].replace("__", "/"), ""
    return folders[-2].replace("__", "/"), folders[-1]


def mteb_rows(content: Mapping[str, Any], path: PurePosixPath) -> Iterator[ScoreRow]:
    """Yield a row with the main score of each split and subset.

    Raises:
        ValueError: if the file names no task, has no score, or has a score that is no number.
    """
    task = content.get("task_name") or content.get("mteb_dataset_name")
    if not isinstance(task, str):
        raise ValueError("it names no task")  # noqa: TRY004

    if "scores" in content:
        layout, scores = "mteb 1.11", _scores(content)
    else:
        layout, scores = "mteb 1.0", _old_scores(content)
    software = ""
    if content.get("mteb_version"):
        software = f"mteb {content['mteb_version']}"
    data_revision = str(content.get("dataset_revision") or "")
    if data_revision in UNKNOWN_REVISIONS:
        data_revision = ""
    model, revision = model_of_path(path)
    for split, subset, score in scores:
        yield ScoreRow(
            model=model,
            revision=revision,
            task=task,
            split=split,
            subset=subset,
            metric="main_score",
            score=score,
            software=software,
            data_revision=data_revision,
            layout=layout,
            file=str(path),
        )


def _scores(content: Mapping[str, Any]) -> Iterator[tuple[str, str, float]]:
    """Yield split, subset and main score, from a file of 1.11 or later."""
    scores = content["scores"]
    if not isinstance(scores, Mapping) or not scores:
        raise ValueError("`scores` has no split")
    for split, subsets in scores.items():
        if not isinstance(subsets, list) or not subsets:
            raise ValueError(f"`scores.{split}` has no subset")
        for entry in subsets:
            if not isinstance(entry, Mapping) or "main_score" not in entry:
                raise ValueError(f"`scores.{split}` has an entry without `main_score`")
            subset = str(entry.get("hf_subset", DEFAULT))
            score = _number(entry["main_score"], split)
            yield split, subset, score


def _old_scores(content: Mapping[str, Any]) -> Iterator[tuple[str, str, float]]:
    """Yield split, subset and main score, from a file from before 1.11."""
    has_score = False
    for split in SPLITS:
        numbers = content.get(split)
        if not isinstance(numbers, Mapping):
            continue
        parts: Mapping[str, Any] = numbers
        if _main_score(numbers) is not None:
            parts = {DEFAULT: numbers}
        for subset, part in parts.items():
            score = _main_score(part)
            if score is not None:
                has_score = True
                yield split, str(subset), _number(score, split)

    if not has_score:
        raise ValueError(f"there is no main score in the splits {', '.join(SPLITS)}")


def _main_score(numbers: Any) -> Any:
    """Return the main score of a split or subset in an old file; None if it is at none of the known keys."""
    for keys in _OLD_MAIN_SCORES:
        value = value_at(keys, numbers)
        if value is not None and not isinstance(value, Mapping):
            return value
    return None


def value_at(keys: Sequence[str], numbers: Any) -> Any:
    """Return the value at nested keys; None if one of the keys is missing."""
    value = numbers
    for key in keys:
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value


def _number(value: Any, split: str) -> float:
    """Return a main score as a number; raises `ValueError` if it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"the main score of `{split}` is {value!r}, expected a number")  # noqa: TRY004
    return float(value)
