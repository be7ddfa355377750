"""`RunReport`: data of a run's report, with the ranking of a search and intervals of the scores."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import attrs
from sentbed.helpers import score_digits
from sentbed.protocols import ReportData

from sentbed_report.score_intervals import ScoreInterval, score_intervals


@attrs.frozen
class Candidate:
    """Candidate prompt of a demonstration search, with its score."""

    sentence: str
    """Sentence of the demonstration; the whole template if it cannot be split."""
    word: str
    score: float
    template: str
    """The whole prompt, with `{text}` for the sentence to encode."""


@attrs.frozen
class Shares:
    """Numbers of candidates of a search that score higher, and lower, than without a demonstration."""

    helped: int
    harmed: int
    total: int
    """Number of candidates, including those without a finite score; at least one."""

    @classmethod
    def of(cls, scores: Sequence[float], baseline: float) -> Shares:
        """Count the candidates; one with the score NaN neither helps nor harms."""
        helped = sum(score > baseline for score in scores)
        harmed = sum(score < baseline for score in scores)
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
        """Rank, candidate and difference from the baseline; the baseline is sorted in without a rank."""
        baseline = self.baseline.score
        rows: list[tuple[int | None, Candidate, float]] = []
        for rank, candidate in enumerate(self.candidates, start=1):
            rows.append((rank, candidate, candidate.score - baseline))
        # Not 0 for a baseline that is not finite.
        difference = baseline - baseline
        rows.insert(self.shares.helped, (None, self.baseline, difference))
        return tuple(rows)

    @property
    def winner(self) -> Candidate:
        """The best candidate."""
        return self.candidates[0]

    @property
    def improvement(self) -> float:
        """Score of the best candidate minus the score without a demonstration."""
        return self.winner.score - self.baseline.score

    @property
    def shares(self) -> Shares:
        """Numbers of candidates that score higher, and lower, than without a demonstration."""
        scores = [candidate.score for candidate in self.candidates]
        return Shares.of(scores, self.baseline.score)

    @property
    def digits(self) -> int:
        """Number of decimals of the scores."""
        return score_digits(candidate.score for _, candidate, _ in self.rows)


@attrs.frozen(eq=False)
class RunReport(ReportData):
    """Content of the report of a run or search."""

    ranking: Ranking | None = None
    """Result of a search, if there was one."""

    @cached_property
    def intervals(self) -> tuple[ScoreInterval, ...]:
        """The interval of each score that has items."""
        return score_intervals(self.scores)
