"""Comparability of scores, and bootstrap intervals of a run's scores."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from sentbed.errors import RunError
from sentbed.protocols import START, Score
from sentbed.tools import plain

from sentbed_report.degenerate import degenerate_of
from sentbed_report.run_report import Bootstrapped, Difference
from sentbed_report.score_tables import base_name, encoder_order, shown
from sentbed_report.statistics import Resampled, resample


def evaluation_protocol(score: Score) -> dict[str, Any]:
    """Return the evaluator's part of a score's protocol as JSON data.

    Scores that agree in it are comparable even if the encoders' parts differ.
    """
    return _plain(score.evaluator_protocol)


def encoder_protocol(score: Score) -> dict[str, Any]:
    """Return the encoder's part of a score's protocol as JSON data."""
    return _plain(score.protocol["encoder"])


def unlike(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[str]:
    """Yield `NAME (VALUE against VALUE)` for every difference between two protocols."""
    for name in dict.fromkeys([*one, *other]):
        values = one.get(name), other.get(name)
        if isinstance(values[0], Mapping) and isinstance(values[1], Mapping):
            yield from (f"`{name}.{found[1:]}" for found in unlike(values[0], values[1]))
        elif values[0] != values[1]:
            yield f"`{name}` ({' against '.join(map(_shown, values))})"


def bootstrapped(scores: Sequence[Score], resamples: int, confidence: float, seed: int) -> Bootstrapped:
    """Resample every score that has items, and compare encoders scored in the same way.

    Each encoder is compared before and after training, and with every other encoder after training.
    """
    drawn = [_resampled(score, resamples, seed) for score in scores]
    families: dict[str, dict[str, tuple[Score, Resampled]]] = {}
    for score, found in zip(scores, drawn, strict=True):
        if found is not None:
            key = json.dumps([score.evaluator, score.task, score.metric, evaluation_protocol(score)])
            families.setdefault(key, {})[score.encoder] = (score, found)
    return Bootstrapped(
        resamples,
        confidence,
        tuple(None if found is None else found.interval(confidence) for found in drawn),
        tuple(difference for family in families.values() for difference in _differences(family, confidence)),
    )


def _differences(family: Mapping[str, tuple[Score, Resampled]], confidence: float) -> Iterator[Difference]:
    for first, second in _pairs(family):
        (_, before), (score, after) = family[first], family[second]
        if degenerate_of(family[first][0]) or degenerate_of(score):
            continue
        try:
            comparison = before.compare(after, confidence)
        except RunError:
            continue  # the items differ although the protocols agree
        yield Difference(first, second, score, comparison)


def _pairs(encoders: Iterable[str]) -> Iterator[tuple[str, str]]:
    for first, second in combinations(encoder_order(encoders), 2):
        starts = first.endswith(START), second.endswith(START)
        if starts == (False, False) or (starts == (True, False) and base_name(first) == second):
            yield first, second


def _resampled(score: Score, resamples: int, seed: int) -> Resampled | None:
    try:
        return None if score.items is None else resample(score.items, resamples, seed)
    except RunError:
        return None


def _plain(part: Mapping[str, Any]) -> dict[str, Any]:
    protocol: dict[str, Any] = plain(part)
    return dict(sorted(protocol.items()))


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    text = shown(value)
    return text if len(text) <= 80 else f"{text[:79]}…"
