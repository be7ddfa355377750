"""Plan of the runs that a study still has to do: their time, and the number of cells to run at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs
from sentbed.errors import Problem, RecipeError, SentbedError
from sentbed.helpers import physical_memory, usable_cores
from sentbed.tools import Plugins, unstructure
from sentbed_common import core_quota, memory_limit
from sentbed_report.formatting import count
from sentbed_report.study.read_study_directory import is_finished
from sentbed_report.study.study_record import RUNS
from sentbed_workbench.resource_plan import Planner

from sentbed_studies.added_evaluations import RunState, lines_on_evaluations, run_states
from sentbed_studies.axes import labels_that_are_equal
from sentbed_studies.cell_keys import CellKeys
from sentbed_studies.confirmation import (
    Confirmation,
    confirmation_of,
    fresh_seeds_in_words,
)
from sentbed_studies.shared_work_plan import Work, plan_work
from sentbed_studies.study import Entries, Study

MEMORY_SHARE = 0.8
"""Share of the machine's memory that all cells running at the same time may use together."""


@attrs.frozen(eq=False)
class StudyPlan:
    """Plan of the runs that a study still has to do."""

    study: Study
    directory: Path
    whole_work: Work
    """Runs of the whole study."""
    work: Work
    """Runs of the selected cells."""
    workers: int
    """Number of cells that are run at a time."""
    states: Sequence[RunState] = ()
    """State of each run of `work` in the directory."""
    unusable: Sequence[str] = ()
    """Messages about data because of which runs would fail."""
    confirmation: Confirmation | None = None
    """Runs of the chosen cell with fresh seeds, which follow the runs of `work`."""

    def lines(self) -> Iterator[str]:
        """Yield the lines of a readable summary."""
        yield self._sizes()
        yield from _description(self.study)
        if self.confirmation is not None:
            yield f"  confirms: {_words_on_confirmation(self.study, self.confirmation)}"
        for line in lines_on_evaluations(self.states):
            yield f"  {line}"
        unused = self._unused_runs()
        if unused:
            runs = count(unused, "finished run")
            yield f"  left out: {runs} under other keys; they stay on disk"

        yield from self._shared_work()
        yield from self._workers()

    def require_usable_data(self) -> None:
        """Raise `RecipeError` if runs would fail because of their data."""
        if self.unusable:
            raise RecipeError(map(Problem, self.unusable))

    def _sizes(self) -> str:
        """Return a line with the numbers of cells, prompts, seeds, runs and finished runs."""
        runs = len(self.work.tasks)
        finished = 0
        without_evaluations = 0
        for state in self.states:
            if state.is_done:
                finished += 1
            if state.missing:
                without_evaluations += 1

        names: set[str] = set()
        for task in self.work.tasks:
            names.update(cell.name for cell in task.cells)
        sizes = count(len(names), "cell")
        if self.study.prompts:
            sizes += f" x {count(len(self.study.prompts), 'prompt')}"
        sizes += f" x {count(len(self.study.seeds), 'seed')}"
        if self.confirmation is not None:
            runs += self.confirmation.runs
            finished += self.confirmation.runs - self.confirmation.number_left
            sizes += f" + {count(self.confirmation.runs, 'run')} of the chosen cell"

        line = f"study {self.study.name}: {sizes} = {count(runs, 'run')}, {finished} finished"
        if without_evaluations:
            line += f", {without_evaluations:,} trained that lack evaluations"
        return line

    def _unused_runs(self) -> int:
        """Return the number of finished runs in the directory that are not runs of this study."""
        tasks = list(self.whole_work.tasks)
        if self.confirmation is not None and self.confirmation.work is not None:
            tasks += self.confirmation.work.tasks
        used = {task.key for task in tasks}

        unused = 0
        for run in (self.directory / RUNS).glob("*"):
            if run.name not in used and is_finished(run):
                unused += 1
        return unused

    def _shared_work(self) -> Iterator[str]:
        """Yield a line for each prefix of stages that runs share, and for each forward pass that they share."""
        work = self.work
        unstarted = [state.task for state in self.states if state.status is None]

        for prefix in work.prefixes_to_run(self.directory, unstarted):
            runs = count(work.sharing(prefix), "run")
            yield f"  shared: {prefix}, trained once for {runs}"

        for bundle in work.bundles:
            if len(bundle) > 1:
                runs = f"{len(bundle)} runs"
                yield f"  shared: one pass of the backbone for {runs}: {bundle[0]} and others"

    def _workers(self) -> Iterator[str]:
        """Yield lines on the number of cells that are run at a time, and on idle cores."""
        if not runs_left(self.states, self.confirmation):
            return

        workers = self.workers
        yield f"  runs: {count(workers, 'cell')} at a time"

        threads = _threads(self.work)
        cores = _cores()
        if threads is not None and 2 * threads * workers <= cores:
            yield (
                f"  {cores - threads * workers} of {cores} cores stay idle; "
                f"`--set study.threads={cores // workers}` lets cells use them, under keys of their own"
            )


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
    """Return the plan of the runs that a study still has to do.

    Args:
        study: The study.
        directory: Directory of the study.
        plugins: Installed plugins, whose code is a part of the key by which a run is recognised.
        only: Cells to run, as in `Study.only`; by default all. If cells are selected, no cell is run with fresh
            seeds.
        share: Whether cells share stages and forward passes.
        workers: Number of cells to run at a time.
        choose_workers: Whether `workers_for` chooses the number of cells to run at a time if `workers` is None.
            Otherwise one cell is run at a time.
    """
    keys = CellKeys(plugins)
    whole = work = plan_work(study.cells, keys, share)
    if only:
        work = whole.of(study.only(only).cells)
    states = run_states(directory, work)
    confirmation = None
    if not only:
        is_over = all(state.is_done for state in states)
        confirmation = confirmation_of(study, work, directory, keys, share, is_over)

    unusable: Sequence[str] = ()
    # If nothing is left to do, models would be built in vain.
    if runs_left(states, confirmation):
        planner = Planner()
        memory = largest_memory(work, planner)
        unusable = planner.unusable
        if workers is None and choose_workers:
            workers = workers_for(work, memory)
    return StudyPlan(
        study, directory, whole, work, workers or 1, states, unusable, confirmation
    )


def runs_left(states: Sequence[RunState], confirmation: Confirmation | None) -> int:
    """Return the number of runs that are not done, with those of the chosen cell."""
    left = sum(not state.is_done for state in states)
    if confirmation is not None:
        left += confirmation.number_left
    return left


def largest_memory(work: Work, planner: Planner) -> int | None:
    """Return the largest memory of a run in bytes, as planned; None if that of a run is unknown."""
    planned: set[str] = set()
    largest = 0
    for task in work.tasks:
        recipe = task.cell.recipe
        key = repr((recipe.runtime, recipe.encoders, recipe.stage))
        if key in planned:
            continue

        planned.add(key)
        try:
            plan = planner.plan(recipe)
        except SentbedError:
            return None
        for memory in (plan.encoding, *(stage.memory for stage in plan.stages)):
            largest = max(largest, sum(memory.values()))
    return largest or None


def workers_for(work: Work, memory_of_run: int | None) -> int:
    """Return how many cells to run at a time on this machine, as its cores and its memory allow.

    One cell is run at a time if a cell may use all cores or a GPU, or if the memory of a cell is unknown.
    """
    threads = _threads(work)
    memory = memory_limit() or physical_memory()
    if threads is None or memory_of_run is None or memory is None:
        return 1

    by_memory = int(MEMORY_SHARE * memory // memory_of_run)
    return max(1, min(_cores() // threads, by_memory, len(work.bundles)))


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
        yield f"  prompts, {study.table.prompt_factor}: {', '.join(quoted)}"

    excluded: dict[str, list[str]] = {}
    for cell in study.excluded:
        excluded.setdefault(" ".join(cell.reasons), []).append(cell.name)

    for reason, names in excluded.items():
        yield f"  left out: {'; '.join(names)}: {reason}"

    for message in labels_that_are_equal(study.axes):
        yield f"  remark: {message}"


def _words_on_confirmation(study: Study, confirmation: Confirmation) -> str:
    """Return in words which runs with fresh seeds there are."""
    seeds = fresh_seeds_in_words(study)
    if confirmation.work is None:
        return f"the chosen cell is run with {seeds} after all others"

    cell = confirmation.work.tasks[0].cell.name
    verb = "is" if confirmation.unfinished else "was"
    return f"the chosen cell, {cell}, {verb} run with {seeds}"
