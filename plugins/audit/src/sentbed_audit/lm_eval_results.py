"""Reader of result files of lm-evaluation-harness: a JSON file has the scores of all tasks of a run.

Its `results` have an object for each task. The keys of this object are a metric and a filter, such as `acc,none`;
each metric also has a standard error, such as `acc_stderr,none`. Its `higher_is_better` says of each task and
metric whether higher scores are better; files of earlier versions lack it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sentbed_audit.score_rows import ScoreRow

NUMBERS_OF_ITEMS = ("sample_len", "samples")
"""Keys of a task's results that are no metrics."""


def is_lm_eval_result(content: Any) -> bool:
    """Whether the content of a JSON file is a result of lm-eval."""
    return isinstance(content, Mapping) and {"results", "versions"} <= content.keys()


def lm_eval_rows(content: Mapping[str, Any], path: Path) -> Iterator[ScoreRow]:
    """Yield a row for every metric of every task, except standard errors and metrics that are better if lower.

    Raises:
        ValueError: if `results` or an entry of it is no object.
    """
    model = str(content.get("model_name") or path.parent.name or path.stem)
    versions = _object(content, "versions")
    directions = _object(content, "higher_is_better")
    results = _object(content, "results")
    for task in results:
        for metric, value in _object(results, task).items():
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if "_stderr" in metric or metric in NUMBERS_OF_ITEMS or not is_number:
                continue
            # The keys of `higher_is_better` have no filter.
            name, _, _ = metric.partition(",")
            if _object(directions, task).get(name) is False:
                continue
            yield ScoreRow(
                model=model,
                revision=content.get("model_sha") or "",
                task=f"{task} ({metric})",
                split="test",
                subset="default",
                metric=metric,
                score=float(value),
                data_revision=versions.get(task, ""),
                file=str(path),
            )


def _object(content: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return the object at a key, empty if there is none; raises `ValueError` if it is none."""
    value = content.get(key) or {}
    if not isinstance(value, Mapping):
        raise ValueError(f"`{key}` is no object")  # noqa: TRY004
    return value
