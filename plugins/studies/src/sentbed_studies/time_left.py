"""Estimate of the time that the runs of a study take, planned and then corrected by the finished runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import attrs
from sentbed.errors import DataError, SentbedError
from sentbed.tools import Evaluate, Recipe, Stage, Validate, Watch, first_stages
from sentbed_report.formatting import duration, share
from sentbed_report.report_json import read_record
from sentbed_report.run_cost import recorded_cost
from sentbed_report.study.read_cell_run import REPORT
from sentbed_workbench.plan_records import StagePlan, number_of_validations
from sentbed_workbench.resource_plan import Planner

from sentbed_studies.added_evaluations import KeptRun, kept_runs
from sentbed_studies.confirmation import Confirmation
from sentbed_studies.shared_work_plan import Prefix, Task, Work
from sentbed_studies.write_study_directory import needed

Range: TypeAlias = tuple[float, float]
"""Minimum and maximum seconds."""

START = 6.0
"""Approximate seconds that a worker needs to load its libraries."""
RUN = 1.0
"""Approximate seconds that a run needs to build its encoder, save it and write its report."""


@attrs.define(eq=False)
class TimeLeft:
    """Planned seconds of the runs of a study, and measured seconds of those that have finished."""

    planned: dict[Path, Range | None]
    """Run directory -> minimum and maximum seconds; None if unknown."""
    workers: int = 1
    """Number of cells that are run at a time."""

    problems: tuple[str, ...] = ()
    """Parts that the plan leaves out, with the reasons."""
    unusable: tuple[str, ...] = ()
    """Problems of data because of which runs of the study would fail."""
    memory: int | None = None
    """Largest memory of a run in bytes; None if unknown."""

    whole: Range | None = None
    """Sum of the planned seconds of all runs, finished or not; None if unknown."""
    alone: Range | None = None
    """The same sum if cells shared no work."""

    took: dict[Path, float] = attrs.field(factory=dict)
    """Run directory -> measured seconds of the finished run."""
    pending: dict[Path, Range | None] = attrs.field()
    """The `planned` runs that are still to do; by default all that have not finished."""
    unchosen: list[Range | None] = attrs.field(factory=list)
    """Planned seconds per run of the cells that a sampler has not chosen yet."""
    fresh: list[Range | None] = attrs.field(factory=list)
    """Planned seconds per run with a fresh seed, until it is known which cell gets them."""

    _first: dict[Path, float] = attrs.field(factory=dict, init=False)
    """First finished run of each worker -> its seconds without the loading of libraries."""

    @pending.default
    def _not_finished(self) -> dict[Path, Range | None]:
        pending = {}
        for run, seconds in self.planned.items():
            if run not in self.took:
                pending[run] = seconds
        return pending

    def finished(self, run: Path, seconds: float) -> None:
        """Record the seconds of a run that has finished."""
        self._remove_pending(run)
        self.took[run] = seconds
        if len(self._first) < self.workers:
            planned = self.planned.get(run)
            if planned is not None:
                # Not below the planned seconds: the libraries may have been loaded already.
                seconds = max(seconds - START, min(seconds, planned[0]))
            self._first[run] = seconds

    def ended(self, run: Path) -> None:
        """Record that a run failed or was left out, so that its time does not count."""
        self._remove_pending(run)
        if run not in self.took:
            self.planned.pop(run, None)

    def _remove_pending(self, run: Path) -> None:
        """Remove a run that has ended from those still to do; a second call changes nothing."""
        if run in self.pending:
            del self.pending[run]
        elif self.unchosen and run in self.planned and run not in self.took:
            # The sampler has chosen the cell of this run.
            self.unchosen.pop()

    def chosen(self, runs: Sequence[Path]) -> None:
        """Record the runs with fresh seeds, now that their cell is known; all other runs have ended."""
        self.pending = dict(zip(runs, self.fresh, strict=False))
        self.planned |= self.pending
        self.unchosen = []
        self.fresh = []

    def of(self, run: Path) -> Range | None:
        """Return the minimum and maximum seconds of a run, or None if unknown.

        Once runs have finished, both are the planned seconds times the ratio of measured to planned seconds
        of the finished runs, or the mean of these for a run without a plan. The first run of each worker,
        without its start, counts only until another one has finished.
        """
        (seconds,) = self._corrected([self.planned.get(run)])
        return seconds

    def _corrected(self, runs: Sequence[Range | None]) -> Sequence[Range | None]:
        """Return the planned seconds of runs, corrected by the finished runs as `of` says."""
        if not self.took:
            return runs

        scale = self._scale()
        measured = self._representative()
        mean = sum(measured.values()) / len(measured)
        corrected = []
        for planned in runs:
            seconds = mean
            if planned is not None and scale is not None:
                seconds = scale * _middle(planned)
            corrected.append((seconds, seconds))
        return corrected

    def of_all(self, alone: bool = False) -> Range | None:
        """Return the minimum and maximum seconds of all runs of the study, one after the other.

        They are corrected by the finished runs as in `of`, so they are never less than the time left.
        With `alone`, cells share no work. None if unknown.
        """
        planned = self.alone if alone else self.whole
        if planned is None:
            return None

        scale = self._scale()
        if scale is not None:
            seconds = scale * _middle(planned)
            planned = (seconds, seconds)
        if not planned[1]:
            return planned
        return START + planned[0], START + planned[1]

    def seconds(self) -> Range | None:
        """Return the minimum and maximum seconds left for all runs and workers, or None if unknown."""
        # Runs with fresh seeds begin when all others have ended.
        parts = [
            self._together([*self.pending.values(), *self.unchosen]),
            self._together(self.fresh),
        ]
        if not self.took and (self.pending or self.unchosen or self.fresh):
            parts.append((START, START))
        return _sum(parts)

    def in_words(self) -> str | None:
        """Return the time left in words, or None if it is unknown or nothing is left."""
        seconds = self.seconds()
        if seconds is None or not seconds[1]:
            return None
        return _in_words(seconds)

    def of_all_in_words(self) -> str | None:
        """Return the time of the whole study, and the share that sharing saves; None if either is unknown."""
        whole = self.of_all()
        alone = self.of_all(alone=True)
        if whole is None or alone is None:
            return None

        if _middle(whole) >= _middle(alone):
            return _in_words(whole)

        saved = share(1 - _middle(whole) / _middle(alone))
        return f"{_in_words(whole)}; {_in_words(alone)} without sharing, which saves {saved}"

    def _together(self, runs: Sequence[Range | None]) -> Range | None:
        """Return the corrected seconds of runs that all workers do at the same time; None if unknown."""
        total = _sum(self._corrected(runs))
        return _times(total, 1 / max(1, min(self.workers, len(runs))))

    def _representative(self) -> Mapping[Path, float]:
        """Return run -> seconds of the runs after the first of each worker, or of the first ones alone."""
        later = {}
        for run, seconds in self.took.items():
            if run not in self._first:
                later[run] = seconds
        return later or self._first

    def _scale(self) -> float | None:
        """Return the ratio of measured to planned seconds of finished runs; None if none was planned."""
        measured_total = 0.0
        planned_total = 0.0
        for run, seconds in self._representative().items():
            planned = self.planned.get(run)
            if planned is not None:
                measured_total += seconds
                planned_total += _middle(planned)

        if not planned_total:
            return None
        return measured_total / planned_total


def time_left(
    work: Work,
    directory: Path,
    planner: Planner | None = None,
    *,
    kept: Sequence[KeptRun] | None = None,
    number_of_runs: int | None = None,
    confirmation: Confirmation | None = None,
) -> TimeLeft:
    """Return the time that the work of a study takes, corrected by the finished runs in `directory`.

    Args:
        work: Runs and shared stages.
        directory: The study's directory.
        planner: Estimates the seconds of stages and evaluations.
        kept: State of each run in `directory`; read if None.
        number_of_runs: Number of runs to do, if a sampler chooses among the runs of `work`.
        confirmation: Runs with fresh seeds that follow.
    """
    if kept is None:
        kept = kept_runs(directory, work)
    plans = _Plans(planner or Planner())
    planned = plans.of_work(work)
    alone = plans.of_cells_alone(work)
    whole, whole_alone, mean_cell = _sum(planned.values()), _sum(alone), _mean(alone)

    unstarted = [run.task for run in kept if run.status is None]
    to_train = needed(directory, work, unstarted)
    for prefix in work.prefixes:
        if prefix not in to_train:
            del planned[prefix.directory]

    took = {}
    for run in kept:
        run_directory = run.task.directory
        if run.is_done:
            seconds = _recorded_seconds(directory / run_directory)
            if seconds is not None:
                took[run_directory] = seconds
        elif run.is_finished and not run.is_to_be_trained_again:
            # Only the missing evaluations are to do, with the encoder that the run has kept.
            entries = tuple(evaluation.entry for evaluation in run.missing)
            recipe = attrs.evolve(run.task.cell.recipe, stage=(), evaluate=entries)
            planned[run_directory] = plans.of_run(recipe)

    left = TimeLeft(
        planned,
        problems=tuple(plans.problems),
        unusable=tuple(plans.planner.unusable),
        memory=plans.memory,
        whole=whole,
        alone=whole_alone,
        took=took,
    )
    if number_of_runs is not None and number_of_runs < len(work.tasks):
        _sample(left, work, number_of_runs)
    if confirmation is not None:
        left.fresh = [mean_cell] * confirmation.runs
        left.whole = _sum([left.whole, *left.fresh])
        left.alone = _sum([left.alone, *left.fresh])
        if confirmation.work is not None:
            left.chosen([task.directory for task in confirmation.left])
    return left


def _sample(left: TimeLeft, work: Work, number_of_runs: int) -> None:
    """Change the time left to what `number_of_runs` runs of mean duration take, finished runs included."""
    share_of_runs = number_of_runs / len(work.tasks)
    seconds_of_cells = []
    for task in work.tasks:
        if task.directory in left.pending:
            seconds_of_cells.append(left.pending.pop(task.directory))

    finished = len(work.tasks) - len(seconds_of_cells)
    left.unchosen = [_mean(seconds_of_cells)] * max(0, number_of_runs - finished)
    # Shared stages stay pending, but it is unknown which of them the chosen cells need.
    for run, seconds in left.pending.items():
        left.pending[run] = _times(seconds, share_of_runs)

    left.whole = _times(left.whole, share_of_runs)
    left.alone = _times(left.alone, share_of_runs)


def _sum(ranges: Iterable[Range | None]) -> Range | None:
    """Return the sums of minima and maxima; None if one is unknown."""
    low = high = 0.0
    for seconds in ranges:
        if seconds is None:
            return None
        low += seconds[0]
        high += seconds[1]
    return low, high


def _times(seconds: Range | None, factor: float) -> Range | None:
    if seconds is None:
        return None
    return factor * seconds[0], factor * seconds[1]


def _mean(ranges: Sequence[Range | None]) -> Range | None:
    """Return the means of minima and maxima; None if one is unknown, or there are no ranges."""
    if not ranges:
        return None
    return _times(_sum(ranges), 1 / len(ranges))


def _middle(planned: Range) -> float:
    return (planned[0] + planned[1]) / 2


def _recorded_seconds(run: Path) -> float | None:
    """Return the recorded seconds of a run, without shared stages; None if its record cannot be read."""
    try:
        record = read_record(run / REPORT)
        cost = recorded_cost(record)
        if cost is not None and cost.own.seconds is not None:
            return float(cost.own.seconds)
        return float(record["seconds"])
    except (OSError, ValueError, KeyError, TypeError, DataError):
        # Then the run is not used to correct the others.
        return None


@attrs.define(eq=False)
class _Plans:
    """Planned seconds of runs; stages and evaluations that several runs have are planned once."""

    planner: Planner
    memory: int | None = None
    """Largest memory of the planned stages in bytes; None before any was planned."""
    problems: dict[str, None] = attrs.field(factory=dict)
    """What could not be planned, in order."""

    _stages: dict[str, list[Range | None]] = attrs.field(factory=dict, init=False)
    """Runtime, encoders and stages of a recipe -> seconds of each stage."""
    _evaluated: set[str] = attrs.field(factory=set, init=False)
    """Planned evaluations before training: equal ones use the cached vectors of the first."""

    def of_work(self, work: Work) -> dict[Path, Range | None]:
        """Return run directory -> seconds of shared stages and cells."""
        planned = {}
        for prefix in work.prefixes:
            recipe = first_stages(prefix.recipe, prefix.count)
            planned[prefix.directory] = self.of_run(recipe, _stages_before(prefix))
        for bundle in work.bundles:
            for task in bundle:
                # The first cell of a bundle encodes for all cells that share its passes.
                planned[task.directory] = self.of_run(
                    task.cell.recipe, _stages_before(task), encodes=task is bundle[0]
                )
        return planned

    def of_cells_alone(self, work: Work) -> list[Range | None]:
        """Return the seconds of each cell if cells shared no work."""
        self._evaluated.clear()
        return [self.of_run(task.cell.recipe) for task in work.tasks]

    def of_run(
        self, recipe: Recipe, begun: int = 0, encodes: bool = True
    ) -> Range | None:
        """Return the seconds of a run that continues after `begun` stages; None if unknown."""
        seconds = _sum([(RUN, RUN), *self._of_stages(recipe)[begun:]])
        if seconds is None or not encodes:
            return seconds
        return _sum([seconds, *self._of_evaluations(recipe, begun)])

    def _of_stages(self, recipe: Recipe) -> list[Range | None]:
        """Return the seconds of each stage with its validations, and update `memory`."""
        key = repr((recipe.runtime, recipe.encoders, recipe.stage))
        if key not in self._stages:
            self._stages[key] = self._plan_stages(recipe)
        return self._stages[key]

    def _plan_stages(self, recipe: Recipe) -> list[Range | None]:
        try:
            plan = self.planner.plan(recipe)
        except SentbedError as error:
            self.problems[str(error)] = None
            return [None] * len(recipe.stage)

        seconds = []
        peaks = [self.memory or 0, sum(plan.encoding.values())]
        for stage, planned in zip(recipe.stage, plan.stages, strict=True):
            self.problems |= dict.fromkeys(planned.problems)
            peaks.append(planned.peak or 0)
            validations = self._of_validations(recipe, stage, planned)
            seconds.append(_sum([planned.seconds, *validations]))

        self.memory = max(peaks)
        return seconds

    def _of_validations(
        self, recipe: Recipe, stage: Stage, planned: StagePlan
    ) -> Iterator[Range | None]:
        """Yield the seconds of a stage's validations."""
        if planned.seconds is None or planned.steps is None:
            return
        for validation in (stage.validate, *stage.watch):
            if validation is None:
                continue
            name = validation.encoder or recipe.trained(stage)[0]
            for seconds in self._of_evaluation(recipe, validation, name):
                yield _times(seconds, number_of_validations(validation.every, planned.steps))

    def _of_evaluations(self, recipe: Recipe, begun: int) -> Iterator[Range]:
        """Yield the seconds of each evaluation before and after the stages."""
        for entry in recipe.evaluate:
            name = entry.encoder or recipe.main_encoder
            for seconds in self._of_evaluation(recipe, entry, name):
                if "end" in entry.at:
                    yield seconds
                is_before_training = "start" in entry.at and not begun
                if is_before_training and self._is_new(recipe, entry, name):
                    yield seconds

    def _of_evaluation(
        self,
        recipe: Recipe,
        entry: Evaluate | Validate | Watch,
        name: str,
    ) -> Iterator[Range]:
        """Yield the seconds of an evaluation; if they are unknown, add to `problems` and yield nothing."""
        seconds = self.planner.evaluation(recipe, entry, name)
        if isinstance(seconds, str):
            problem = f"evaluations with `{entry.evaluator.name}`: {seconds}"
            self.problems[problem] = None
            return
        yield seconds

    def _is_new(self, recipe: Recipe, entry: Evaluate, name: str) -> bool:
        """Return whether this is the first such evaluation of an equal untrained encoder, and remember it."""
        # Untrained encoders are equal if they come from the same files, or have the same seed.
        encoder = recipe.encoders[name]
        seed = None if encoder.backbone.traits.from_files else recipe.run.seed
        key = repr((encoder, entry.evaluator, recipe.runtime, seed))
        is_new = key not in self._evaluated
        self._evaluated.add(key)
        return is_new


def _stages_before(run: Prefix | Task) -> int:
    """Return the number of shared stages from which a run continues."""
    return 0 if run.above is None else run.above.count


def _in_words(seconds: Range) -> str:
    low, high = map(duration, seconds)
    if low == high:
        return low
    return f"{low} to {high}"
