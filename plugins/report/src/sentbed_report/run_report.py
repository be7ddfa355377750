"""`RunReport`: data of a run's report, with intervals of the scores."""

from __future__ import annotations

from functools import cached_property

import attrs
from sentbed.protocols import ReportData

from sentbed_report.score_intervals import ScoreInterval, score_intervals


@attrs.frozen(eq=False)
class RunReport(ReportData):
    """Content of the report of a run."""

    @cached_property
    def intervals(self) -> tuple[ScoreInterval, ...]:
        """Confidence intervals of the scores whose single results are known (`Score.items`)."""
        return score_intervals(self.scores)
