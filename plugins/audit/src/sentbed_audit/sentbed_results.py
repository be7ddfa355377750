"""Reader of the scores of sentbed's runs and studies.

Scores that are better if higher are read. Two kinds of them are read only where there are no others: those of a
run before its training (`NAME@start`), and those of a run or study on development data.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs
from sentbed.protocols import START, Score
from sentbed_report.data_splits import is_development
from sentbed_report.score_protocols import evaluation_protocol, protocol_hash
from sentbed_report.study.read_cell_run import read_run
from sentbed_report.study.read_study_directory import read_data

from sentbed_audit.score_rows import ScoreRow


@attrs.frozen
class _ModelScore:
    """A score of a model; `seed` is that of the run in its study."""

    model: str
    score: Score
    seed: int | None = None


def run_rows(directory: Path) -> Iterator[ScoreRow]:
    """Yield the compared scores of a finished run. Each encoder of the run is a model.

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
    scores = []
    for score in after_training(run.scores):
        scores.append(_ModelScore(f"{name}/{score.encoder}", score))
    return _rows(scores, directory)


def study_rows(directory: Path) -> Iterator[ScoreRow]:
    """Yield the compared scores of all finished runs of a study.

    Each encoder of each cell, with each prompt, is a model.

    Raises:
        RunError: if the study cannot be read.
    """
    data = read_data(directory)
    scores = []
    for cell in data.cells:
        for run in cell.runs:
            name = cell.name
            if data.prompts:
                name += f" ({run.prompt})"
            for score in after_training(run.scores):
                model = f"{name}/{score.encoder}"
                scores.append(_ModelScore(model, score, run.seed))
    return _rows(scores, directory)


def after_training(scores: Sequence[Score]) -> list[Score]:
    """Return the scores of a run after training; if there are none, those before training."""
    after = [score for score in scores if not score.encoder.endswith(START)]
    return after or list(scores)


def _rows(scores: Sequence[_ModelScore], directory: Path) -> Iterator[ScoreRow]:
    """Yield the scores that are better if higher: those on test data, or else those on development data."""
    compared = []
    for entry in scores:
        if entry.score.direction == "higher" and entry.score.axis != "cost":
            compared.append(entry)
    on_test_data = [entry for entry in compared if not is_development(entry.score)]

    for entry in on_test_data or compared:
        score = entry.score
        protocol = evaluation_protocol(score)
        yield ScoreRow(
            model=entry.model,
            revision="",
            task=f"{score.evaluator} {score.task} ({score.metric})",
            split=str(protocol.get("split", "test")),
            subset="default",
            metric=score.metric,
            score=score.value,
            software=score.plugin,
            # Our scores can be compared if their evaluators' protocols are equal: their hash is the revision.
            data_revision=protocol_hash(protocol),
            layout="sentbed",
            file=str(directory),
            seed=entry.seed,
        )
