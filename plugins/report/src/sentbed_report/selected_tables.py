"""Tables of finished runs, or of a study, with a selection of their scores, for the command `sentbed table`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from pathlib import Path

import attrs
from sentbed.errors import RunError, suggest
from sentbed.protocols import Score

from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.read_study_directory import is_study
from sentbed_report.study.runs_as_study import runs_as_study
from sentbed_report.study.study_data import CellRun, StudyData, with_runs
from sentbed_report.study.summary_tables import Summary


def selected_tables(
    directories: Sequence[Path],
    evaluator: str | None = None,
    protocol: str | None = None,
    metric: str | None = None,
) -> tuple[Summary, ...]:
    """Return the tables of `selected_scores`: one row per cell and encoder, with means over seeds.

    Encoders before training have rows only in tables of runs.

    Raises:
        RunError: if no score is left.
    """
    data = selected_scores(directories, evaluator, protocol, metric)
    of_study = is_study(directories[0])
    summaries = summarise(data, start=not of_study, all_pairs=of_study)
    require_tables(summaries)
    return summaries


def selected_scores(
    directories: Sequence[Path],
    evaluator: str | None = None,
    protocol: str | None = None,
    metric: str | None = None,
) -> StudyData:
    """Return runs, or a study, with a selection of their scores.

    Runs that differ only in their seed are one cell. `protocol` is the id of a protocol.

    Raises:
        RunError: if no score is of the evaluator, protocol or metric.
    """
    data = runs_as_study(directories)
    data = _only(data, "evaluator", evaluator, attrgetter("evaluator"))
    data = _only(data, "protocol", protocol, attrgetter("protocol_id"))
    return _only(data, "metric", metric, attrgetter("metric"))


def require_tables(summaries: Sequence[Summary]) -> None:
    """Raise `RunError` if there are no tables, since no run has finished with scores."""
    if not summaries:
        raise RunError(
            "none of the runs has finished with scores; add an `[[evaluate]]` to their recipes"
        )


def _only(
    data: StudyData,
    what: str,
    value: str | None,
    of_score: Callable[[Score], str],
) -> StudyData:
    """Return a study with the scores for which `of_score` returns `value`; with all scores if `value` is None."""
    if value is None:
        return data
    values: dict[str, None] = {}
    for run in data.runs:
        values |= dict.fromkeys(map(of_score, run.scores))
    if value not in values:
        suggestion = suggest(value, list(filter(None, values)))
        raise RunError(f"no score is of the {what} `{value}`.{suggestion}")

    def selected(run: CellRun) -> CellRun:
        scores = []
        for score in run.scores:
            if of_score(score) == value:
                scores.append(score)
        return attrs.evolve(run, scores=tuple(scores))

    return attrs.evolve(data, cells=with_runs(data.cells, selected))
