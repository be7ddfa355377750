"""Jobs of a study: a worker runs a cell, or stages that cells share, unless that has been done."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from traceback import format_exception
from typing import Literal, TypeAlias

import attrs
from sentbed.errors import RunError, SentbedError
from sentbed.helpers import remove_directory, write_atomic
from sentbed.protocols import Recipe
from sentbed.tools import (
    CHECKPOINTS,
    ENCODER,
    MANIFEST,
    STATES,
    Plugins,
    go_on,
    load_plugins,
    locked,
    new_directory,
    run_in,
    train_first_stages,
)
from sentbed_report.study.read_cell_run import (
    KEYS,
    UNREADABLE,
    manifest_status,
)
from sentbed_report.study.read_study_directory import is_finished, lock_of

from sentbed_studies.added_evaluations import (
    add_evaluations,
    evaluations_before_training,
    has_encoder,
    keys_json,
)
from sentbed_studies.branched_run import branch
from sentbed_studies.shared_forward_passes import KeptEncoders, share_passes
from sentbed_studies.shared_work_plan import Prefix, Task

Keep: TypeAlias = Literal["scores", "best", "all"]
Result: TypeAlias = Literal["finished", "was finished", "failed", "busy"]

CONSOLE = "sentbed-trackers:console"
"""Plugin of the tracker that shows a single run on the terminal; it is disabled in studies."""


@attrs.frozen(eq=False)
class Job:
    """One run of a study: a cell, or stages that cells share."""

    run: Task | Prefix
    recipe: Recipe = attrs.field(repr=False)
    """Recipe of the run, without the tables of the study."""
    keep: Keep = "all"
    """Which files of the finished run are kept; see `StudyTable.keep`."""
    again: bool = False
    """Whether the finished run is trained again, since it lacks evaluations and has kept no encoder."""

    @property
    def directory(self) -> Path:
        """Directory of the run, relative to the directory of the study."""
        return self.run.directory

    @property
    def stages(self) -> int | None:
        """Number of stages to run, if these are shared stages; None if the whole recipe is run."""
        return self.run.count if isinstance(self.run, Prefix) else None

    @property
    def evaluation_keys(self) -> tuple[str, ...]:
        """Keys of the evaluations of a cell, in the order in which they are run; empty for shared stages."""
        return self.run.evaluation_keys if isinstance(self.run, Task) else ()

    def __str__(self) -> str:
        return str(self.run)


@attrs.frozen(eq=False)
class Outcome:
    """Result of a job."""

    job: Job
    result: Result
    """`was finished` if the job had been done before; `busy` if another process is doing it now."""
    seconds: float = 0.0
    error: str = ""
    """Message of the error if the job has failed."""
    traceback: str = ""
    """Traceback of the error if it is not a `SentbedError`, and so unexpected."""


@attrs.frozen(eq=False)
class Bundle:
    """Jobs that one worker does in sequence."""

    jobs: tuple[Job, ...]

    def __str__(self) -> str:
        if len(self.jobs) == 1:
            return str(self.jobs[0])
        return f"{self.jobs[0]} and {len(self.jobs) - 1} more"


def start_worker(
    directory: Path,
    keep_going: bool,
    threads: int | None,
) -> Callable[[Bundle], list[Outcome]]:
    """Prepare a worker process; return the function that does a bundle there."""
    # Libraries read the variable when they are loaded, which the first job does.
    if threads is not None:
        os.environ.setdefault("OMP_NUM_THREADS", str(threads))
    plugins = load_plugins()
    if plugins.manager.has_plugin(CONSOLE):
        plugins.manager.unregister(name=CONSOLE)
    return partial(_do_bundle, directory, plugins, keep_going)


def _do_bundle(
    directory: Path,
    plugins: Plugins,
    keep_going: bool,
    bundle: Bundle,
) -> list[Outcome]:
    """Do the jobs of a bundle."""
    outcomes = []
    kept = KeptEncoders() if len(bundle.jobs) > 1 else None
    for number, job in enumerate(bundle.jobs, start=1):
        later = [other.recipe for other in bundle.jobs[number:]]
        outcome = _do(directory, plugins, job, later, kept)
        outcomes.append(outcome)
        if outcome.result == "failed" and not keep_going:
            break
    return outcomes


def _do(
    directory: Path,
    plugins: Plugins,
    job: Job,
    later: Sequence[Recipe],
    kept: KeptEncoders | None,
) -> Outcome:
    """Do a job, unless it has been done or another process is doing it.

    `later` are the recipes of the following jobs of the bundle; `kept` are encoders of the previous ones.
    """
    started = time.perf_counter()
    run = directory / job.directory
    with locked(lock_of(directory, run)) as is_free:
        if not is_free:
            return Outcome(job, "busy")

        # Another process may have done the job before this one got the lock.
        if is_finished(run, job.evaluation_keys):
            _trim(run, job.keep)
            return Outcome(job, "was finished")

        result: Result = "failed"
        message = traceback = ""
        try:
            if job.again and is_finished(run) and not has_encoder(run):
                remove_directory(run)
            if not is_finished(run):
                _run(directory, plugins, job, run, later, kept)
            if not is_finished(run, job.evaluation_keys):
                _evaluate(directory, plugins, job)
            _trim(run, job.keep)
            result = "finished"
        except SentbedError as error:
            message = str(error)
        except Exception as error:  # noqa: BLE001 - a failed cell is reported, and need not stop the others
            message = f"{type(error).__name__}: {error}"
            traceback = "".join(format_exception(error))
    return Outcome(job, result, time.perf_counter() - started, message, traceback)


def _run(
    directory: Path,
    plugins: Plugins,
    job: Job,
    run: Path,
    later: Sequence[Recipe],
    kept: KeptEncoders | None,
) -> None:
    """Run a job from its beginning, from the end of shared stages, or from where it was stopped."""
    recipe = job.recipe
    # A process that was killed while it wrote the run's directory has left these.
    for temporary in run.parent.glob(f".{run.name}.*"):
        remove_directory(temporary)

    files = _files_of_begun_run(run, job)
    if files is None:
        remove_directory(run)
        files = {}
        if isinstance(job.run, Task):
            files[KEYS] = keys_json(job.run.content, job.run.evaluations)
        if job.run.above is not None:
            above = job.run.above
            if not is_finished(directory / above.directory):
                raise RunError(
                    f"the stages in `{above.directory}`, which it goes on from, have not finished"
                )
            branch(directory / above.directory, run, recipe, above.count, files)

    is_begun = (run / MANIFEST).is_file()
    if not is_begun:
        new_directory(run)
    # The keys of a run are there before it begins: if it is stopped, they say which evaluations it has made.
    for name, text in files.items():
        write_atomic(run / name, text)

    if job.stages is not None:
        train_first_stages(recipe, job.stages, run, plugins)
    elif is_begun:
        go_on(recipe, run, plugins)
    elif kept is None:
        run_in(recipe, run, plugins)
    else:
        share = partial(share_passes, recipe, later, kept=kept)
        run_in(recipe, run, plugins, kept.built(recipe), share)
        kept.saved(recipe, run)


def _files_of_begun_run(run: Path, job: Job) -> dict[str, str] | None:
    """Return the files that a run gets before it goes on, by name; None if it must begin anew.

    If the study's evaluations have changed since it began, it goes on with them. Those before training that it
    lacks are added when it has finished.
    """
    if manifest_status(run) is None:
        return None
    if not isinstance(job.run, Task):
        return {}
    finished = None
    if any((run / STATES).glob("*")):
        try:
            finished = evaluations_before_training(run)
        except UNREADABLE:
            return None
    return {KEYS: keys_json(job.run.content, job.run.evaluations, finished)}


def _evaluate(
    directory: Path,
    plugins: Plugins,
    job: Job,
) -> None:
    """Run the evaluations that the finished run of a cell lacks."""
    if not isinstance(job.run, Task):
        return

    missing = job.run.missing(directory)
    add_evaluations(directory / job.directory, job.recipe, missing, plugins)


def _trim(run: Path, keep: Keep) -> None:
    """Remove files of a finished run: its checkpoints unless `keep` is `all`, its encoders if it is `scores`."""
    if keep != "all":
        remove_directory(run / CHECKPOINTS)
    if keep == "scores":
        remove_directory(run / ENCODER)
