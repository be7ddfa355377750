"""Comparison of the numbers that a recipe expects with the scores of a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import attrs

from sentbed.protocols import START, Expected, ExpectedRow, Score


def expected_rows(
    expected: Mapping[str, Expected],
    scores: Sequence[Score],
) -> Iterator[ExpectedRow]:
    """Yield each number that a recipe expects, together with the score after training that its key names.

    A number of a task that was skipped because its data is missing, or of the mean over such tasks, has no
    tolerance: it decides nothing.
    """
    final = [score for score in scores if not score.encoder.endswith(START)]
    values = _values_by_key(final)
    skipped = _values_by_key(_skipped_scores(final))
    for key, number in expected.items():
        matches = values.get(key, [])
        tolerance = number.tolerance
        if not matches and key in skipped:
            tolerance = None
        # If several scores match, it is not clear which is meant: the key must be more specific.
        value = matches[0] if len(matches) == 1 else None
        yield ExpectedRow(
            key,
            number.value,
            tolerance,
            number.source,
            value,
            fits=len(matches),
        )


def _values_by_key(scores: Iterable[Score]) -> dict[str, list[float]]:
    """Return the values of scores by each key of `[expected]` that matches them.

    A key without a metric matches only the first metric that an evaluator gives of the task.
    """
    values: dict[str, list[float]] = {}
    first_metrics: dict[tuple[str, str], str] = {}
    for score in scores:
        metric = f"{score.task}/{score.metric}"
        keys = [metric, f"{metric}@{score.protocol_id}"]
        evaluator_and_task = score.evaluator, score.task
        first_metric = first_metrics.setdefault(evaluator_and_task, score.metric)
        if score.metric == first_metric:
            keys.append(score.task)
        for key in keys:
            values.setdefault(key, []).append(score.value)
            values.setdefault(f"{score.encoder}/{key}", []).append(score.value)
    return values


def _skipped_scores(scores: Iterable[Score]) -> Iterator[Score]:
    """Yield scores as they would be of the tasks that were skipped, and of the mean."""
    for score in scores:
        if score.skipped:
            for task in (*score.skipped, "AVG"):
                yield attrs.evolve(score, task=task)
