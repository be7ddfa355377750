"""Choosers of a study: which runs are done, in batches. A batch may depend on the results of those before it.

All cells or a sample of them are one batch. A search by Optuna has a batch for each cell that it tries. The runs
of the chosen cell with fresh seeds, `confirm` of `[study.decide]`, are the last batch.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import attrs
from sentbed_report.study.selection import Selection, choose
from sentbed_report.study.study_data import StudyData

from sentbed_studies.study import Run, Study

Results: TypeAlias = Callable[[], StudyData]
"""Returns the results so far of all runs that were chosen."""


def chosen_runs(study: Study, results: Results) -> Iterator[Sequence[Run]]:
    """Yield the runs of a study in batches; the runs of a batch are done before the next one is asked for."""
    if study.table.trials:
        yield from searched_runs(study, study.table.trials, results)
    elif study.table.sample:
        yield sampled_runs(study, study.table.sample)
    else:
        yield study.runs

    decide = study.table.decide
    if decide is not None and decide.confirm:
        yield from fresh_runs(study, decide.confirm, results)


def runs_of_later_batches(study: Study) -> Sequence[Run]:
    """Return the runs that batches after the first may have; only a search has further ones of the study."""
    if study.table.trials:
        return study.runs
    return ()


def sampled_runs(study: Study, number: int) -> list[Run]:
    """Return the runs of `number` cells, drawn by the study's first seed. The baseline is always one of them."""
    names = list(study.names)
    random.Random(study.seeds[0]).shuffle(names)
    if study.baseline is not None:
        names.remove(study.baseline)
        names.insert(0, study.baseline)
    sample = names[:number]
    return [run for run in study.runs if run.name in sample]


def searched_runs(
    study: Study, trials: int, results: Results
) -> Iterator[Sequence[Run]]:
    """Yield the runs of each cell that Optuna's TPE sampler tries, at most `trials`, one cell after another.

    The sampler is seeded with the study's first seed, so that a study that is started again tries the same cells.
    It is told the deciding score of a cell; cells that cannot work or have no score count as failed.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = optuna.samplers.TPESampler(seed=study.seeds[0])
    search = optuna.create_study(direction="maximize", sampler=sampler)
    distributions: dict[str, optuna.distributions.BaseDistribution] = {}
    for axis in study.axes:
        labels = optuna.distributions.CategoricalDistribution(axis.labels)
        distributions[axis.name] = labels

    runs_of_cell: dict[str, list[Run]] = {}
    for run in study.runs:
        runs_of_cell.setdefault(run.name, []).append(run)

    tried: set[str] = set()
    for _ in range(trials):
        trial = search.ask(distributions)
        name = ", ".join(trial.params[axis.name] for axis in study.axes)
        if name in runs_of_cell and name not in tried:
            tried.add(name)
            yield runs_of_cell[name]

        chosen = None
        if name in tried:
            chosen = _choice_of_one(results(), name)
        if chosen is None or chosen.score is None:
            search.tell(trial, state=optuna.trial.TrialState.FAIL)
        else:
            search.tell(trial, chosen.score)


def _choice_of_one(data: StudyData, name: str) -> Selection | None:
    """Return the choice among the one cell `name`, with its deciding score."""
    cells = tuple(cell for cell in data.cells if cell.name == name)
    return choose(attrs.evolve(data, cells=cells))


def fresh_runs(study: Study, number: int, results: Results) -> Iterator[Sequence[Run]]:
    """Yield the runs of the chosen cell with `number` seeds above the study's largest, under each prompt.

    Yield nothing if a run has not finished, since its cell might have been the best one, or if no cell can be
    chosen.
    """
    chosen = choose(results())
    if chosen is None or not chosen.complete or not chosen.cell:
        return

    runs_of_prompt = {}
    for run in study.runs:
        if run.name == chosen.cell:
            runs_of_prompt[run.prompt] = run

    first = max(study.seeds) + 1
    fresh = []
    for run in runs_of_prompt.values():
        for seed in range(first, first + number):
            table = attrs.evolve(run.recipe.run, seed=seed)
            recipe = attrs.evolve(run.recipe, run=table)
            fresh.append(attrs.evolve(run, seed=seed, recipe=recipe))
    yield fresh
