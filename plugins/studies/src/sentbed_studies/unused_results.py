"""Finished runs and scores in a study's directory that the current recipe cannot use.

The key of a run is the hash of everything that determines its weights; the key of an evaluation is the hash of
everything that determines its scores (`cell_keys.py`). The name of a run's directory ends with the key.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from sentbed_report.formatting import count
from sentbed_report.study.read_cell_run import made_evaluations
from sentbed_report.study.read_study_directory import is_finished

from sentbed_studies.added_evaluations import RunState
from sentbed_studies.cell_keys import EvaluationKey, directory_of
from sentbed_studies.shared_work_plan import Task


def run_state_lines(states: Sequence[RunState], study: Path) -> Iterator[str]:
    """Yield lines on runs in the directory `study`: those to evaluate, those to train again, and unused ones."""
    yield from _runs_without_evaluations(states)

    unused_scores = 0
    unused_runs = 0
    for state in states:
        directory = study / state.task.directory
        if state.is_finished:
            unused = set(made_evaluations(directory)) - set(state.task.evaluation_keys)
            if unused:
                unused_scores += 1
        elif state.status is None:
            unused_runs += len(_other_runs(state.task, study))

    if unused_scores:
        runs = count(unused_scores, "finished run")
        yield f"left out: scores of {runs} by evaluations under other keys; they stay on disk"
    if unused_runs:
        runs = count(unused_runs, "finished run")
        yield f"left out: {runs} of these cells under other keys (`keys.json`)"


def _runs_without_evaluations(states: Sequence[RunState]) -> Iterator[str]:
    """Yield how many finished runs lack evaluations, and how many of them must be trained again for these."""
    evaluated: Counter[str] = Counter()
    trained_again = 0
    missing: list[EvaluationKey] = []
    for state in states:
        if state.is_to_be_trained_again:
            trained_again += 1
            missing += state.missing
        elif state.missing:
            evaluated[_names(state.missing)] += 1

    for names, number in evaluated.items():
        yield f"evaluated, not trained again: {count(number, 'finished run')}, with {names}"

    if trained_again:
        yield (
            f"to be trained again (`--retrain`): {count(trained_again, 'finished run')}, which have kept no "
            f"encoder to evaluate with {_names(missing)}"
        )


def _names(evaluations: Iterable[EvaluationKey]) -> str:
    """Return the names of evaluators as text, without repetition."""
    names: dict[str, None] = {}
    for evaluation in evaluations:
        names[f"`{evaluation.entry.evaluator.name}`"] = None
    return ", ".join(names)


def _other_runs(task: Task, study: Path) -> list[Path]:
    """Return the finished runs of the same cell, seed and prompt that have another key."""
    expected = study / task.directory
    beginning = directory_of(task.cell.name, task.cell.seed, "", task.cell.prompt).name
    runs = []
    for run in sorted(expected.parent.glob(f"{beginning}*")):
        is_of_cell = len(run.name) == len(expected.name)
        if is_of_cell and run != expected and is_finished(run):
            runs.append(run)
    return runs
