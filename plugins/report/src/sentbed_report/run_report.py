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
    """Sentence of the demonstration; the whole `template` if it cannot be split into sentence and word."""
    word: str
    score: float
    template: str
    """The whole prompt, with `{text}` in the place of the sentence to encode."""


@attrs.frozen
class Shares:
    """How many candidates of a search score higher, and lower, than the encoder without a demonstration."""

    helped: int
    harmed: int
    total: int
    """Number of candidates, including candidates without a finite score; at least one."""

    @classmethod
    def of(cls, scores: Sequence[float], baseline: float) -> Shares:
        """Count the candidates with these scores. A candidate with the score NaN neither helps nor harms."""
        helped = sum(score > baseline for score in scores)
        harmed = sum(score < baseline for score in scores)
        return cls(helped, harmed, len(scores))


@attrs.frozen
class Ranking:
    """Result of a demonstration search. All its scores are primary scores of one evaluator."""

    evaluator: str
    baseline: Candidate
    """The prompt without a demonstration, with its score."""
    candidates: tuple[Candidate, ...]
    """Candidates, the best first; at least one."""

    @property
    def rows(self) -> tuple[tuple[int | None, Candidate, float], ...]:
        """Rank, candidate, and difference from the baseline. The baseline has a row, too; its rank is None."""
        baseline = self.baseline.score
        rows: list[tuple[int | None, Candidate, float]] = []
        for rank, candidate in enumerate(self.candidates, start=1):
            difference = candidate.score - baseline
            rows.append((rank, candidate, difference))

        # NaN, not 0, if the baseline is not finite.
        difference = baseline - baseline
        place = self.shares.helped
        rows.insert(place, (None, self.baseline, difference))
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
    """Content of the report of a run or of a demonstration search."""

    ranking: Ranking | None = None
    """Result of the demonstration search, if there was one."""

    @cached_property
    def intervals(self) -> tuple[ScoreInterval, ...]:
        """Confidence intervals of the scores whose single results are known (`Score.items`)."""
        return score_intervals(self.scores)
