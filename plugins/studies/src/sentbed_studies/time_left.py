"""Estimate of the time that the runs of a study take: planned at first, then corrected by the finished runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import attrs
from sentbed.errors import SentbedError
from sentbed.tools import Evaluate, Recipe, Stage, Validate, Watch, first_stages
from sentbed_report.formatting import duration, share
from sentbed_report.report_json import read_record
from sentbed_report.run_cost import recorded_cost
from sentbed_report.study.read_cell_run import REPORT, UNREADABLE
from sentbed_workbench.plan_records import StagePlan, number_of_validations
from sentbed_workbench.resource_plan import Planner

from sentbed_studies.added_evaluations import RunState, run_states
from sentbed_studies.confirmation import Confirmation
from sentbed_studies.shared_work_plan import Prefix, Task, Work

Range: TypeAlias = tuple[float, float]
"""Minimum and maximum seconds."""

START = 6.0
"""Approximate seconds that a worker needs to load its libraries."""
RUN = 1.0
"""Approximate seconds that a run needs to build its encoder, to save it and to write its report."""


@attrs.define(eq=False)
class TimeLeft:
    """Planned seconds of the runs of a study, and measured seconds of the finished runs."""

    planned: dict[Path, Range | None]
    """Run directory -> minimum and maximum seconds; None if unknown."""
    workers: int = 1
    """Number of cells that are run at a time."""

    problems: tuple[str, ...] = ()
    """Messages about stages and evaluations whose time is unknown, so that the plan leaves them out."""
    unusable: tuple[str, ...] = ()
    """Messages about data because of which runs of the study would fail."""
    memory: int | None = None
    """Largest memory of a run in bytes; None if unknown."""

    whole: Range | None = None
    """Sum of the planned seconds of all runs, including finished runs; None if unknown."""
    alone: Range | None = None
    """Sum of the planned seconds of all runs if cells shared no work; None if unknown."""

    took: dict[Path, float] = attrs.field(factory=dict)
    """Run directory -> measured seconds of the finished run."""
    pending: dict[Path, Range | None] = attrs.field()
    """Run directory -> planned seconds, for the runs that are still to do; by default all that have not
    finished."""
    unchosen: list[Range | None] = attrs.field(factory=list)
    """With a sampler: planned seconds of each run that is still to do, whatever its cell will be."""
    fresh: list[Range | None] = attrs.field(factory=list)
    """Planned seconds of each run with a fresh seed (see `Confirmation`); empty once the chosen cell is known."""

    _first: dict[Path, float] = attrs.field(factory=dict, init=False)
    """Directory of each worker's first finished run -> seconds of the run without the loading of libraries."""

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
        """Record that a run has failed or was done elsewhere, so that its time does not count."""
        self._remove_pending(run)
        if run not in self.took:
            self.planned.pop(run, None)

    def _remove_pending(self, run: Path) -> None:
        """Remove a run that has ended from the runs that are still to do. A second call changes nothing."""
        if run in self.pending:
            del self.pending[run]
        elif self.unchosen and run in self.planned and run not in self.took:
            # The sampler has chosen the cell of this run: there is one less to be chosen.
            self.unchosen.pop()

    def chosen(self, runs: Sequence[Path]) -> None:
        """Record the directories of the runs with fresh seeds, when the chosen cell is known.

        All other runs must have ended.
        """
        # Some runs with fresh seeds may have finished before, so there may be fewer `runs`.
        self.pending = dict(zip(runs, self.fresh, strict=False))
        self.planned |= self.pending
        self.unchosen = []
        self.fresh = []

    def of(self, run: Path) -> Range | None:
        """Return the minimum and maximum seconds of a run; None if unknown.

        Once runs have finished, the minimum equals the maximum. It is the planned time of the run multiplied by
        the ratio of measured to planned time of the finished runs. If the run has no planned time, it is the
        mean time of the finished runs. The first run of each worker counts, without the loading of libraries,
        only until a later run has finished.
        """
        (seconds,) = self._corrected([self.planned.get(run)])
        return seconds

    def _corrected(self, seconds_of_runs: Sequence[Range | None]) -> list[Range | None]:
        """Return the planned seconds of runs, corrected by the finished runs as described in `of`."""
        if not self.took:
            return list(seconds_of_runs)

        scale = self._scale()
        measured = self._representative()
        mean = sum(measured.values()) / len(measured)
        corrected: list[Range | None] = []
        for planned in seconds_of_runs:
            seconds = mean
            if planned is not None and scale is not None:
                seconds = scale * _middle(planned)
            corrected.append((seconds, seconds))
        return corrected

    def of_all(self, alone: bool = False) -> Range | None:
        """Return the minimum and maximum seconds of all runs of the study, one after the other; None if unknown.

        They are corrected by the finished runs as in `of`, so that they are never less than the time left. With
        `alone`, they are the seconds if cells shared no work.
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
        """Return the minimum and maximum seconds until all workers have done all runs; None if unknown."""
        # The runs with fresh seeds begin when all other runs have ended.
        parts = [
            self._together([*self.pending.values(), *self.unchosen]),
            self._together(self.fresh),
        ]
        if not self.took and (self.pending or self.unchosen or self.fresh):
            parts.append((START, START))
        return _sum(parts)

    def in_words(self) -> str | None:
        """Return the time left in words; None if it is unknown, or if nothing is left."""
        seconds = self.seconds()
        if seconds is None or not seconds[1]:
            return None
        return _in_words(seconds)

    def of_all_in_words(self) -> str | None:
        """Return in words the time of the whole study, the time without sharing, and the share that this saves.

        Return None if either is unknown.
        """
        whole = self.of_all()
        alone = self.of_all(alone=True)
        if whole is None or alone is None:
            return None

        if _middle(whole) >= _middle(alone):
            return _in_words(whole)

        saved = share(1 - _middle(whole) / _middle(alone))
        return f"{_in_words(whole)}; {_in_words(alone)} without sharing, which saves {saved}"

    def _together(self, seconds_of_runs: Sequence[Range | None]) -> Range | None:
        """Return the corrected seconds that all workers together need for runs; None if unknown."""
        total = _sum(self._corrected(seconds_of_runs))
        workers = max(1, min(self.workers, len(seconds_of_runs)))
        return _multiplied(total, 1 / workers)

    def _representative(self) -> Mapping[Path, float]:
        """Return the finished runs by which plans are corrected: run directory -> measured seconds.

        These are the runs after the first run of each worker; if there are none yet, these first runs.
        """
        later = {}
        # Of copies, since runs end while another thread shows the time left.
        for run, seconds in dict(self.took).items():
            if run not in self._first:
                later[run] = seconds
        return later or dict(self._first)

    def _scale(self) -> float | None:
        """Return the ratio of measured to planned seconds of finished runs; None if none of them was planned."""
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
    states: Sequence[RunState] | None = None,
    number_of_runs: int | None = None,
    confirmation: Confirmation | None = None,
) -> TimeLeft:
    """Return the time that the runs of a study take, corrected by the finished runs in `directory`.

    Args:
        work: Runs and shared stages.
        directory: Directory of the study.
        planner: Estimates the seconds of stages and evaluations.
        states: State of each run in `directory`; by default it is read.
        number_of_runs: Number of runs that a sampler chooses from the runs of `work`; None for all of them.
        confirmation: Runs of the chosen cell with fresh seeds, which follow the runs of `work`; None if there
            are none.
    """
    if states is None:
        states = run_states(directory, work)
    plans = _Plans(planner or Planner())
    planned = plans.of_work(work)
    alone = plans.of_cells_alone(work)
    whole, whole_alone, mean_cell = _sum(planned.values()), _sum(alone), _mean(alone)

    unstarted = [state.task for state in states if state.status is None]
    to_train = work.prefixes_to_run(directory, unstarted)
    for prefix in work.prefixes:
        if prefix not in to_train:
            del planned[prefix.directory]

    took = {}
    for state in states:
        run = state.task.directory
        if state.is_done:
            seconds = _recorded_seconds(directory / run)
            if seconds is not None:
                took[run] = seconds
        elif state.is_finished and not state.is_to_be_trained_again:
            # Only the missing evaluations are left to do, with the saved encoders of the run.
            entries = tuple(evaluation.entry for evaluation in state.missing)
            recipe = attrs.evolve(state.task.cell.recipe, stage=(), evaluate=entries)
            planned[run] = plans.of_run(recipe)

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
            left.chosen([task.directory for task in confirmation.unfinished])
    return left


def _sample(
    left: TimeLeft,
    work: Work,
    number_of_runs: int,
) -> None:
    """Change the time left to that of a study whose sampler chooses `number_of_runs` of the runs of `work`.

    Runs that have not finished get the mean of their planned seconds, as it is unknown which will be chosen.
    """
    share_of_runs = number_of_runs / len(work.tasks)
    seconds_of_cells = []
    for task in work.tasks:
        if task.directory in left.pending:
            seconds_of_cells.append(left.pending.pop(task.directory))

    finished = len(work.tasks) - len(seconds_of_cells)
    left.unchosen = [_mean(seconds_of_cells)] * max(0, number_of_runs - finished)
    # Only shared stages are left in `pending`. It is unknown which of them the chosen cells will need.
    for run, seconds in left.pending.items():
        left.pending[run] = _multiplied(seconds, share_of_runs)

    left.whole = _multiplied(left.whole, share_of_runs)
    left.alone = _multiplied(left.alone, share_of_runs)


def _sum(ranges: Iterable[Range | None]) -> Range | None:
    """Return the sum of the minima and the sum of the maxima; None if a range is unknown."""
    low = high = 0.0
    for seconds in ranges:
        if seconds is None:
            return None
        low += seconds[0]
        high += seconds[1]
    return low, high


def _multiplied(seconds: Range | None, factor: float) -> Range | None:
    """Return a range multiplied by a factor; None if it is unknown."""
    if seconds is None:
        return None
    return factor * seconds[0], factor * seconds[1]


def _mean(ranges: Sequence[Range | None]) -> Range | None:
    """Return the mean of the minima and that of the maxima; None if a range is unknown, or if there is none."""
    if not ranges:
        return None
    return _multiplied(_sum(ranges), 1 / len(ranges))


def _middle(planned: Range) -> float:
    """Return the middle of a range."""
    return (planned[0] + planned[1]) / 2


def _recorded_seconds(run: Path) -> float | None:
    """Return the seconds of a finished run without its shared stages; None if its record cannot be read."""
    try:
        record = read_record(run / REPORT)
        cost = recorded_cost(record)
        if cost is not None and cost.own.seconds is not None:
            return float(cost.own.seconds)
        return float(record["seconds"])
    except UNREADABLE:
        # A run without a readable record is not used to correct the plans of others.
        return None


@attrs.define(eq=False)
class _Plans:
    """Plans the seconds of runs. Stages and evaluations that several runs have in common are planned once."""

    planner: Planner
    memory: int | None = None
    """Largest memory of the planned stages in bytes; None before a stage was planned."""
    problems: dict[str, None] = attrs.field(factory=dict)
    """Messages about stages and evaluations that could not be planned, without repetition."""

    _stages: dict[str, list[Range | None]] = attrs.field(factory=dict, init=False)
    """Runtime, encoders and stages of a recipe as text -> seconds of each stage."""
    _evaluated: set[str] = attrs.field(factory=set, init=False)
    """Evaluations before training that were planned. An equal evaluation uses the cached vectors of the first."""

    def of_work(self, work: Work) -> dict[Path, Range | None]:
        """Return run directory -> seconds, for shared stages and cells."""
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
        self,
        recipe: Recipe,
        stages_before: int = 0,
        encodes: bool = True,
    ) -> Range | None:
        """Return the seconds of a run that continues after its first `stages_before` stages; None if unknown.

        With `encodes=False`, the vectors for its evaluations come from the cache and take no time.
        """
        seconds = _sum([(RUN, RUN), *self._of_stages(recipe)[stages_before:]])
        if seconds is None or not encodes:
            return seconds
        return _sum([seconds, *self._of_evaluations(recipe, stages_before)])

    def _of_stages(self, recipe: Recipe) -> list[Range | None]:
        """Return the seconds of each stage with its validations, and update `memory`."""
        key = repr((recipe.runtime, recipe.encoders, recipe.stage))
        if key not in self._stages:
            self._stages[key] = self._plan_stages(recipe)
        return self._stages[key]

    def _plan_stages(self, recipe: Recipe) -> list[Range | None]:
        """Plan the stages of a recipe; return the seconds of each, or None for a stage that cannot be planned."""
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
        self,
        recipe: Recipe,
        stage: Stage,
        planned: StagePlan,
    ) -> Iterator[Range | None]:
        """Yield the seconds of a stage's validations."""
        if planned.seconds is None or planned.steps is None:
            return
        for validation in (stage.validate, *stage.watch):
            if validation is None:
                continue
            name = validation.encoder or recipe.trained(stage)[0]
            for seconds in self._of_evaluation(recipe, validation, name):
                runs = number_of_validations(validation.every, planned.steps)
                yield _multiplied(seconds, runs)

    def _of_evaluations(self, recipe: Recipe, stages_before: int) -> Iterator[Range]:
        """Yield the seconds of each evaluation of a run that continues after `stages_before` stages.

        If `stages_before` is above 0, evaluations before training are left out: the run of these stages did them.
        """
        for entry in recipe.evaluate:
            name = entry.encoder or recipe.main_encoder
            for seconds in self._of_evaluation(recipe, entry, name):
                if "end" in entry.at:
                    yield seconds
                is_before_training = "start" in entry.at and not stages_before
                if is_before_training and self._is_new(recipe, entry, name):
                    yield seconds

    def _of_evaluation(
        self,
        recipe: Recipe,
        entry: Evaluate | Validate | Watch,
        name: str,
    ) -> Iterator[Range]:
        """Yield the seconds of an evaluation. If they are unknown, add a message to `problems` instead."""
        seconds = self.planner.evaluation(recipe, entry, name)
        if isinstance(seconds, str):
            problem = f"evaluations with `{entry.evaluator.name}`: {seconds}"
            self.problems[problem] = None
            return
        yield seconds

    def _is_new(
        self,
        recipe: Recipe,
        entry: Evaluate,
        name: str,
    ) -> bool:
        """Return whether no equal evaluation of an equal untrained encoder was planned before, and record it."""
        # Untrained encoders are equal if they come from the same files, or if they have the same seed.
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
    """Return a text such as `2 min to 3 min`, or `2 min` if both ends have the same text."""
    low, high = map(duration, seconds)
    if low == high:
        return low
    return f"{low} to {high}"
