"""Runs a study: the batches of runs that a chooser gives, each after the stages that its runs share.

Finished runs are not repeated.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

import attrs
from sentbed.errors import RunError
from sentbed.helpers import remove_directory
from sentbed.protocols import Executor
from sentbed.tools import Plugins, load_plugins, locked, new_directory
from sentbed_common import is_locked
from sentbed_jobs.local import Local
from sentbed_report.formatting import duration
from sentbed_report.study.read_study_directory import lock_of, read_data
from sentbed_report.study.study_data import StudyData
from sentbed_report.study.study_file import STUDY

from sentbed_studies.cell_keys import CellKeys
from sentbed_studies.choosers import chosen_runs, runs_of_later_batches
from sentbed_studies.progress import seconds_left
from sentbed_studies.shared_work_plan import (
    Bundle,
    Work,
    plan_work,
    unfinished,
)
from sentbed_studies.study import Entries, Run, Study
from sentbed_studies.study_config import Keep
from sentbed_studies.study_jobs import Outcome, start_worker
from sentbed_studies.write_study_directory import unstarted, write_study

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
    executor: Executor | None = None,
    keys: CellKeys | None = None,
    only: Entries = (),
    keep_going: bool = False,
    share: bool = True,
    say: Callable[[str], object] = lambda _: None,
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
        executor: Executor that runs the cells; by default this process does.
        keys: Computes the keys of runs; by default, files are hashed anew.
        only: Cells to run, in the form of `StudyTable.exclude`; by default all.
        keep_going: Whether to run the other cells when a cell fails.
        share: Whether cells share stages and forward passes.
        say: Gets the lines of progress.
        workers: Number of runs that the executor does at a time, for the time left in progress lines.

    Raises:
        RecipeError: if `only` names an unknown axis or label.
        RunError: if a cell fails, unless `keep_going` (finished cells are kept), or if the directory holds
            another study.
    """
    plugins = plugins or load_plugins()
    keys = keys or CellKeys(plugins)
    if only:
        study.only(only)
    directory = Path(out or study.default_directory)
    # Another process that has just begun the study may be writing a hidden file.
    holds_files = any(directory.glob("[!.]*"))
    if holds_files and not (directory / STUDY).is_file():
        # Raises an error that names what the directory holds.
        new_directory(directory)
    runner = _Runner(
        directory.resolve(),
        executor or Local(),
        study.table.keep,
        keep_going,
        say,
        workers,
    )

    runs: list[Run] = []

    def results() -> StudyData:
        return read_data(directory, unstarted(study, runs))

    works = []
    later = runs_of_later_batches(study)
    for batch in chosen_runs(study, results):
        if runs:
            say(f"the next cell is {batch[0].name}")
        work = plan_work(study.name, batch, keys, share, later)
        works.append(work)
        runs += work.runs
        # A study that is started again lists all its runs until it has found which are to be done.
        if unfinished(work, directory):
            write_study(directory, study, runs)
        runner.do_work(work.only(only))
    if study.table.keep != "all":
        _remove_shared(works, runner.directory)
    write_study(directory, study, runs)
    return StudyResult(runner.directory, tuple(runner.failed), runner.worked)


def _remove_shared(works: Sequence[Work], directory: Path) -> None:
    """Remove the runs of shared stages.

    Keep those from which an unfinished run continues, and those on which another process works.
    """
    shared: set[Path] = set()
    to_keep: set[Path] = set()
    for work in works:
        for stages in work.shared_stages:
            shared.add(stages.directory)
        for task in work.tasks:
            if not task.is_done(directory):
                to_keep.update(stages.directory for stages in task.before)

    for stages_directory in shared - to_keep:
        run = directory / stages_directory
        if not run.is_dir():
            continue
        with locked(lock_of(directory, run)) as is_free:
            if is_free:
                remove_directory(run)


@attrs.define(eq=False)
class _Runner:
    """Does tasks with an executor; counts and prints their outcomes."""

    directory: Path
    executor: Executor
    keep: Keep
    keep_going: bool
    say: Callable[[str], object]
    workers: int = 1
    """Number of tasks that the executor does at a time."""

    total: int = 0
    """Number of runs so far, without tasks of shared stages."""
    done: int = 0
    """Number of these runs that have ended."""
    failed: list[Outcome] = attrs.field(factory=list)
    took: list[float] = attrs.field(factory=list)
    """Seconds of the runs that have finished."""
    worked: bool = False
    """Whether at least one task was started, which may have failed; False if all had finished before."""

    def do_work(self, work: Work) -> None:
        """Do the shared stages, those with the fewest stages before them first, and then the runs."""
        self.total += len(work.tasks)
        by_depth: dict[int, list[Bundle]] = {}
        for stages in work.stages_to_run(self.directory):
            depth = len(list(stages.before))
            by_depth.setdefault(depth, []).append(Bundle((stages,)))
        for depth in sorted(by_depth):
            self._do(by_depth[depth])
        self._do(work.bundles)

    def _do(self, bundles: Sequence[Bundle]) -> None:
        """Do all tasks. While other processes are doing all tasks that are left, wait; then try them again."""
        while bundles:
            bundles = self._do_free(bundles)
            locks = []
            for bundle in bundles:
                for task in bundle.tasks:
                    locks.append(lock_of(self.directory, task.directory))
            while locks and all(map(is_locked, locks)):
                time.sleep(PAUSE)

    def _do_free(self, bundles: Sequence[Bundle]) -> list[Bundle]:
        """Do the tasks on which no other process works; return the other tasks."""
        start = partial(start_worker, self.directory, self.keep, self.keep_going)
        busy_bundles = []
        with closing(self.executor.run(start, bundles, self.say)) as results:
            for bundle, result in results:
                outcomes = result
                if isinstance(result, RunError):
                    outcomes = self._outcomes_of_dead(bundle, result)
                busy = []
                for outcome in outcomes:
                    if outcome.result == "busy":
                        busy.append(outcome.task)
                    else:
                        self._report(outcome)
                if busy:
                    busy_bundles.append(Bundle(tuple(busy)))
        return busy_bundles

    def _outcomes_of_dead(self, bundle: Bundle, error: RunError) -> list[Outcome]:
        """Return the outcomes of the tasks of a bundle whose workers died."""
        outcomes = []
        for task in bundle.tasks:
            if task.is_done(self.directory):
                outcomes.append(Outcome(task, "was finished"))
            else:
                outcomes.append(Outcome(task, "failed", error=str(error)))
        return outcomes

    def _report(self, outcome: Outcome) -> None:
        """Count and print the outcome of a task. Raises `RunError` if it failed, unless `keep_going`."""
        line = f"{outcome.task}: {outcome.result}"
        if outcome.task.stages is None:
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
        run = self.directory / outcome.task.directory
        error = RunError(
            f"{outcome.task} failed: {outcome.error}; what has finished is kept in `{self.directory}`, "
            f"and of this run what is in `{run}`; mend it and start the study again, or let the others "
            "go on (`--keep-going`)"
        )
        if outcome.traceback:
            error.add_note(outcome.traceback)
        return error
