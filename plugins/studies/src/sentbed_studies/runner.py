"""Runs a study: first the stages that cells share, then the cells. Finished runs are not repeated.

A `Task` is one run of a cell, with one seed and prompt. A `Prefix` is one run of stages that cells share. A
`Work` is all runs of a study, or of a part of its cells. A `Job` is a run of either kind with its recipe. A
`Bundle` is the jobs that one worker does in sequence. An `Outcome` is the result of a job.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

import attrs
from sentbed.errors import RunError
from sentbed.helpers import remove_directory
from sentbed.protocols import Recipe
from sentbed.tools import Plugins, load_plugins, locked, new_directory
from sentbed_common import TaskPool, is_locked
from sentbed_jobs.executor_lookup import executor_of
from sentbed_jobs.pool_loop import Say
from sentbed_report.formatting import count, duration
from sentbed_report.report_config import ReportTable
from sentbed_report.study.read_cell_run import manifest_status
from sentbed_report.study.read_study_directory import is_finished, lock_of
from sentbed_report.study.study_record import STUDY

from sentbed_studies.added_evaluations import run_states
from sentbed_studies.cell_keys import CellKeys
from sentbed_studies.confirmation import (
    confirmation_of,
    fresh_seeds_in_words,
    number_of_fresh_runs,
)
from sentbed_studies.progress import seconds_left
from sentbed_studies.shared_work_plan import Prefix, Task, Work, chain, plan_work
from sentbed_studies.study import Entries, Study
from sentbed_studies.study_config import StudyTable
from sentbed_studies.study_jobs import Bundle, Job, Outcome, start_worker
from sentbed_studies.write_study_directory import (
    has_same_runs,
    note_confirmation,
    write_study,
)

STUDY_FILES = re.compile(r"\.?study\.(json|toml)(\..+)?|locks")
"""Names of the files that may be in a study's directory before its first run."""
LONGEST_NAME = 100
"""Maximum number of characters of a run's name; see `RunTable.name`."""
PAUSE = 0.5
"""Seconds between two checks whether another process still works on a run."""


@attrs.frozen(eq=False)
class StudyResult:
    """Result of `run_study`."""

    directory: Path
    failed: tuple[Outcome, ...]
    worked: bool
    """Whether this call started at least one run, which may have failed; False if all had finished before."""


def run_study(  # noqa: PLR0913 - keywords
    study: Study,
    out: str | Path | None = None,
    plugins: Plugins | None = None,
    *,
    executor: TaskPool | None = None,
    only: Entries = (),
    work: Work | None = None,
    keep_going: bool = False,
    retrain: bool = False,
    share: bool = True,
    say: Say = lambda _: None,
    workers: int = 1,
) -> StudyResult:
    """Run all unfinished cells of a study.

    Finished runs are not repeated, and interrupted runs are resumed: the directory of a run is named by its key,
    a hash of everything that determines the weights (`CellKeys`). Evaluations that were added to the recipe are
    computed with the saved encoders of finished runs. Several processes may work on the same study; then each
    run is done by one of them.

    Args:
        study: The study.
        out: Directory of the study, by default `studies/NAME`.
        plugins: By default the installed ones.
        executor: Task pool that runs the cells; by default a local one.
        only: Cells to run, in the form of `StudyTable.exclude`; by default all.
        work: Result of `plan_work` for the whole study; by default it is planned here.
        keep_going: Whether to run the other cells when a cell fails.
        retrain: Whether to train a cell again if it lacks an evaluation and has no saved encoder.
        share: Whether cells share stages and forward passes, if `work` is planned here.
        say: Gets the lines of progress.
        workers: Number of runs that the executor does at a time, for the time left in progress lines.

    Raises:
        RecipeError: if `only` names an unknown axis or label.
        RunError: if a cell fails, unless `keep_going` (finished cells are kept); if the directory holds
            another study, or another recipe that another process has written there in the meantime; or if a cell
            must be trained again for an added evaluation, unless `retrain`.
    """
    plugins = plugins or load_plugins()
    directory = Path(out or Path("studies") / study.name)
    whole = work or plan_work(study.cells, CellKeys(plugins), share)
    work = whole.of(study.only(only).cells) if only else whole

    to_train_again = _runs_to_train_again(directory, work, retrain)
    _require_place_of_study(directory)
    write_study(directory, study, whole)
    directory = directory.resolve()
    total = len(work.tasks)
    if not only:
        total += number_of_fresh_runs(study)

    executor = executor or executor_of("local", {}, plugins, say)
    runner = _Runner(
        directory,
        executor,
        keep_going,
        say,
        total,
        workers,
        to_train_again=set(to_train_again),
    )
    _run_work(study, work, runner)
    if not has_same_runs(directory, study, whole):
        raise RunError(
            f"another process has written another recipe into `{directory}`; run this one again"
        )

    # A cell that has failed might have been the best one.
    if not only and not runner.failed:
        _confirm(study, whole, CellKeys(plugins), share, retrain, runner)

    if study.table.keep != "all":
        _remove_shared(whole.tasks, whole, directory)
    return StudyResult(directory, tuple(runner.failed), runner.worked)


def _runs_to_train_again(
    directory: Path,
    work: Work,
    retrain: bool,
) -> list[Task]:
    """Return the finished runs that lack evaluations and have kept no encoder.

    Raises:
        RunError: if there are such runs, unless `retrain`.
    """
    tasks = []
    for state in run_states(directory, work):
        if state.is_to_be_trained_again:
            tasks.append(state.task)

    if tasks and not retrain:
        raise RunError(
            f"{count(len(tasks), 'run')} of `{directory}` have kept no encoder, so that evaluations "
            "which were added mean to train them again; let it (`--retrain`), or take the evaluations out"
        )
    return tasks


def _confirm(
    study: Study,
    whole: Work,
    keys: CellKeys,
    share: bool,
    retrain: bool,
    runner: _Runner,
) -> None:
    """Run the chosen cell with fresh seeds, if the recipe asks for this. All other runs must have finished."""
    confirmation = confirmation_of(
        study, whole, runner.directory, keys, share, is_over=True
    )
    if confirmation is None or confirmation.work is None:
        return

    work = confirmation.work
    runner.to_train_again.update(_runs_to_train_again(runner.directory, work, retrain))
    note_confirmation(runner.directory, work)
    runner.say(
        f"the chosen cell is {work.tasks[0].cell.name}; it is run with {fresh_seeds_in_words(study)}"
    )

    _run_work(study, work, runner)
    if study.table.keep != "all":
        _remove_shared(work.tasks, work, runner.directory)


def _run_work(
    study: Study,
    work: Work,
    runner: _Runner,
) -> None:
    """Run the stages that cells share, and then the cells.

    A shared stage continues from the shared stages before it. Those with the fewest before them are run first.
    """
    unstarted = []
    for task in work.tasks:
        status = manifest_status(runner.directory / task.directory)
        if status is None or task in runner.to_train_again:
            unstarted.append(task)

    by_depth: dict[int, list[Bundle]] = {}
    for prefix in work.prefixes_to_run(runner.directory, unstarted):
        # Trackers record only cells.
        recipe = attrs.evolve(_single_run(prefix.recipe), tracker=())
        by_depth.setdefault(prefix.depth, []).append(Bundle((Job(prefix, recipe),)))

    for depth in sorted(by_depth):
        runner.do(by_depth[depth])

    bundles = []
    for tasks in work.bundles:
        jobs = []
        for task in tasks:
            recipe = _single_run(task.recipe)
            run = attrs.evolve(recipe.run, name=_run_name(study, task))
            recipe = attrs.evolve(recipe, run=run)
            again = task in runner.to_train_again
            jobs.append(Job(task, recipe, study.table.keep, again))
        bundles.append(Bundle(tuple(jobs)))

    runner.do(bundles)


def _run_name(study: Study, task: Task) -> str:
    """Return the `run.name` of a cell: names of the study, the cell and the prompt, the seed, and a short key."""
    cell = task.cell
    name = f"{study.name}.{cell.name.replace(', ', '_')}"
    if cell.prompt:
        name += f"-{cell.prompt}"
    safe = re.sub(r"[^A-Za-z0-9._-]", "-", name)
    end = f"-seed{cell.seed}-{task.key[:8]}"
    return safe[: LONGEST_NAME - len(end)] + end


def _single_run(recipe: Recipe) -> Recipe:
    """Return a cell's recipe as that of a single run: without `[study]`, and without scatter plots.

    Scatter plots are slow to draw.
    """
    tables = dict(recipe.without(StudyTable).tables)
    tables["report"] = ReportTable(scatters=False)
    return attrs.evolve(recipe, tables=tables)


def _remove_shared(
    tasks: Sequence[Task],
    work: Work,
    directory: Path,
) -> None:
    """Remove the runs of the shared stages of `work`.

    Keep those from which an unfinished run of `tasks` continues, and those on which another process works.
    """
    to_keep: set[Prefix] = set()
    for task in tasks:
        if not task.is_done(directory):
            to_keep.update(chain(task.above))

    for prefix in work.prefixes:
        run = directory / prefix.directory
        if prefix in to_keep or not run.is_dir():
            continue
        with locked(lock_of(directory, run)) as is_free:
            if is_free:
                remove_directory(run)


def _require_place_of_study(directory: Path) -> None:
    """Refuse a directory with files of anything but a study; it may also be missing or empty.

    Raises:
        RunError: if it holds anything else.
    """
    names = []
    if directory.is_dir():
        names = [path.name for path in directory.iterdir()]
    # If `study.json` is missing, another process may have just begun the study, or was killed at its beginning.
    if STUDY not in names and not all(map(STUDY_FILES.fullmatch, names)):
        # Raises an error that names what the directory holds.
        new_directory(directory)


@attrs.define(eq=False)
class _Runner:
    """Runs jobs with an executor; counts and prints their outcomes."""

    directory: Path
    executor: TaskPool
    keep_going: bool
    say: Say
    total: int
    """Number of runs of cells."""
    workers: int = 1
    """Number of runs that the executor does at a time."""

    done: int = 0
    """Number of runs of cells that have ended."""
    failed: list[Outcome] = attrs.field(factory=list)
    took: list[float] = attrs.field(factory=list)
    """Seconds of the runs of cells that have finished."""
    worked: bool = False
    """Whether at least one run was started, which may have failed; False if all had finished before."""
    to_train_again: set[Task] = attrs.field(factory=set)
    """Finished runs that lack evaluations and have kept no encoder."""

    def do(self, bundles: Sequence[Bundle]) -> None:
        """Do all jobs. While other processes are doing all jobs that are left, wait; then try them again."""
        while bundles:
            bundles = self._do_free(bundles)
            locks = []
            for bundle in bundles:
                for job in bundle.jobs:
                    locks.append(lock_of(self.directory, job.directory))
            while locks and all(map(is_locked, locks)):
                time.sleep(PAUSE)

    def _do_free(self, bundles: Sequence[Bundle]) -> list[Bundle]:
        """Do the jobs on which no other process works; return the other jobs."""
        start = partial(start_worker, self.directory, self.keep_going)
        busy_bundles = []
        with closing(self.executor.run(start, bundles, on_death=self._died)) as results:
            for _, outcomes in results:
                busy = []
                for outcome in outcomes:
                    if outcome.result == "busy":
                        busy.append(outcome.job)
                    else:
                        self._report(outcome)
                if busy:
                    busy_bundles.append(Bundle(tuple(busy)))
        return busy_bundles

    def _died(self, bundle: Bundle, message: str) -> list[Outcome]:
        """Return the outcomes of the jobs of a bundle whose worker died; `message` says how."""
        outcomes = []
        for job in bundle.jobs:
            if is_finished(self.directory / job.directory, job.evaluation_keys):
                outcomes.append(Outcome(job, "was finished"))
            else:
                outcomes.append(Outcome(job, "failed", error=message))
        return outcomes

    def _report(self, outcome: Outcome) -> None:
        """Count and print the outcome of a job. Raises `RunError` if it failed, unless `keep_going`."""
        line = f"{outcome.job}: {outcome.result}"
        if isinstance(outcome.job.run, Task):
            self.done += 1
            line = f"{self.done} of {self.total}: {line}"
            if outcome.result == "finished":
                self.took.append(outcome.seconds)
        if outcome.result == "finished":
            line += f" in {outcome.seconds:.0f} s"
        if outcome.result != "was finished":
            self.worked = True

        if outcome.result == "failed":
            self.say(f"{line}: {outcome.error}")
            self.failed.append(outcome)
            if not self.keep_going:
                raise self._error(outcome)
            return

        seconds = seconds_left(self.took, self.total - self.done, self.workers)
        if seconds:
            line += f"; about {duration(seconds)} left"
        self.say(line)

    def _error(self, outcome: Outcome) -> RunError:
        """Return the error of a failed job, with the traceback of an unexpected one as a note."""
        run = self.directory / outcome.job.directory
        error = RunError(
            f"{outcome.job} failed: {outcome.error}; what has finished is kept in `{self.directory}`, "
            f"and of this run what is in `{run}`; mend it and start the study again, or let the others "
            "go on (`--keep-going`)"
        )
        if outcome.traceback:
            error.add_note(outcome.traceback)
        return error
