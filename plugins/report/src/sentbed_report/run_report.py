"""Data of a run's report: the record of the run, the ranking of a search, and intervals of the scores."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import attrs
from sentbed.helpers import score_digits
from sentbed.protocols import ReportData

from sentbed_report.score_intervals import ScoreInterval, score_intervals


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


@attrs.frozen(eq=False)
class RunReport(ReportData):
    """Content of the report of a run or a search."""

    ranking: Ranking | None = None
    """Result of a search, if there was one."""

    @cached_property
    def intervals(self) -> tuple[ScoreInterval, ...]:
        """The interval of each score over its items, where it has some."""
        return score_intervals(self.scores)
