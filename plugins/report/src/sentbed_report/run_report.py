"""Data of a run's report: the record of the run, the ranking of a search, and bootstrap intervals."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations

import attrs
from sentbed.errors import RunError
from sentbed.helpers import score_digits
from sentbed.protocols import START, ReportData, Score

from sentbed_report.comparability import evaluation_protocol
from sentbed_report.degenerate_scores import degenerate_of
from sentbed_report.score_planes import base_name, encoder_order
from sentbed_report.statistics.resampling import Comparison, Resampled, resample


@attrs.frozen
class Candidate:
    """Prompt of a search, with its score."""

    sentence: str
    """Sentence of the demonstration; the whole template if it cannot be split."""
    word: str
    score: float
    template: str
    """The whole prompt, with `{text}` for the sentence to encode."""


@attrs.frozen
class Shares:
    """How many candidates of a search score higher, and lower, than the prompt without a demonstration."""

    helped: int
    harmed: int
    total: int
    """Number of candidates, those without a finite score included; at least one."""

    @classmethod
    def of(cls, scores: Sequence[float], baseline: float) -> Shares:
        """Count the scores of the candidates; NaN neither helps nor harms."""
        helped, harmed = (
            sum(one > baseline for one in scores),
            sum(one < baseline for one in scores),
        )
        return cls(helped, harmed, len(scores))


@attrs.frozen
class Ranking:
    """Result of a search; scores are the primary scores of one evaluator."""

    evaluator: str
    baseline: Candidate
    """The prompt without a demonstration."""
    candidates: tuple[Candidate, ...]
    """Candidates, best first; at least one."""

    @property
    def rows(self) -> tuple[tuple[int | None, Candidate, float], ...]:
        """Rank, candidate and difference to the baseline, which is sorted in without a rank."""
        ranked: list[tuple[int | None, Candidate]] = [
            *enumerate(self.candidates, start=1)
        ]
        place = sum(
            candidate.score > self.baseline.score for candidate in self.candidates
        )
        ranked.insert(place, (None, self.baseline))
        return tuple(
            (rank, entry, entry.score - self.baseline.score) for rank, entry in ranked
        )

    @property
    def winner(self) -> Candidate:
        """The best candidate."""
        return self.candidates[0]

    @property
    def improvement(self) -> float:
        """Score of the best candidate less that without a demonstration."""
        return self.winner.score - self.baseline.score

    @property
    def shares(self) -> Shares:
        """How many candidates help, and how many harm."""
        return Shares.of(
            [candidate.score for candidate in self.candidates], self.baseline.score
        )

    @property
    def digits(self) -> int:
        """Decimals to print; see `ScoreTable.digits`."""
        return score_digits(candidate.score for _, candidate, _ in self.rows)


@attrs.frozen
class Difference:
    """Comparison of two encoders of a run on the same items."""

    first: str
    second: str
    score: Score
    """Score of the second encoder, which also gives evaluator, task, metric and protocol."""
    comparison: Comparison
    """Comparison in which `b` is the second encoder."""

    @property
    def digits(self) -> int:
        """Decimals to print; see `ScoreTable.digits`."""
        return score_digits((self.comparison.a, self.comparison.b))


@attrs.frozen
class Bootstrapped:
    """Bootstrap intervals and comparisons of a run's scores."""

    resamples: int
    confidence: float
    intervals: tuple[tuple[float, float] | None, ...]
    """One interval per score; None if it cannot be resampled."""
    differences: tuple[Difference, ...]


@attrs.frozen(eq=False)
class RunReport(ReportData):
    """Content of the report of a run or a search."""

    ranking: Ranking | None = None
    """Result of a search, if there was one."""
    bootstrap: Bootstrapped | None = None
    """Bootstrap results, if the recipe has `[bootstrap]`."""


def bootstrapped(
    scores: Sequence[Score], resamples: int, confidence: float, seed: int
) -> Bootstrapped:
    """Resample every score that has items, and compare encoders scored in the same way.

    Each encoder is compared before and after training, and with every other encoder after training.
    """
    drawn = [_resampled(score, resamples, seed) for score in scores]
    families: dict[str, dict[str, tuple[Score, Resampled]]] = {}
    for score, bootstrap in zip(scores, drawn, strict=True):
        if bootstrap is not None:
            key = json.dumps(
                [score.evaluator, score.task, score.metric, evaluation_protocol(score)]
            )
            families.setdefault(key, {})[score.encoder] = (score, bootstrap)
    return Bootstrapped(
        resamples,
        confidence,
        tuple(
            None if bootstrap is None else bootstrap.interval(confidence)
            for bootstrap in drawn
        ),
        tuple(
            difference
            for family in families.values()
            for difference in _differences(family, confidence)
        ),
    )


def _differences(
    family: Mapping[str, tuple[Score, Resampled]], confidence: float
) -> Iterator[Difference]:
    for first, second in _pairs(family):
        score_before, before = family[first]
        score, after = family[second]
        if degenerate_of(score_before) or degenerate_of(score):
            continue
        try:
            comparison = before.compare(after, confidence)
        except RunError:
            continue  # the items differ although the protocols agree
        yield Difference(first, second, score, comparison)


def _pairs(encoders: Iterable[str]) -> Iterator[tuple[str, str]]:
    for first, second in combinations(encoder_order(encoders), 2):
        starts = first.endswith(START), second.endswith(START)
        if starts == (False, False) or (
            starts == (True, False) and base_name(first) == second
        ):
            yield first, second


def _resampled(score: Score, resamples: int, seed: int) -> Resampled | None:
    try:
        return None if score.items is None else resample(score.items, resamples, seed)
    except RunError:
        return None
