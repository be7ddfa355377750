"""Reader of MTEB's result files, of the format since MTEB 1.11. A file has one task.

Its `scores` map each split to a list of subsets, and each subset has its `main_score`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sentbed_audit.score_rows import ScoreRow

UNKNOWN_REVISIONS = ("no_revision_available", "external", "None")
"""Values that MTEB writes for an unknown revision."""


def is_mteb_result(content: Any) -> bool:
    """Whether the content of a JSON file is a result file of MTEB."""
    if not isinstance(content, Mapping):
        return False
    return "mteb_dataset_name" in content or {"task_name", "scores"} <= content.keys()


def model_of_path(path: Path) -> tuple[str, str]:
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


def mteb_rows(content: Mapping[str, Any], path: Path) -> Iterator[ScoreRow]:
    """Yield a row with the main score of each split and subset.

    Raises:
        ValueError: if the file is of an older format, names no task, or has a score that is no number.
    """
    task, scores = content.get("task_name"), content.get("scores")
    if not isinstance(task, str) or not isinstance(scores, Mapping):
        raise ValueError(  # noqa: TRY004
            "it has no `task_name` with `scores`, as MTEB writes them since 1.11"
        )

    data_revision = str(content.get("dataset_revision") or "")
    if data_revision in UNKNOWN_REVISIONS:
        data_revision = ""
    model, revision = model_of_path(path)
    for split, subsets in scores.items():
        if not isinstance(subsets, list):
            raise ValueError(f"`scores.{split}` is no list of subsets")  # noqa: TRY004
        for subset in subsets:
            score = None
            if isinstance(subset, Mapping):
                score = subset.get("main_score")
            if isinstance(score, bool) or not isinstance(score, int | float):
                raise ValueError(  # noqa: TRY004
                    f"the `main_score` of `{split}` is {score!r}, expected a number"
                )
            yield ScoreRow(
                model=model,
                revision=revision,
                task=task,
                split=split,
                subset=subset.get("hf_subset", "default"),
                metric="main_score",
                score=float(score),
                data_revision=data_revision,
                file=str(path),
            )
