"""Reader of result files of lm-evaluation-harness: a JSON file has the scores of all tasks of a run.

Its `results` have an object for each task. The keys of this object are a metric and a filter, such as `acc,none`;
each metric also has a standard error, such as `acc_stderr,none`. Its `higher_is_better` says of each task and
metric whether higher scores are better; files of earlier versions lack it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from sentbed_audit.mteb_results import value_at
from sentbed_audit.score_rows import ScoreRow

NUMBERS_OF_ITEMS = ("sample_len", "samples")
"""Keys of a task's results that are no metrics."""


def is_lm_eval_result(content: Any) -> bool:
    """Whether the content of a JSON file is a result of lm-eval."""
    if not isinstance(content, Mapping):
        return False
    return "results" in content and "versions" in content


def lm_eval_rows(content: Mapping[str, Any], path: PurePosixPath) -> Iterator[ScoreRow]:
    """Yield a row for every metric of every task, except standard errors and metrics that are better if lower.

    Raises:
        ValueError: if the file has no task, or an entry that is no object.
    """
    results = content["results"]
    if not isinstance(results, Mapping) or not results:
        raise ValueError("`results` has no task")

    model = str(content.get("model_name") or path.parent.name or path.stem)
    software = ""
    if content.get("lm_eval_version"):
        software = f"lm-eval {content['lm_eval_version']}"
    for task, numbers in results.items():
        if not isinstance(numbers, Mapping):
            raise ValueError(f"`results.{task}` is no object")  # noqa: TRY004
        version = value_at(("versions", task), content)
        if version is None:
            version = ""
        for metric, value in numbers.items():
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if "_stderr" in metric or metric in NUMBERS_OF_ITEMS or not is_number:
                continue
            # The keys of `higher_is_better` have no filter.
            name, _, _ = metric.partition(",")
            if value_at(("higher_is_better", task, name), content) is False:
                continue
            yield ScoreRow(
                model=model,
                revision=str(content.get("model_sha") or ""),
                task=f"{task} ({metric})",
                split="test",
                subset="default",
                metric=metric,
                score=float(value),
                software=software,
                data_revision=str(version),
                layout="lm-eval",
                file=str(path),
            )
