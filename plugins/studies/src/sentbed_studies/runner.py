"""Running a study: shared stages first, then the cells; finished runs are never repeated."""

from __future__ import annotations

import os
import re
import shutil
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias

import attrs
from sentbed.errors import RunError, SentbedError
from sentbed.helpers import require_links_within, write_atomic
from sentbed.protocols import RecipeTable
from sentbed.tools import (
    CHECKPOINTS,
    MANIFEST,
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
from sentbed_report.formatting import count
from sentbed_report.report_config import ReportTable
from sentbed_report.study.read_cell_run import KEYS, RANKING, evaluation_keys

from sentbed_studies.added_evaluations import (
    ENCODER,
    add_evaluations,
    has_state,
    keys_of,
    only_starts,
    without_encoder,
)
from sentbed_studies.branched_run import branch
from sentbed_studies.cell_keys import CellKeys, Content, EvaluationKey, slug
from sentbed_studies.confirmation import work_of_chosen_cell
from sentbed_studies.demonstration_search import search
from sentbed_studies.demonstration_search_config import Search
from sentbed_studies.early_stopping import parts_between_looks
from sentbed_studies.sampled_cells import first_batch, runs_of, sampled_parts
from sentbed_studies.shared_forward_passes import KeptEncoders, share_passes
from sentbed_studies.shared_work_plan import Prefix, Task, Work, chain, plan_work
from sentbed_studies.stop_config import Stop
from sentbed_studies.study import Study
from sentbed_studies.study_config import StudyTable
from sentbed_studies.time_left import TimeLeft, said
from sentbed_studies.write_study_directory import (
    STUDY,
    at_work,
    is_finished,
    lock_of,
    needed,
    note_confirmation,
)

Say: TypeAlias = Callable[[str], object]
Keep: TypeAlias = Literal["scores", "best", "all"]
Result: TypeAlias = Literal["finished", "was finished", "failed", "busy"]

CONSOLE = "sentbed-trackers:console"
"""Tracker for a single run, which is disabled in studies."""
OURS = re.compile(r"\.?study\.(json|toml)(\..+)?|locks")
"""Names of files in the directory of a study that has just begun."""
PAUSE = 0.5
"""Seconds between two checks of runs that another process is working on."""


@attrs.frozen
class Job:
    """One run of a study: a cell, or stages that cells share."""

    directory: Path
    """Run directory, relative to the study's."""
    title: str
    recipe: Recipe = attrs.field(eq=False, repr=False)
    above: Path | None = None
    """Run directory of the shared stages that this run continues from."""
    begun: int = 0
    """Number of those stages."""
    stages: int | None = None
    """Number of stages to run, for others to continue from; None means all."""
    keep: Keep = "all"
    """What stays of it; see `StudyTable.keep`."""
    content: Content = attrs.field(factory=dict, eq=False, repr=False)
    """What decides the weights of a cell."""
    evaluations: tuple[EvaluationKey, ...] = attrs.field(default=(), eq=False, repr=False)
    """Evaluations of a cell, in the order of its run."""

    @property
    def evaluation_keys(self) -> tuple[str, ...]:
        """Keys of the evaluations."""
        return tuple(evaluation.key for evaluation in self.evaluations)

    def __str__(self) -> str:
        return self.title


@attrs.frozen
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
        more = f" and {len(self.jobs) - 1} more" if len(self.jobs) > 1 else ""
        return f"{self.jobs[0]}{more}"


@attrs.frozen(eq=False)
class StudyResult:
    """Result of `run_study`."""

    directory: Path
    failed: tuple[Outcome, ...]
    worked: bool
    """Whether there was something to run."""


def run_study(
    study: Study,
    out: str | Path | None = None,
    plugins: Plugins | None = None,
    *,
    executor: TaskPool | None = None,
    only: Sequence[Mapping[str, str | tuple[str, ...]]] = (),
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
    directory = Path(out) if out is not None else Path("studies") / study.name
    work = work or plan_work(study.cells, CellKeys(plugins), share)
    asked = work.of(study.only(only).cells) if only else work
    lost = without_encoder(directory, asked)
    if lost and not retrain:
        raise RunError(
            f"{count(len(lost), 'run')} of `{directory}` have kept no encoder, so that evaluations which "
            "were added mean to train them again; let it (`--retrain`), or take the evaluations out"
        )
    _begin(directory)
    with at_work(directory, study, work, first_batch(study)):
        whole, work = work, asked
        directory = directory.resolve()
        for task in lost:
            _remove(directory / task.directory)
        executor = executor or executor_of("local", {}, plugins, say)
        total = runs_of(study, work)
        if not only and study.table.decide is not None:
            total += study.table.decide.confirm
        runner = _Runner(directory, executor, keep_going, say, total, left)
        # Cells that are asked for by name are run with all their seeds.
        for part in _parts(study, work, runner, None if only else study.table.stop):
            _run_work(study, part, runner)
        if not only and not runner.failed:
            _confirm(study, plugins, share, runner)
        if study.table.keep != "all":
            _remove_shared(directory, [t for t in whole.tasks if t.directory not in runner.dropped], whole)
        return StudyResult(directory, tuple(runner.failed), runner.worked)


def _parts(study: Study, work: Work, runner: _Runner, stop: Stop | None) -> Iterator[Work]:
    """Yield the work of a study part by part, each to be done before the next one is known.

    First come the batches of cells that a sampler chooses, with the first seed; then these cells, or all,
    between the looks of early stopping, or at once.
    """
    begun = 0
    if study.table.sampler is not None:
        names = yield from sampled_parts(study, study.table.sampler, work, runner.directory)
        runner.dropped |= {task.directory for task in work.tasks if task.cell.name not in names}
        work, begun = work.of([cell for cell in study.cells if cell.name in names]), 1
    if stop is not None:
        yield from parts_between_looks(study, work, stop, runner.directory, runner.say, runner.drop, begun)
    elif rest := [task.cell for task in work.tasks if task.cell.seed in study.seeds[begun:]]:
        yield work.of(rest)


def _confirm(study: Study, plugins: Plugins, share: bool, runner: _Runner) -> None:
    """Run the chosen cell with the fresh seeds that the recipe asks for, when all others have finished."""
    work = work_of_chosen_cell(study, runner.directory, CellKeys(plugins), share)
    if work is None:
        return
    note_confirmation(runner.directory, work)
    cell, seeds = work.tasks[0].cell.name, count(len(work.tasks), "fresh seed")
    runner.say(f"the chosen cell is {cell}; it is run with {seeds}")
    if runner.left is not None:
        runner.left.chosen([task.directory for task in work.tasks if not task.is_done(runner.directory)])
    _run_work(study, work, runner)
    if study.table.keep != "all":
        _remove_shared(runner.directory, work.tasks, work)


def _run_work(study: Study, work: Work, runner: _Runner) -> None:
    shared = needed(runner.directory, work)
    for depth in sorted({prefix.depth for prefix in shared}):
        runner.do([Bundle((_shared(prefix),)) for prefix in shared if prefix.depth == depth])
    runner.do([Bundle(tuple(_cell(study, task) for task in bundle)) for bundle in work.bundles], cells=True)


def _remove_shared(directory: Path, tasks: Sequence[Task], work: Work) -> None:
    """Remove the shared stages from which no cell of `tasks` has yet to go on."""
    wanted = {prefix.key for task in tasks if not task.is_done(directory) for prefix in chain(task.above)}
    for prefix in work.prefixes:
        run = directory / prefix.directory
        if prefix.key not in wanted and run.is_dir():
            with locked(lock_of(directory, run)) as free:
                if free:
                    _remove(run)


def _remove(path: Path) -> None:
    """Remove a directory: first its name, so that no half of it is taken for the whole. Raises `RunError`."""
    gone = path.with_name(f".{path.name}.gone")
    try:
        for left in (gone, path):
            if left.is_dir():
                left.replace(gone)
                shutil.rmtree(gone)
    except OSError as error:
        raise RunError(
            f"`{path}` is not to be kept and cannot be removed: {error.strerror or error}"
        ) from error


def _trim(run: Path, keep: Keep) -> None:
    """Remove what is not to stay of a finished run."""
    for name in {"all": (), "best": (CHECKPOINTS,), "scores": (CHECKPOINTS, ENCODER)}[keep]:
        _remove(run / name)


def _begin(directory: Path) -> None:
    """Create the study's directory, or reuse it. Raises `RunError` if a link leads out of it."""
    require_links_within(directory)
    held = [path.name for path in directory.iterdir()] if directory.is_dir() else []
    # A process may have been killed, or another one may be running, before `study.json` is written.
    if STUDY not in held and not all(OURS.fullmatch(name) for name in held):
        new_directory(directory)


def _shared(prefix: Prefix) -> Job:
    # Trackers follow the cells only.
    recipe = attrs.evolve(prefix.recipe, tracker=(), tables=_cell_tables(prefix.recipe))
    return Job(prefix.directory, str(prefix), recipe, *_above(prefix.above), prefix.count)


def _cell(study: Study, task: Task) -> Job:
    recipe = task.cell.recipe
    name = f"{study.name}.{slug(task.cell.name)}-seed{task.cell.seed}"
    recipe = attrs.evolve(recipe, run=attrs.evolve(recipe.run, name=name), tables=_cell_tables(recipe))
    return Job(
        task.directory,
        str(task),
        recipe,
        *_above(task.above),
        keep=study.table.keep,
        content=task.content,
        evaluations=task.evaluations,
    )


def _cell_tables(recipe: Recipe) -> dict[str, RecipeTable]:
    """Return the tables of a cell's recipe; scatter plots, which are slow to draw, are off."""
    return {**recipe.without(StudyTable).tables, "report": ReportTable(scatters=False)}


def _above(prefix: Prefix | None) -> tuple[Path | None, int]:
    return (None, 0) if prefix is None else (prefix.directory, prefix.count)


@attrs.define(eq=False)
class _Runner:
    directory: Path
    executor: TaskPool
    keep_going: bool
    say: Say
    total: int
    left: TimeLeft | None = None
    done: int = 0
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

    def do(self, bundles: Sequence[Bundle], cells: bool = False) -> None:
        """Run all jobs; those that another process is working on come last."""
        while bundles:
            later: list[Bundle] = []
            start = partial(_start, self.directory, self.keep_going)
            with closing(self.executor.run(start, bundles, lost=self._lost)) as results:
                for _, outcomes in results:
                    busy = tuple(outcome.job for outcome in outcomes if outcome.result == "busy")
                    later += [Bundle(busy)] if busy else []
                    for outcome in outcomes:
                        if outcome.result != "busy":
                            self._tell(outcome, cells)
            bundles = later
            while bundles and all(self._is_busy(job) for bundle in bundles for job in bundle.jobs):
                time.sleep(PAUSE)

    def _is_busy(self, job: Job) -> bool:
        return is_locked(lock_of(self.directory, self.directory / job.directory))

    def _lost(self, bundle: Bundle, message: str) -> list[Outcome]:
        """Return the outcomes of jobs whose workers died."""
        return [
            Outcome(job, "was finished")
            if is_finished(self.directory / job.directory, job.evaluation_keys)
            else Outcome(job, "failed", error=message)
            for job in bundle.jobs
        ]

    def _tell(self, outcome: Outcome, cell: bool) -> None:
        self.done += cell
        self.worked |= outcome.result != "was finished"
        place = f"{self.done} of {self.total}: " if cell else ""
        if outcome.result != "failed":
            took = f" in {outcome.seconds:.0f} s" if outcome.result == "finished" else ""
            self.say(f"{place}{outcome.job}: {outcome.result}{took}{self._left(outcome)}")
            return
        self._left(outcome)
        self.say(f"{place}{outcome.job}: failed: {outcome.error}")
        if self.keep_going:
            self.failed.append(outcome)
            return
        run = self.directory / outcome.job.directory
        message = (
            f"{outcome.job} failed: {outcome.error}; what has finished is kept in `{self.directory}`, and of "
            f"this run what is in `{run}`; mend it and start the study again, or let the others go on "
            "(`--keep-going`)"
        )
        error = RunError(message)
        if outcome.where:
            error.add_note(outcome.where)
        raise error

    def _left(self, outcome: Outcome) -> str:
        """Return how long the other runs take, which this one's time may correct."""
        if self.left is None:
            return ""
        if outcome.result == "finished":
            self.left.finished(outcome.job.directory, outcome.seconds)
        else:
            self.left.ended(outcome.job.directory)
        time = said(self.left)
        return f"; about {time} left" if time else ""


def _start(directory: Path, keep_going: bool, threads: int | None) -> Callable[[Bundle, Tell], list[Outcome]]:
    """Prepare a worker; return the function that runs a bundle."""
    if threads is not None:
        os.environ.setdefault("OMP_NUM_THREADS", str(threads))
    plugins = load_plugins()
    if plugins.manager.has_plugin(CONSOLE):
        plugins.manager.unregister(name=CONSOLE)
    return partial(_do_bundle, directory, plugins, keep_going)


def _do_bundle(
    directory: Path, plugins: Plugins, keep_going: bool, bundle: Bundle, tell: Tell
) -> list[Outcome]:
    outcomes = []
    kept = KeptEncoders() if len(bundle.jobs) > 1 else None
    for number, job in enumerate(bundle.jobs):
        waiting = bundle.jobs[number + 1 :]
        outcomes.append(_do(directory, plugins, job, [other.recipe for other in waiting], kept))
        tell(1)
        if outcomes[-1].result == "failed" and not keep_going:
            break
    return outcomes


def _do(
    directory: Path, plugins: Plugins, job: Job, beside: Sequence[Recipe], kept: KeptEncoders | None
) -> Outcome:
    """Run a job unless it has finished or another process holds its lock."""
    started = time.perf_counter()
    run = directory / job.directory
    with locked(lock_of(directory, run)) as free:
        if not free:
            return Outcome(job, "busy")
        if is_finished(run, job.evaluation_keys):
            _trim(run, job.keep)
            return Outcome(job, "was finished")
        try:
            if not is_finished(run):
                _run(directory, plugins, job, run, beside, kept)
            if not is_finished(run, job.evaluation_keys):
                add_evaluations(run, _as_run(job, run, plugins), job.evaluations, plugins)
            _trim(run, job.keep)
        except Exception as error:  # noqa: BLE001 - a fault of one cell is reported, and need not stop the others
            own = isinstance(error, SentbedError)
            message = str(error) if own else f"{type(error).__name__}: {error}"
            where = "" if own else "".join(traceback.format_exception(error))
            return Outcome(job, "failed", time.perf_counter() - started, message, where)
    return Outcome(job, "finished", time.perf_counter() - started)


def _as_run(job: Job, run: Path, plugins: Plugins) -> Recipe:
    """Return the recipe of a finished run: with the demonstrations that a search has found, if it had one."""
    if job.recipe.table(Search) is None:
        return job.recipe
    return _written_recipe(run, job, plugins)


def _written_recipe(directory: Path, job: Job, plugins: Plugins) -> Recipe:
    """Return the recipe that is written in a directory, to be run as the job's: on its machine, by its trust.

    A study directory may be a stranger's; what may run code is what the study's own recipe says.
    """
    trusted = any(encoder.backbone.traits.runs_code for encoder in job.recipe.encoders.values())
    return on_machine_of(own_recipe(directory, (), trusted, plugins), job.recipe)


def _makes_other_evaluations(run: Path, job: Job) -> bool:
    """Whether a run of a cell has begun with other evaluations than those that the study asks for."""
    return bool(job.content) and evaluation_keys(run) != list(job.evaluation_keys)


def _run(
    directory: Path,
    plugins: Plugins,
    job: Job,
    run: Path,
    beside: Sequence[Recipe],
    kept: KeptEncoders | None,
) -> None:
    recipe, searched = job.recipe, None
    # Of shared stages, only the cells that go on from them have keys.
    files = {KEYS: keys_of(job.content, job.evaluations)} if job.content else {}
    if recipe.table(Search) is not None:
        searched = directory / "searches" / run.name
        if not (searched / RANKING).is_file():
            search(recipe, searched, plugins)
        recipe = attrs.evolve(_written_recipe(searched, job, plugins), evaluate=job.recipe.evaluate)
    for left in run.parent.glob(f".{run.name}.*"):
        shutil.rmtree(left, ignore_errors=True)
    if _makes_other_evaluations(run, job) and not has_state(run):
        shutil.rmtree(run, ignore_errors=True)
    if not (run / MANIFEST).is_file():
        # A process was killed before the run could be resumed.
        shutil.rmtree(run, ignore_errors=True)
        if job.above is not None:
            if not is_finished(directory / job.above):
                raise RunError(f"the stages in `{job.above}`, which it goes on from, have not finished")
            branch(directory / job.above, run, recipe, job.begun, files)
    if (run / MANIFEST).is_file():
        # Shared stages are identified by their key: the rest of the recipe may now be another cell's.
        goes_on_otherwise = _makes_other_evaluations(run, job)
        if job.stages is not None:
            recipe = _written_recipe(run, job, plugins)
        elif goes_on_otherwise:
            # Those of the study are added when it has finished. All that decides its weights is in its key.
            begun = _written_recipe(run, job, plugins)
            recipe = attrs.evolve(recipe, evaluate=only_starts(run, begun))
        resume(run, recipe, plugins, allow_changes=goes_on_otherwise, stages=job.stages)
        return
    new_directory(run)
    for name, text in files.items():
        write_atomic(run / name, text)
    if searched is not None:
        shutil.copy2(searched / RANKING, run / RANKING)
    context = RunContext(recipe.run.name, run, recipe, stages=job.stages)
    if kept is not None:
        context.share = partial(share_passes, recipe, beside, kept=kept)
        context.built = kept.built(recipe)
    execute(context, plugins)
    if kept is not None:
        kept.saved(recipe, run / ENCODER)
