"""A worker of a study does its tasks: a run, or stages that runs share, unless that has been done."""

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
from sentbed_report.study.read_cell_run import KEYS, manifest_status
from sentbed_report.study.read_study_directory import is_finished, lock_of

from sentbed_studies.added_evaluations import (
    add_evaluations,
    evaluations_before_training,
    keys_json,
)
from sentbed_studies.branched_run import branch
from sentbed_studies.shared_forward_passes import share_passes
from sentbed_studies.shared_work_plan import Bundle, Task
from sentbed_studies.study_config import Keep

Result: TypeAlias = Literal["finished", "was finished", "failed", "busy"]

CONSOLE = "sentbed-trackers:console"
"""Plugin of the tracker that shows a single run on the terminal; it is disabled in studies."""


@attrs.frozen(eq=False)
class Outcome:
    """Result of a task."""

    task: Task
    result: Result
    """`was finished` if the task had been done before; `busy` if another process is doing it now."""
    seconds: float = 0.0
    error: str = ""
    """Message of the error if the task has failed."""
    traceback: str = ""
    """Traceback of the error if it is not a `SentbedError`, and so unexpected."""


def start_worker(
    directory: Path,
    keep: Keep,
    keep_going: bool,
    threads: int | None,
) -> Callable[[Bundle], list[Outcome]]:
    """Prepare a worker process; return the function that does the tasks of a bundle there.

    `keep` is `StudyTable.keep`.
    """
    # Libraries read the variable when they are loaded, which the first job does.
    if threads is not None:
        os.environ.setdefault("OMP_NUM_THREADS", str(threads))
    plugins = load_plugins()
    if plugins.manager.has_plugin(CONSOLE):
        plugins.manager.unregister(name=CONSOLE)
    return partial(_do_bundle, directory, plugins, keep, keep_going)


def _do_bundle(
    directory: Path,
    plugins: Plugins,
    keep: Keep,
    keep_going: bool,
    bundle: Bundle,
) -> list[Outcome]:
    """Do the tasks of a bundle."""
    outcomes = []
    for number, task in enumerate(bundle.tasks, start=1):
        later = [other.recipe for other in bundle.tasks[number:]]
        outcome = _do(directory, plugins, task, keep, later)
        outcomes.append(outcome)
        if outcome.result == "failed" and not keep_going:
            break
    return outcomes


def _do(
    directory: Path,
    plugins: Plugins,
    task: Task,
    keep: Keep,
    later: Sequence[Recipe],
) -> Outcome:
    """Do a task, unless it has been done or another process is doing it.

    `later` are the recipes of the following tasks of the bundle.
    """
    started = time.perf_counter()
    run = directory / task.directory
    # What continues from shared stages needs their training state.
    if task.stages is not None:
        keep = "all"
    with locked(lock_of(directory, run)) as is_free:
        if not is_free:
            return Outcome(task, "busy")

        # Another process may have done the task before this one got the lock.
        if task.is_done(directory):
            _trim(run, keep)
            return Outcome(task, "was finished")

        result: Result = "failed"
        message = traceback = ""
        try:
            if not is_finished(run):
                _run(directory, plugins, task, later)
            missing = task.missing(directory)
            add_evaluations(run, task.recipe, missing, plugins)
            _trim(run, keep)
            result = "finished"
        except SentbedError as error:
            message = str(error)
        except Exception as error:  # noqa: BLE001 - a failed cell is reported, and need not stop the others
            message = f"{type(error).__name__}: {error}"
            traceback = "".join(format_exception(error))
    return Outcome(task, result, time.perf_counter() - started, message, traceback)


def _run(
    directory: Path,
    plugins: Plugins,
    task: Task,
    later: Sequence[Recipe],
) -> None:
    """Run a task from its beginning, from the end of shared stages, or from where it was stopped."""
    run, recipe, above = directory / task.directory, task.recipe, task.above
    # A process that was killed while it wrote the run's directory has left these.
    for temporary in run.parent.glob(f".{run.name}.*"):
        remove_directory(temporary)

    files = _files_of_begun_run(run, task)
    if files is None:
        remove_directory(run)
        files = {}
        if task.stages is None:
            files[KEYS] = keys_json(task.content, task.evaluations)
        if above is not None and above.stages is not None:
            if not is_finished(directory / above.directory):
                raise RunError(
                    f"the stages in `{above.directory}`, which it goes on from, have not finished"
                )
            branch(directory / above.directory, run, recipe, above.stages, files)

    is_begun = (run / MANIFEST).is_file()
    if not is_begun:
        new_directory(run)
    # The keys of a run are there before it begins: if it is stopped, they say which evaluations it has made.
    for name, text in files.items():
        write_atomic(run / name, text)

    if task.stages is not None:
        train_first_stages(recipe, task.stages, run, plugins)
    elif is_begun:
        go_on(recipe, run, plugins)
    else:
        run_in(recipe, run, plugins, partial(share_passes, recipe, later))


def _files_of_begun_run(run: Path, task: Task) -> dict[str, str] | None:
    """Return the files that a run gets before it goes on, by name; None if it must begin anew.

    If the study's evaluations have changed since it began, it goes on with them. Those before training that it
    lacks are added when it has finished.
    """
    if manifest_status(run) is None:
        return None
    if task.stages is not None:
        return {}
    finished = None
    if any((run / STATES).glob("*")):
        finished = evaluations_before_training(run)
    return {KEYS: keys_json(task.content, task.evaluations, finished)}


def _trim(run: Path, keep: Keep) -> None:
    """Remove files of a finished run: its checkpoints unless `keep` is `all`, its encoders if it is `scores`."""
    if keep != "all":
        remove_directory(run / CHECKPOINTS)
    if keep == "scores":
        remove_directory(run / ENCODER)
