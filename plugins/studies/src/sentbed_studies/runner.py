"""Running a study: shared stages first, then the cells; finished runs are never repeated."""

from __future__ import annotations

import os
import re
import shutil
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias

import attrs
from sentbed.errors import RunError, SentbedError
from sentbed.helpers import (
    read_file,
    remove_directory,
    require_links_within,
    write_atomic,
)
from sentbed.tools import (
    CHECKPOINTS,
    ENCODER,
    MANIFEST,
    STATES,
    Plugins,
    Recipe,
    RunContext,
    execute,
    load_plugins,
    locked,
    new_directory,
    on_machine_of,
    own_recipe,
    resume,
)
from sentbed_common import TaskPool, Tell, is_locked
from sentbed_jobs.executor_lookup import executor_of
from sentbed_jobs.pool_loop import Say
from sentbed_report.formatting import count
from sentbed_report.report_config import ReportTable
from sentbed_report.study.read_cell_run import (
    KEYS,
    RANKING,
    evaluation_keys,
    manifest_status,
)
from sentbed_report.study.read_study_directory import is_finished, lock_of
from sentbed_report.study.study_record import STUDY

from sentbed_studies.added_evaluations import (
    add_evaluations,
    kept_runs,
    keys_of,
    only_starts,
)
from sentbed_studies.branched_run import branch
from sentbed_studies.cell_keys import CellKeys, prompt_slug, slug
from sentbed_studies.confirmation import confirmation_of, fresh_seeds_in_words
from sentbed_studies.demonstration_search import search
from sentbed_studies.demonstration_search_config import Search
from sentbed_studies.early_stopping import parts_between_looks
from sentbed_studies.sampled_cells import first_batch, runs_of, sampled_parts
from sentbed_studies.shared_forward_passes import KeptEncoders, share_passes
from sentbed_studies.shared_work_plan import Prefix, Task, Work, chain, plan_work
from sentbed_studies.stop_config import Stop
from sentbed_studies.study import Entries, Study
from sentbed_studies.study_config import StudyTable
from sentbed_studies.time_left import TimeLeft
from sentbed_studies.write_study_directory import at_work, needed, note_confirmation

Keep: TypeAlias = Literal["scores", "best", "all"]
Result: TypeAlias = Literal["finished", "was finished", "failed", "busy"]

CONSOLE = "sentbed-trackers:console"
"""Tracker for a single run, which is disabled in studies."""
OURS = re.compile(r"\.?study\.(json|toml)(\..+)?|locks")
"""Names of files in the directory of a study that has just begun."""
PAUSE = 0.5
"""Seconds between two checks of runs that another process is working on."""


@attrs.frozen(eq=False)
class Job:
    """One run of a study: a cell, or stages that cells share."""

    run: Task | Prefix
    recipe: Recipe = attrs.field(repr=False)
    """What is run: that of the cell or the stages, without what concerns the study alone."""
    keep: Keep = "all"
    """What stays of it; see `StudyTable.keep`."""

    @property
    def directory(self) -> Path:
        """Run directory, relative to the study's."""
        return self.run.directory

    @property
    def stages(self) -> int | None:
        """Number of stages to run, for others to continue from; None means all."""
        return self.run.count if isinstance(self.run, Prefix) else None

    @property
    def evaluation_keys(self) -> tuple[str, ...]:
        """Keys of the evaluations of a cell, in the order of its run."""
        return self.run.evaluation_keys if isinstance(self.run, Task) else ()

    def __str__(self) -> str:
        return str(self.run)


@attrs.frozen(eq=False)
class Outcome:
    """Result of a job."""

    job: Job
    result: Result
    seconds: float = 0.0
    error: str = ""
    where: str = ""
    """Traceback of an unexpected error."""


@attrs.frozen(eq=False)
class Bundle:
    """Jobs that one worker runs in sequence."""

    jobs: tuple[Job, ...]

    def __str__(self) -> str:
        if len(self.jobs) == 1:
            return str(self.jobs[0])
        return f"{self.jobs[0]} and {len(self.jobs) - 1} more"


@attrs.frozen(eq=False)
class StudyResult:
    """Result of `run_study`."""

    directory: Path
    failed: tuple[Outcome, ...]
    worked: bool
    """Whether there was something to run."""


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
    left: TimeLeft | None = None,
) -> StudyResult:
    """Run all unfinished cells of a study in `out`, by default `studies/NAME`.

    A cell is known by everything that decides its weights, and its evaluations by what decides their scores
    (`CellKeys`): what has finished is not run again, what was stopped goes on, and an evaluation that was
    added is computed from the encoder that was kept. Where none was, the cell is trained again with
    `retrain`. Several processes may work on one study: each cell is done by one of them. `only` names cells
    as `StudyTable.exclude` does; the others are left for later. `work` is what `plan_work` said of the whole
    study; without `share`, cells that are planned here share nothing. Of a `left`, every line on a finished
    run says how long the others take.

    Raises:
        RecipeError: if `only` names an unknown axis or label.
        RunError: if a cell fails, unless `keep_going`; finished cells are kept. Also if the directory holds
            another study, or a process works on this one by another recipe; and if an evaluation was added to
            cells that have kept no encoder, unless `retrain`.
    """
    plugins = plugins or load_plugins()
    directory = Path(out or Path("studies") / study.name)
    whole = work or plan_work(study.cells, CellKeys(plugins), share)
    work = whole.of(study.only(only).cells) if only else whole

    to_train_again = [
        run.task for run in kept_runs(directory, work) if run.is_to_be_trained_again
    ]
    if to_train_again and not retrain:
        raise RunError(
            f"{count(len(to_train_again), 'run')} of `{directory}` have kept no encoder, so that evaluations "
            "which were added mean to train them again; let it (`--retrain`), or take the evaluations out"
        )

    _begin(directory)
    with at_work(directory, study, whole, first_batch(study)):
        directory = directory.resolve()
        for task in to_train_again:
            _remove(directory / task.directory)
        total = runs_of(study, work)
        stop = study.table.stop
        if only:
            # Cells that are asked for by name are run with all their seeds.
            stop = None
        elif study.table.decide is not None:
            total += study.table.decide.confirm * max(len(study.prompts), 1)

        executor = executor or executor_of("local", {}, plugins, say)
        runner = _Runner(directory, executor, keep_going, say, total, left)
        for part in _parts(study, work, runner, stop):
            _run_work(study, part, runner)
        if not only and not runner.failed:
            _confirm(study, whole, CellKeys(plugins), share, runner)
        _remove_shared(
            study,
            [t for t in whole.tasks if t.directory not in runner.dropped],
            whole,
            directory,
        )
        return StudyResult(directory, tuple(runner.failed), runner.worked)


def _parts(
    study: Study, work: Work, runner: _Runner, stop: Stop | None
) -> Iterator[Work]:
    """Yield the work of a study part by part, each to be done before the next one is known.

    First come the batches of cells that a sampler chooses, with the first seed; then these cells, or all,
    between the looks of early stopping, or at once.
    """
    seeds_done = 0
    if study.table.sampler is not None:
        names = yield from sampled_parts(
            study, study.table.sampler, work, runner.directory
        )
        runner.dropped |= {
            task.directory for task in work.tasks if task.cell.name not in names
        }
        work = work.of([cell for cell in study.cells if cell.name in names])
        seeds_done = 1
    if stop is not None:
        yield from parts_between_looks(
            study,
            work,
            stop,
            runner.directory,
            runner.say,
            runner.drop,
            seeds_done,
        )
        return
    seeds = study.seeds[seeds_done:]
    rest = [task.cell for task in work.tasks if task.cell.seed in seeds]
    if rest:
        yield work.of(rest)


def _confirm(
    study: Study, whole: Work, keys: CellKeys, share: bool, runner: _Runner
) -> None:
    """Run the chosen cell with the fresh seeds that the recipe asks for, when all others have finished."""
    confirmation = confirmation_of(
        study, whole, runner.directory, keys, share, is_over=True
    )
    if confirmation is None or confirmation.work is None:
        return
    work = confirmation.work
    note_confirmation(runner.directory, work)
    runner.say(
        f"the chosen cell is {work.tasks[0].cell.name}; it is run with {fresh_seeds_in_words(study)}"
    )
    if runner.left is not None:
        runner.left.chosen([task.directory for task in confirmation.left])
    _run_work(study, work, runner)
    _remove_shared(study, work.tasks, work, runner.directory)


def _run_work(study: Study, work: Work, runner: _Runner) -> None:
    """Run shared stages, those first from which others go on, and then the cells."""
    by_depth: dict[int, list[Bundle]] = {}
    unstarted = [
        task
        for task in work.tasks
        if manifest_status(runner.directory / task.directory) is None
    ]
    for prefix in needed(runner.directory, work, unstarted):
        # Trackers follow the cells only.
        recipe = attrs.evolve(_alone(prefix.recipe), tracker=())
        by_depth.setdefault(prefix.depth, []).append(Bundle((Job(prefix, recipe),)))
    for depth in sorted(by_depth):
        runner.do(by_depth[depth])

    cells = []
    for bundle in work.bundles:
        jobs = []
        for task in bundle:
            recipe = _alone(task.cell.recipe)
            name = f"{study.name}.{slug(task.cell.name)}-seed{task.cell.seed}"
            if task.cell.prompt:
                run_of_cell = f"{slug(task.cell.name)}-{prompt_slug(task.cell.prompt)}-seed{task.cell.seed}"
                name = f"{study.name}.{run_of_cell}"[:100]
            recipe = attrs.evolve(recipe, run=attrs.evolve(recipe.run, name=name))
            jobs.append(Job(task, recipe, study.table.keep))
        cells.append(Bundle(tuple(jobs)))
    runner.do(cells)


def _alone(recipe: Recipe) -> Recipe:
    """Return a cell's recipe as one of a single run; scatter plots, which are slow to draw, are off."""
    tables = {
        **recipe.without(StudyTable).tables,
        "report": ReportTable(scatters=False),
    }
    return attrs.evolve(recipe, tables=tables)


def _remove_shared(
    study: Study, tasks: Sequence[Task], work: Work, directory: Path
) -> None:
    """Remove the shared stages from which no cell of `tasks` has yet to go on, if they are not to be kept."""
    if study.table.keep == "all":
        return
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
                _remove(run)


def _remove(path: Path) -> None:
    """Remove a directory: first its name, so that no half of it is taken for the whole. Raises `RunError`."""
    gone = path.with_name(f".{path.name}.gone")
    try:
        # A process may have been killed while it removed the directory.
        for directory in (gone, path):
            if directory.is_dir():
                directory.replace(gone)
                shutil.rmtree(gone)
    except OSError as error:
        raise RunError(
            f"`{path}` is not to be kept and cannot be removed: {error.strerror or error}"
        ) from error


def _trim(run: Path, keep: Keep) -> None:
    """Remove what is not to stay of a finished run."""
    if keep != "all":
        _remove(run / CHECKPOINTS)
    if keep == "scores":
        _remove(run / ENCODER)


def _begin(directory: Path) -> None:
    """Create the study's directory, or reuse it. Raises `RunError` if a link leads out of it."""
    require_links_within(directory)
    names = [path.name for path in directory.iterdir()] if directory.is_dir() else []
    # A process may have been killed, or another one may be running, before `study.json` is written.
    if STUDY not in names and not all(OURS.fullmatch(name) for name in names):
        new_directory(directory)


@attrs.define(eq=False)
class _Runner:
    directory: Path
    executor: TaskPool
    keep_going: bool
    say: Say
    total: int
    """Number of runs of cells."""
    left: TimeLeft | None = None

    done: int = 0
    """Number of runs of cells that have ended."""
    failed: list[Outcome] = attrs.field(factory=list)
    worked: bool = False
    """Whether there was something to run."""
    dropped: set[Path] = attrs.field(factory=set)
    """Runs that will not be done."""

    def drop(self, task: Task) -> None:
        """Note that a run will not be done."""
        self.dropped.add(task.directory)
        self.total -= 1
        if self.left is not None:
            self.left.ended(task.directory)

    def do(self, bundles: Sequence[Bundle]) -> None:
        """Run all jobs; those that another process is working on come last."""
        start = partial(_start, self.directory, self.keep_going)
        while bundles:
            busy_bundles = []
            with closing(
                self.executor.run(start, bundles, on_death=self._died)
            ) as results:
                for _, outcomes in results:
                    busy = []
                    for outcome in outcomes:
                        if outcome.result == "busy":
                            busy.append(outcome.job)
                        else:
                            self._note(outcome)
                    if busy:
                        busy_bundles.append(Bundle(tuple(busy)))
            bundles = busy_bundles

            # Until another process is no longer at one of the jobs.
            locks = []
            for bundle in bundles:
                locks += [lock_of(self.directory, job.directory) for job in bundle.jobs]
            while locks and all(map(is_locked, locks)):
                time.sleep(PAUSE)

    def _died(self, bundle: Bundle, message: str) -> list[Outcome]:
        """Return the outcomes of jobs whose workers died."""
        outcomes = []
        for job in bundle.jobs:
            if is_finished(self.directory / job.directory, job.evaluation_keys):
                outcomes.append(Outcome(job, "was finished"))
            else:
                outcomes.append(Outcome(job, "failed", error=message))
        return outcomes

    def _note(self, outcome: Outcome) -> None:
        """Say how a job has ended. Raises `RunError` if it failed, unless the others go on."""
        line = f"{outcome.job}: {outcome.result}"
        if isinstance(outcome.job.run, Task):
            self.done += 1
            line = f"{self.done} of {self.total}: {line}"
        if outcome.result == "finished":
            line += f" in {outcome.seconds:.0f} s"
        self.worked |= outcome.result != "was finished"
        words = None
        if self.left is not None:
            if outcome.result == "finished":
                self.left.finished(outcome.job.directory, outcome.seconds)
            else:
                self.left.ended(outcome.job.directory)
            words = self.left.in_words()

        if outcome.result != "failed":
            if words is not None:
                line += f"; about {words} left"
            self.say(line)
            return
        self.say(f"{line}: {outcome.error}")
        self.failed.append(outcome)
        if not self.keep_going:
            run = self.directory / outcome.job.directory
            error = RunError(
                f"{outcome.job} failed: {outcome.error}; what has finished is kept in `{self.directory}`, "
                f"and of this run what is in `{run}`; mend it and start the study again, or let the others "
                "go on (`--keep-going`)"
            )
            if outcome.where:
                error.add_note(outcome.where)
            raise error


def _start(
    directory: Path, keep_going: bool, threads: int | None
) -> Callable[[Bundle, Tell], list[Outcome]]:
    """Prepare a worker; return the function that runs a bundle."""
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
    tell: Tell,
) -> list[Outcome]:
    outcomes = []
    kept = KeptEncoders() if len(bundle.jobs) > 1 else None
    for number, job in enumerate(bundle.jobs, start=1):
        beside = [other.recipe for other in bundle.jobs[number:]]
        outcome = _do(directory, plugins, job, beside, kept)
        outcomes.append(outcome)
        tell(1)
        if outcome.result == "failed" and not keep_going:
            break
    return outcomes


def _do(
    directory: Path,
    plugins: Plugins,
    job: Job,
    beside: Sequence[Recipe],
    kept: KeptEncoders | None,
) -> Outcome:
    """Run a job unless it has finished or another process holds its lock."""
    started = time.perf_counter()
    run = directory / job.directory
    with locked(lock_of(directory, run)) as is_free:
        if not is_free:
            return Outcome(job, "busy")
        if is_finished(run, job.evaluation_keys):
            _trim(run, job.keep)
            return Outcome(job, "was finished")
        result: Result = "failed"
        message = where = ""
        try:
            if not is_finished(run):
                _run(directory, plugins, job, run, beside, kept)
            if not is_finished(run, job.evaluation_keys):
                _evaluate(directory, plugins, job)
            _trim(run, job.keep)
            result = "finished"
        except SentbedError as error:
            message = str(error)
        except Exception as error:  # noqa: BLE001 - a fault of one cell is reported, and need not stop the others
            message = f"{type(error).__name__}: {error}"
            where = "".join(traceback.format_exception(error))
    return Outcome(job, result, time.perf_counter() - started, message, where)


def _evaluate(directory: Path, plugins: Plugins, job: Job) -> None:
    """Make the evaluations of a cell that its finished run lacks."""
    recipe = job.recipe
    if recipe.table(Search) is not None:
        # With the demonstrations that the search has found.
        recipe = _written_recipe(directory / job.directory, job, plugins)
    if isinstance(job.run, Task):
        add_evaluations(
            directory / job.directory, recipe, job.run.missing(directory), plugins
        )


def _written_recipe(directory: Path, job: Job, plugins: Plugins) -> Recipe:
    """Return the recipe that is written in a directory, to be run as the job's: on its machine, by its trust.

    A study directory may be a stranger's; what may run code is what the study's own recipe says.
    """
    trusted = any(encoder.runs_code for encoder in job.recipe.encoders.values())
    return on_machine_of(own_recipe(directory, (), trusted, plugins), job.recipe)


def _makes_other_evaluations(run: Path, job: Job) -> bool:
    """Whether a run of a cell has begun with other evaluations than those that the study asks for."""
    return isinstance(job.run, Task) and evaluation_keys(run) != list(
        job.evaluation_keys
    )


def _run(
    directory: Path,
    plugins: Plugins,
    job: Job,
    run: Path,
    beside: Sequence[Recipe],
    kept: KeptEncoders | None,
) -> None:
    """Run a job from its beginning, from shared stages, or from where it was stopped."""
    recipe = job.recipe
    files = {}
    if isinstance(job.run, Task):
        # Of shared stages, only the cells that go on from them have keys.
        files[KEYS] = keys_of(job.run.content, job.run.evaluations)
    if recipe.table(Search) is not None:
        searched = directory / "searches" / run.name
        if not (searched / RANKING).is_file():
            search(recipe, searched, plugins)
        files[RANKING] = read_file(searched / RANKING).decode()
        recipe = attrs.evolve(
            _written_recipe(searched, job, plugins), evaluate=job.recipe.evaluate
        )

    for remains in run.parent.glob(f".{run.name}.*"):
        remove_directory(remains)
    can_go_on = any((run / STATES).glob("*")) or not _makes_other_evaluations(run, job)
    if not can_go_on or not (run / MANIFEST).is_file():
        # Without a manifest, a process was killed before the run could be resumed.
        remove_directory(run)
        if job.run.above is not None:
            above = job.run.above
            if not is_finished(directory / above.directory):
                raise RunError(
                    f"the stages in `{above.directory}`, which it goes on from, have not finished"
                )
            branch(directory / above.directory, run, recipe, above.count, files)

    if (run / MANIFEST).is_file():
        _go_on(plugins, job, run, recipe)
        return
    new_directory(run)
    for name, text in files.items():
        write_atomic(run / name, text)
    context = RunContext(recipe.run.name, run, recipe, stages=job.stages)
    if kept is not None:
        context.share = partial(share_passes, recipe, beside, kept=kept)
        context.built = kept.built(recipe)
    execute(context, plugins)
    if kept is not None:
        kept.saved(recipe, run)


def _go_on(plugins: Plugins, job: Job, run: Path, recipe: Recipe) -> None:
    """Resume a run that was stopped, or that goes on from shared stages."""
    makes_other_evaluations = _makes_other_evaluations(run, job)
    if job.stages is not None:
        # Shared stages are identified by their key: the rest of the recipe may now be another cell's.
        recipe = _written_recipe(run, job, plugins)
    elif makes_other_evaluations:
        # Those of the study are added when it has finished. All that decides its weights is in its key.
        begun = _written_recipe(run, job, plugins)
        recipe = attrs.evolve(recipe, evaluate=only_starts(run, begun))
    resume(
        run, recipe, plugins, allow_changes=makes_other_evaluations, stages=job.stages
    )
