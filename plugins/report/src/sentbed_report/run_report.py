"""Data of a run's report: the record of the run, the ranking of a search, and bootstrap intervals."""

from __future__ import annotations

import attrs
from sentbed.helpers import score_digits
from sentbed.protocols import ReportData, Score

from sentbed_report.statistics import Comparison


@attrs.frozen
class Candidate:
    """One prompt of a search and its score."""

    sentence: str
    """Of the demonstration; the whole template where it cannot be taken apart."""
    word: str
    score: float
    template: str
    """The whole prompt, with `{text}` where the sentence to encode goes."""


@attrs.frozen
class Ranking:
    """What a search found; scores are the primary ones of one evaluator."""

    evaluator: str
    baseline: Candidate
    """The prompt without a demonstration."""
    candidates: tuple[Candidate, ...]
    """The best first; at least one."""

    @property
    def rows(self) -> tuple[tuple[int | None, Candidate, float], ...]:
        """Rank, candidate, and difference to the baseline, which stands at its place without a rank."""
        ranked: list[tuple[int | None, Candidate]] = [*enumerate(self.candidates, start=1)]
        place = sum(candidate.score > self.baseline.score for candidate in self.candidates)
        ranked.insert(place, (None, self.baseline))
        return tuple((rank, found, found.score - self.baseline.score) for rank, found in ranked)

    @property
    def digits(self) -> int:
        """Decimals to print; see `ScoreTable.digits`."""
        return score_digits(candidate.score for _, candidate, _ in self.rows)


@attrs.frozen
class Difference:
    """Two encoders of a run on the same items."""

    first: str
    second: str
    score: Score
    """Evaluator, task, metric and protocol; the number is the second encoder's."""
    comparison: Comparison
    """`b` is the second encoder."""

    @property
    def digits(self) -> int:
        """Decimals to print; see `ScoreTable.digits`."""
        return score_digits((self.comparison.a, self.comparison.b))


@attrs.frozen
class Bootstrapped:
    """How sure the scores are."""

    resamples: int
    confidence: float
    intervals: tuple[tuple[float, float] | None, ...]
    """One a score; None where it cannot be resampled."""
    differences: tuple[Difference, ...]


@attrs.frozen(eq=False)
class RunReport(ReportData):
    """Everything that the page of a run or of a search shows."""

    ranking: Ranking | None = None
    """Of a search."""
    bootstrap: Bootstrapped | None = None
    """Where the recipe asks for it."""
