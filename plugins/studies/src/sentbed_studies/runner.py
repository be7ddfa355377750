"""Runs a study: first the stages that cells share, then the cells. Finished runs are not repeated."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from traceback import format_exception
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
    drop_evaluations_at_end,
    keys_json,
    run_states,
)
from sentbed_studies.branched_run import branch
from sentbed_studies.cell_keys import CellKeys, prompt_slug, slug
from sentbed_studies.confirmation import confirmation_of, fresh_seeds_in_words
from sentbed_studies.demonstration_search import search
from sentbed_studies.demonstration_search_config import Search
from sentbed_studies.early_stopping import parts_between_looks
from sentbed_studies.sampled_cells import first_batch, number_of_runs, sampled_parts
from sentbed_studies.shared_forward_passes import KeptEncoders, share_passes
from sentbed_studies.shared_work_plan import Prefix, Task, Work, chain, plan_work
from sentbed_studies.stop_config import Stop
from sentbed_studies.study import Cell, Entries, Study
from sentbed_studies.study_config import StudyTable
from sentbed_studies.time_left import TimeLeft
from sentbed_studies.write_study_directory import at_work, note_confirmation

Keep: TypeAlias = Literal["scores", "best", "all"]
Result: TypeAlias = Literal["finished", "was finished", "failed", "busy"]

CONSOLE = "sentbed-trackers:console"
"""Plugin of the tracker that shows a single run on the terminal; it is disabled in studies."""
STUDY_FILES = re.compile(r"\.?study\.(json|toml)(\..+)?|locks")
"""Names of the files that may be in a study's directory before its first run."""
PAUSE = 0.5
"""Seconds between two checks whether another process still works on a run."""


@attrs.frozen(eq=False)
class Job:
    """One run of a study: a cell, or stages that cells share."""

    run: Task | Prefix
    recipe: Recipe = attrs.field(repr=False)
    """Recipe of the run, without the tables of the study."""
    keep: Keep = "all"
    """Which files of the finished run are kept; see `StudyTable.keep`."""

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


@attrs.frozen(eq=False)
class StudyResult:
    """Result of `run_study`."""

    directory: Path
    failed: tuple[Outcome, ...]
    worked: bool
    """Whether at least one run was done; False if all had been finished before."""


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
    """Run all unfinished cells of a study.

    Finished runs are not repeated, and interrupted runs are resumed: the directory of a run is named by its key,
    a hash of everything that determines the weights (`CellKeys`). Evaluations that were added to the recipe are
    computed with the saved encoders of finished runs. Several processes may work on the same study; then each
    cell is run by one of them.

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
        left: Updated with each finished run; progress lines then say how long the other runs will take.

    Raises:
        RecipeError: if `only` names an unknown axis or label.
        RunError: if a cell fails, unless `keep_going` (finished cells are kept); if the directory holds
            another study; if another process runs this study with another recipe; or if a cell must be
            trained again for an added evaluation, unless `retrain`.
    """
    plugins = plugins or load_plugins()
    directory = Path(out or Path("studies") / study.name)
    whole = work or plan_work(study.cells, CellKeys(plugins), share)
    work = whole.of(study.only(only).cells) if only else whole

    to_train_again = _runs_to_train_again(directory, work, retrain)
    _begin(directory)
    with at_work(directory, study, whole, first_batch(study)):
        directory = directory.resolve()
        for task in to_train_again:
            _remove(directory / task.directory)

        total = number_of_runs(study, work)
        stop = study.table.stop
        if only:
            # Cells that are named explicitly are run with all their seeds.
            stop = None
        elif study.table.decide is not None:
            total += study.table.decide.confirm * max(len(study.prompts), 1)

        executor = executor or executor_of("local", {}, plugins, say)
        runner = _Runner(directory, executor, keep_going, say, total, left)
        for part in _parts(study, work, runner, stop):
            _run_work(study, part, runner)

        if not only and not runner.failed:
            _confirm(study, whole, CellKeys(plugins), share, retrain, runner)

        if study.table.keep != "all":
            tasks = [t for t in whole.tasks if t.directory not in runner.dropped]
            _remove_shared(tasks, whole, directory)
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


def _parts(
    study: Study,
    work: Work,
    runner: _Runner,
    stop: Stop | None,
) -> Iterator[Work]:
    """Yield the runs of a study in parts. The caller must run a part before it asks for the next one.

    If the study has a sampler, the first parts are the batches of cells that it chooses, with the first seed.
    The other runs follow: in one part or, with early stopping, in a part for each look at the scores.
    """
    seeds_done = 0
    if study.table.sampler is not None:
        names = yield from sampled_parts(
            study, study.table.sampler, work, runner.directory
        )
        for task in work.tasks:
            if task.cell.name not in names:
                runner.dropped.add(task.directory)
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
    for task in _runs_to_train_again(runner.directory, work, retrain):
        _remove(runner.directory / task.directory)
    note_confirmation(runner.directory, work)
    runner.say(
        f"the chosen cell is {work.tasks[0].cell.name}; it is run with {fresh_seeds_in_words(study)}"
    )
    if runner.left is not None:
        runner.left.chosen([task.directory for task in confirmation.unfinished])

    _run_work(study, work, runner)
    if study.table.keep != "all":
        _remove_shared(work.tasks, work, runner.directory)


def _run_work(
    study: Study,
    work: Work,
    runner: _Runner,
) -> None:
    """Run the shared stages, shorter prefixes first, and then the cells."""
    unstarted = []
    for task in work.tasks:
        if manifest_status(runner.directory / task.directory) is None:
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
            recipe = _single_run(task.cell.recipe)
            run = attrs.evolve(recipe.run, name=_run_name(study, task.cell))
            recipe = attrs.evolve(recipe, run=run)
            jobs.append(Job(task, recipe, study.table.keep))
        bundles.append(Bundle(tuple(jobs)))

    runner.do(bundles)


def _run_name(study: Study, cell: Cell) -> str:
    """Return the `run.name` of a cell: names of the study and of the cell, prompt and seed."""
    name = f"{study.name}.{slug(cell.name)}"
    if not cell.prompt:
        return f"{name}-seed{cell.seed}"
    return f"{name}-{prompt_slug(cell.prompt)}-seed{cell.seed}"[:100]


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
                _remove(run)


def _remove(path: Path) -> None:
    """Remove a directory, if it exists. Raises `RunError` if it cannot be removed.

    It is renamed first, so that nobody uses a directory that is only partly removed.
    """
    gone = path.with_name(f".{path.name}.gone")
    try:
        # A process that was killed after the renaming may have left `gone`.
        for directory in (gone, path):
            if directory.is_dir():
                directory.replace(gone)
                shutil.rmtree(gone)
    except OSError as error:
        raise RunError(
            f"`{path}` is not to be kept and cannot be removed: {error.strerror or error}"
        ) from error


def _trim(run: Path, keep: Keep) -> None:
    """Remove files of a finished run: its checkpoints unless `keep` is `all`, its encoders if it is `scores`."""
    if keep != "all":
        _remove(run / CHECKPOINTS)
    if keep == "scores":
        _remove(run / ENCODER)


def _begin(directory: Path) -> None:
    """Create the directory of a study, if there is none.

    Raises:
        RunError: if a link leads out of the directory, or if it exists and is not a study's.
    """
    require_links_within(directory)
    names = []
    if directory.is_dir():
        names = [path.name for path in directory.iterdir()]
    # If `study.json` is missing, another process may have just begun the study, or was killed at its beginning.
    if STUDY not in names and not all(map(STUDY_FILES.fullmatch, names)):
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
    left: TimeLeft | None = None

    done: int = 0
    """Number of runs of cells that have ended."""
    failed: list[Outcome] = attrs.field(factory=list)
    worked: bool = False
    """Whether at least one run was done or failed, and was not finished before."""
    dropped: set[Path] = attrs.field(factory=set)
    """Directories of the runs that will not be done."""

    def drop(self, task: Task) -> None:
        """Record that a run will not be done."""
        self.dropped.add(task.directory)
        self.total -= 1
        if self.left is not None:
            self.left.ended(task.directory)

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
        start = partial(_start, self.directory, self.keep_going)
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
            line += f" in {outcome.seconds:.0f} s"
        if outcome.result != "was finished":
            self.worked = True

        time_left = self._time_left_after(outcome)
        if outcome.result == "failed":
            self.say(f"{line}: {outcome.error}")
            self.failed.append(outcome)
            if not self.keep_going:
                raise self._error(outcome)
            return

        if time_left is not None:
            line += f"; about {time_left} left"
        self.say(line)

    def _time_left_after(self, outcome: Outcome) -> str | None:
        """Record an outcome in the time left, and return this time in words; None if it is unknown."""
        if self.left is None:
            return None
        if outcome.result == "finished":
            self.left.finished(outcome.job.directory, outcome.seconds)
        else:
            self.left.ended(outcome.job.directory)
        return self.left.in_words()

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


def _start(
    directory: Path,
    keep_going: bool,
    threads: int | None,
) -> Callable[[Bundle, Tell], list[Outcome]]:
    """Prepare a worker process; return the function that does a bundle there."""
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
    """Do the jobs of a bundle; `tell` is called after each."""
    outcomes = []
    kept = KeptEncoders() if len(bundle.jobs) > 1 else None
    for number, job in enumerate(bundle.jobs, start=1):
        later = [other.recipe for other in bundle.jobs[number:]]
        outcome = _do(directory, plugins, job, later, kept)
        outcomes.append(outcome)
        tell(1)
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

        if is_finished(run, job.evaluation_keys):
            _trim(run, job.keep)
            return Outcome(job, "was finished")

        result: Result = "failed"
        message = traceback = ""
        try:
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


def _evaluate(
    directory: Path,
    plugins: Plugins,
    job: Job,
) -> None:
    """Run the evaluations that the finished run of a cell lacks."""
    if not isinstance(job.run, Task):
        return

    recipe = job.recipe
    if recipe.table(Search) is not None:
        # The recipe in the run's directory has the demonstrations that the search has chosen.
        recipe = _written_recipe(directory / job.directory, job, plugins)
    missing = job.run.missing(directory)
    add_evaluations(directory / job.directory, recipe, missing, plugins)


def _written_recipe(
    directory: Path,
    job: Job,
    plugins: Plugins,
) -> Recipe:
    """Return the recipe in a directory, with the runtime and trackers of the job's recipe.

    Somebody else may have written the directory. Code of its encoders is run only if the recipe of the job
    allows this.
    """
    trusted = any(encoder.runs_code for encoder in job.recipe.encoders.values())
    return on_machine_of(own_recipe(directory, (), trusted, plugins), job.recipe)


def _makes_other_evaluations(run: Path, job: Job) -> bool:
    """Whether the run of a cell was begun with other evaluations than the study has now."""
    if not isinstance(job.run, Task):
        return False
    return evaluation_keys(run) != list(job.evaluation_keys)


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
    files = {}
    if isinstance(job.run, Task):
        files[KEYS] = keys_json(job.run.content, job.run.evaluations)

    if recipe.table(Search) is not None:
        searched = directory / "searches" / run.name
        if not (searched / RANKING).is_file():
            search(recipe, searched, plugins)
        files[RANKING] = read_file(searched / RANKING).decode()
        searched_recipe = _written_recipe(searched, job, plugins)
        recipe = attrs.evolve(searched_recipe, evaluate=job.recipe.evaluate)

    for temporary in run.parent.glob(f".{run.name}.*"):
        remove_directory(temporary)

    if not _can_be_resumed(run, job):
        remove_directory(run)
        if job.run.above is not None:
            above = job.run.above
            if not is_finished(directory / above.directory):
                raise RunError(
                    f"the stages in `{above.directory}`, which it goes on from, have not finished"
                )
            branch(directory / above.directory, run, recipe, above.count, files)

    if (run / MANIFEST).is_file():
        _resume(plugins, job, run, recipe)
        return

    new_directory(run)
    for name, text in files.items():
        write_atomic(run / name, text)

    context = RunContext(recipe.run.name, run, recipe, stages=job.stages)
    if kept is not None:
        context.share = partial(share_passes, recipe, later, kept=kept)
        context.built = kept.built(recipe)
    execute(context, plugins)
    if kept is not None:
        kept.saved(recipe, run)


def _can_be_resumed(run: Path, job: Job) -> bool:
    """Whether a run was begun and can be resumed.

    A run without training states can be resumed only if it was begun with the evaluations of the study.
    """
    if not (run / MANIFEST).is_file():
        return False
    return any((run / STATES).glob("*")) or not _makes_other_evaluations(run, job)


def _resume(
    plugins: Plugins,
    job: Job,
    run: Path,
    recipe: Recipe,
) -> None:
    """Resume a run that was stopped, or that continues from shared stages."""
    makes_other_evaluations = _makes_other_evaluations(run, job)
    if job.stages is not None:
        # Cells that share stages may differ in the rest of the recipe. The run began with the recipe of one
        # of them, perhaps not with that of `job`, and must go on with the same recipe.
        recipe = _written_recipe(run, job, plugins)
    elif makes_other_evaluations:
        # The evaluations of the study are added after the run has finished; they do not affect its weights.
        begun = _written_recipe(run, job, plugins)
        recipe = attrs.evolve(recipe, evaluate=drop_evaluations_at_end(run, begun))
    resume(
        run, recipe, plugins, allow_changes=makes_other_evaluations, stages=job.stages
    )
