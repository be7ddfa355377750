"""Plan of the runs that a study still has to do: their time, and the number of cells to run at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs
from sentbed.errors import Problem, RecipeError
from sentbed.helpers import physical_memory, usable_cores
from sentbed.tools import Plugins, unstructure
from sentbed_common import core_quota, memory_limit
from sentbed_report.formatting import count

from sentbed_studies.added_evaluations import RunState, run_states
from sentbed_studies.axes import labels_that_are_equal
from sentbed_studies.cell_keys import CellKeys
from sentbed_studies.confirmation import (
    Confirmation,
    confirmation_of,
    fresh_seeds_in_words,
)
from sentbed_studies.sampled_cells import number_of_runs
from sentbed_studies.shared_work_plan import Work, plan_work
from sentbed_studies.study import Entries, Remark, Study
from sentbed_studies.time_left import START, TimeLeft, time_left
from sentbed_studies.unused_results import run_state_lines

MEMORY_SHARE = 0.8
"""Share of the machine's memory that all cells running at the same time may use together."""
SHOWN = 3
"""Maximum number of cells that a remark names."""


@attrs.frozen(eq=False)
class StudyPlan:
    """Plan of the runs that a study still has to do."""

    study: Study
    directory: Path
    whole_work: Work
    """Runs of the whole study."""
    work: Work
    """Runs of the selected cells."""
    left: TimeLeft
    """Planned and measured times of the runs, from which the time left follows, and the number of workers."""
    states: Sequence[RunState] = ()
    """State of each run of `work` in the directory."""
    confirmation: Confirmation | None = None
    """Runs of the chosen cell with fresh seeds, which follow the runs of `work`."""

    def lines(self) -> Iterator[str]:
        """Yield the lines of a readable summary."""
        yield self._sizes()
        yield from _description(self.study)
        if self.confirmation is not None:
            yield f"  confirms: {_words_on_confirmation(self.study, self.confirmation)}"
        for line in run_state_lines(self.states, self.directory):
            yield f"  {line}"

        yield from self._shared_work()
        yield from self._time()

    def require_usable_data(self) -> None:
        """Raise `RecipeError` if runs would fail because of their data."""
        if self.left.unusable:
            raise RecipeError(map(Problem, self.left.unusable))

    def _sizes(self) -> str:
        """Return a line with the numbers of cells, prompts, seeds, runs and finished runs."""
        sampling = self.study.table.sampler
        runs = number_of_runs(self.study, self.work)
        finished = 0
        without_evaluations = 0
        for state in self.states:
            if state.is_done:
                finished += 1
            if state.missing:
                without_evaluations += 1

        names = {task.cell.name for task in self.work.tasks}
        sizes = count(len(names), "cell")
        if sampling is not None:
            sizes = f"{sampling.cells:,} of {sizes}"
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

    def _shared_work(self) -> Iterator[str]:
        """Yield a line for each prefix of stages that runs share, and for each forward pass that they share."""
        work = self.work
        at_most = "" if self.study.table.sampler is None else "at most "
        unstarted = [state.task for state in self.states if state.status is None]

        for prefix in work.prefixes_to_run(self.directory, unstarted):
            runs = count(work.sharing(prefix), "run")
            yield f"  shared: {prefix}, trained once for {at_most}{runs}"

        for bundle in work.bundles:
            if len(bundle) > 1:
                runs = f"{at_most}{len(bundle)} runs"
                yield f"  shared: one pass of the backbone for {runs}: {bundle[0]} and others"

    def _time(self) -> Iterator[str]:
        """Yield lines on the time of the study, the time left, and idle cores."""
        left = self.left
        more_than = ""
        for problem in left.problems:
            yield f"  not in the estimate: {problem}"
            more_than = "more than "

        whole = left.of_all_in_words()
        if whole is not None:
            yield f"  all runs, one after the other: {more_than}{whole}"
        if left.seconds() is None:
            yield "  time left: unknown"
        time = left.in_words()
        if time is None:
            # The time is unknown, or nothing is left to do.
            return

        yield f"  time left: {more_than}{time} on this machine, {count(left.workers, 'cell')} at a time"

        threads = _threads(self.work)
        cores = _cores()
        if threads is not None and 2 * threads * left.workers <= cores:
            yield (
                f"  {cores - threads * left.workers} of {cores} cores stay idle; "
                f"`--set study.threads={cores // left.workers}` lets cells use them, under keys of their own"
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
    whole = work = plan_work(study.cells, keys, share, directory)
    if only:
        work = whole.of(study.only(only).cells)
    states = run_states(directory, work)
    runs_left = [state.is_done for state in states].count(False)
    confirmation = None
    if not only:
        is_over = not runs_left
        confirmation = confirmation_of(study, work, directory, keys, share, is_over)

    if confirmation is not None:
        runs_left += confirmation.number_left
    # If nothing is left to do, an estimate would build models in vain.
    left = TimeLeft({}, workers=workers or 1)
    if runs_left:
        left = time_left(
            work,
            directory,
            states=states,
            number_of_runs=number_of_runs(study, work),
            confirmation=confirmation,
        )
        if workers is not None:
            left.workers = workers
        elif choose_workers:
            left.workers = workers_for(work, left)
    return StudyPlan(study, directory, whole, work, left, states, confirmation)


def workers_for(work: Work, left: TimeLeft) -> int:
    """Return how many cells to run at a time on this machine, as its cores and its memory allow.

    One cell is run at a time if a cell may use all cores or a GPU, if the memory of a cell is unknown, or if the
    runs take less time than more workers need to load the libraries.
    """
    threads = _threads(work)
    seconds = left.seconds()
    memory = memory_limit() or physical_memory()
    if threads is None or not left.memory or memory is None:
        return 1

    if seconds is None or seconds[1] < 3 * START:
        return 1

    by_memory = int(MEMORY_SHARE * memory // left.memory)
    return max(1, min(_cores() // threads, by_memory, len(work.bundles)))


def _threads(work: Work) -> int | None:
    """Return the largest number of threads of a cell; None if a cell may use any number, or without cells."""
    most = None
    for task in work.tasks:
        threads = unstructure(task.cell.recipe.runtime).get("threads")
        if threads is None:
            return None
        most = max(most or 0, int(threads))
    return most


def _cores() -> int:
    """Return the number of cores that this process may use, limited by the quota of its container."""
    cores = usable_cores()
    return min(cores, math.ceil(core_quota() or cores))


def _description(study: Study) -> Iterator[str]:
    """Yield lines on the study's axes, prompts, excluded cells and remarks."""
    sampling = study.table.sampler
    if sampling is not None:
        line = f"  cells: sampled by {sampling.sampler.name}, seed {sampling.seed}"
        if sampling.sampler.learns:
            line += f", {count(sampling.batch, 'cell')} at a time with seed {study.seeds[0]}"
        yield line

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

    for remark in study.remarks:
        yield f"  not here, and not asked for now: {remark_text(remark)}"


def _words_on_confirmation(study: Study, confirmation: Confirmation) -> str:
    """Return in words which runs with fresh seeds are left, and how their time is estimated."""
    seeds = fresh_seeds_in_words(study)
    runs = f"{count(confirmation.number_left, 'run')} of a mean cell"
    if confirmation.work is None:
        return (
            f"the chosen cell is run with {seeds} after all others; which one that is is not known yet, and "
            f"the estimate counts {runs}"
        )

    cell = confirmation.work.tasks[0].cell.name
    if not confirmation.unfinished:
        return f"the chosen cell, {cell}, was run with {seeds}"
    return f"the chosen cell, {cell}, is run with {seeds}; the estimate counts {runs}"


def remark_text(remark: Remark) -> str:
    """Return a remark as text: the names of its first cells, and the message."""
    cells = "; ".join(remark.cells[:SHOWN])
    if len(remark.cells) > SHOWN:
        cells += " and others"
    return f"{cells}: {remark.message}"
