"""Plan of the runs that a study still has to do: their time, and the number of cells to run at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import attrs
from sentbed.errors import Problem, RecipeError
from sentbed.helpers import physical_memory, usable_cores
from sentbed.tools import Plugins, unstructure
from sentbed_common import core_quota, memory_limit
from sentbed_report.formatting import count
from sentbed_report.study.read_study_directory import is_finished, read_data
from sentbed_report.study.study_data import RUNS, StudyData

from sentbed_studies.added_evaluations import lines_on_evaluations
from sentbed_studies.axes import labels_that_are_equal
from sentbed_studies.cell_keys import CellKeys
from sentbed_studies.choosers import chosen_runs, runs_of_later_batches
from sentbed_studies.shared_work_plan import Bundle, Work, plan_work, unfinished
from sentbed_studies.study import Entries, Run, Study
from sentbed_studies.write_study_directory import unstarted

MEMORY_OF_CELL = 4 * 2**30
"""Bytes of the machine's memory for each cell that runs at the same time."""


@attrs.frozen(eq=False)
class StudyPlan:
    """Plan of the runs that a study still has to do."""

    study: Study
    directory: Path
    keys: CellKeys
    whole_work: Work
    """Runs of the whole study, as far as they are chosen."""
    work: Work
    """Runs of the selected cells."""
    is_last: bool
    """Whether no further runs will be chosen."""
    workers: int
    """Number of cells that are run at a time."""

    def lines(self) -> Iterator[str]:
        """Yield the lines of a readable summary."""
        yield self._sizes()
        yield from _description(self.study)
        later = _words_on_later_runs(self.study)
        if later and not self.is_last and not self._fresh_runs():
            yield f"  then: {later}"
        for line in lines_on_evaluations(self.directory, self.work):
            yield f"  {line}"
        unused = self._unused_runs()
        if unused:
            runs = count(unused, "finished run")
            yield f"  left out: {runs} under other keys; they stay on disk"

        yield from self._shared_work()
        if unfinished(self.work, self.directory):
            yield f"  runs: {count(self.workers, 'cell')} at a time"

    def _sizes(self) -> str:
        """Return a line with the numbers of cells, prompts, seeds, runs and finished runs."""
        runs = len(self.work.tasks)
        finished = runs - len(unfinished(self.work, self.directory))
        names = {run.name for run in self.work.runs}
        sizes = count(len(names), "cell")
        if self.study.prompts:
            sizes += f" x {count(len(self.study.prompts), 'prompt')}"
        sizes += f" x {count(len(self.study.seeds), 'seed')}"
        fresh = len(self._fresh_runs())
        if fresh:
            sizes += f" + {count(fresh, 'run')} of the chosen cell"
        return f"study {self.study.name}: {sizes} = {count(runs, 'run')}, {finished} finished"

    def _fresh_runs(self) -> list[Run]:
        """Return the runs with seeds that the study does not have: those of the chosen cell."""
        return [run for run in self.work.runs if run.seed not in self.study.seeds]

    def _unused_runs(self) -> int:
        """Return the number of finished runs in the directory that are not runs of this study."""
        used = {task.key for task in self.whole_work.tasks}
        unused = 0
        for run in (self.directory / RUNS).glob("*"):
            if run.name not in used and is_finished(run):
                unused += 1
        return unused

    def _shared_work(self) -> Iterator[str]:
        """Yield a line for shared stages that are to be run, and for each forward pass that runs share."""
        for stages in self.work.stages_to_run(self.directory):
            runs = count(self.work.sharing(stages), "run")
            yield f"  shared: {stages}, trained once for {runs}"

        for bundle in self.work.bundles:
            if len(bundle.tasks) > 1:
                runs = f"{len(bundle.tasks)} runs"
                yield f"  shared: one pass of the backbone for {runs}: {bundle}"


def plan_study(
    study: Study,
    directory: Path,
    plugins: Plugins,
    *,
    only: Entries = (),
    share: bool = True,
    workers: int | None = None,
    choose_workers: bool = True,
) -> StudyPlan:
    """Return the plan of the runs that a study still has to do, as far as they can be chosen now.

    Args:
        study: The study.
        directory: Directory of the study.
        plugins: Installed plugins, whose code is a part of the key by which a run is recognised.
        only: Cells to run, as in `Study.only`; by default all.
        share: Whether cells share stages and forward passes.
        workers: Number of cells to run at a time.
        choose_workers: Whether `workers_for` chooses the number of cells to run at a time if `workers` is None.
            Otherwise one cell is run at a time.
    """
    keys = CellKeys(plugins)
    runs: list[Run] = []

    def results() -> StudyData:
        return read_data(directory, unstarted(study, runs))

    bundles: list[Bundle] = []
    is_last = True
    later = runs_of_later_batches(study)
    for batch in chosen_runs(study, results):
        work = plan_work(study.name, batch, keys, share, later)
        runs += work.runs
        bundles += work.bundles
        if unfinished(work, directory):
            is_last = False
            break

    whole_work = Work(tuple(runs), tuple(bundles))
    selected = whole_work.only(only)
    if not selected.tasks:
        message = "none of the cells asked for is in the `sample` of the study; ask for others, or raise `sample`"
        raise RecipeError([Problem(message)])
    if workers is None and choose_workers:
        workers = workers_for(selected)
    return StudyPlan(
        study, directory, keys, whole_work, selected, is_last, workers or 1
    )


def workers_for(work: Work) -> int:
    """Return how many cells to run at a time on this machine: as its cores allow, and one per 4 GiB of memory.

    One cell is run at a time if a cell may use all cores or a GPU.
    """
    threads = _threads(work)
    if threads is None:
        return 1

    workers = min(_cores() // threads, len(work.bundles))
    memory = memory_limit() or physical_memory()
    if memory is not None:
        workers = min(workers, memory // MEMORY_OF_CELL)
    return max(1, workers)


def _threads(work: Work) -> int | None:
    """Return the largest number of threads of a cell; None if a cell may use any number, or without cells."""
    most = None
    for task in work.tasks:
        threads = unstructure(task.recipe.runtime).get("threads")
        if threads is None:
            return None
        most = max(most or 0, int(threads))
    return most


def _cores() -> int:
    """Return the number of cores that this process may use, limited by the quota of its container."""
    cores = usable_cores()
    return min(cores, math.ceil(core_quota() or cores))


def _description(study: Study) -> Iterator[str]:
    """Yield lines on the study's axes, prompts and excluded cells, and on labels that are equal."""
    for axis in study.axes:
        yield f"  {axis.name}: {', '.join(axis.labels)}"

    if study.prompts:
        quoted = [f"“{prompt}”" for prompt in study.prompts]
        yield f"  prompts: {', '.join(quoted)}"

    names_of_reason: dict[str, list[str]] = {}
    for name, reason in study.reasons.items():
        names_of_reason.setdefault(reason, []).append(name)
    for reason, names in names_of_reason.items():
        yield f"  left out: {'; '.join(names)}: {reason}"

    for message in labels_that_are_equal(study.axes):
        yield f"  remark: {message}"


def _words_on_later_runs(study: Study) -> str:
    """Return in words which runs are chosen from the results of others."""
    parts = []
    if study.table.trials:
        parts.append(f"up to {count(study.table.trials, 'cell')} by Optuna")
    decide = study.table.decide
    if decide is not None and decide.confirm:
        seeds = count(decide.confirm, "fresh seed")
        parts.append(f"the chosen cell with {seeds}")
    return ", ".join(parts)
