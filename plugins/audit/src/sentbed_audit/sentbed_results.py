"""Reader of the scores of sentbed's runs and studies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sentbed.protocols import Score
from sentbed_report.score_protocols import evaluation_protocol, protocol_hash
from sentbed_report.study.measurements import measurements
from sentbed_report.study.read_cell_run import read_run
from sentbed_report.study.read_study_directory import read_data

from sentbed_audit.score_rows import ScoreRow


def run_rows(directory: Path) -> Iterator[ScoreRow]:
    """Yield those scores of a finished run that are better if higher. Each encoder of the run is a model.

    Raises:
        RunError: if the run cannot be read.
    """
    run = read_run(
        directory,
        cell="",
        seed=0,
        base=directory,
    )
    name = run.record.get("name", directory.name)
    for score in run.scores:
        if _is_compared(score):
            yield _row(score, f"{name}/{score.encoder}", directory, None)


def study_rows(directory: Path) -> Iterator[ScoreRow]:
    """Yield those scores of all finished runs of a study that are better if higher.

    Each encoder of each cell, with each prompt, is a model.

    Raises:
        RunError: if the study cannot be read.
    """
    data = read_data(directory)
    for measurement in measurements(data):
        score = measurement.score
        if not _is_compared(score):
            continue
        name = measurement.cell.name
        if data.prompts:
            name += f" ({measurement.run.prompt})"
        model = f"{name}/{score.encoder}"
        yield _row(score, model, directory, measurement.run.seed)


def _is_compared(score: Score) -> bool:
    """Whether an audit compares a score: higher is better, and it is no cost."""
    return score.direction == "higher" and score.axis != "cost"


def _row(
    score: Score,
    model: str,
    directory: Path,
    seed: int | None,
) -> ScoreRow:
    """Return a score in the form that results of all formats have."""
    protocol = evaluation_protocol(score)
    return ScoreRow(
        model=model,
        revision="",
        task=f"{score.evaluator} {score.task} ({score.metric})",
        split=str(protocol.get("split", "test")),
        subset="default",
        metric=score.metric,
        score=score.value,
        software=score.plugin,
        # Our scores can be compared if the protocols of their evaluator are equal: their hash is the revision.
        data_revision=protocol_hash(protocol),
        layout="sentbed",
        file=str(directory),
        seed=seed,
    )
