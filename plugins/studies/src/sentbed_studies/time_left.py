"""Estimate of the time that a study has left, which runs correct as they finish."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import attrs
from sentbed.errors import DataError, SentbedError
from sentbed.tools import Evaluate, Recipe, Stage, Validate, Watch, first_stages
from sentbed_report.formatting import duration, share
from sentbed_report.report_json import read_record
from sentbed_report.run_cost import recorded_cost
from sentbed_report.study.read_cell_run import REPORT
from sentbed_workbench.plan_records import StagePlan, number_of_looks
from sentbed_workbench.resource_plan import Planner

from sentbed_studies.added_evaluations import KeptRun, kept_runs
from sentbed_studies.confirmation import Confirmation
from sentbed_studies.shared_work_plan import Work
from sentbed_studies.write_study_directory import needed

Range: TypeAlias = tuple[float, float]
"""Minimum and maximum seconds."""

START = 6.0
"""Seconds in which a worker loads its libraries, about."""
RUN = 1.0
"""Seconds in which a run builds its encoder, saves it and writes its report, about."""


@attrs.define(eq=False)
class TimeLeft:
    """Time that the runs of a study take, as planned and as they took."""

    planned: dict[Path, Range | None]
    """Run directory -> minimum and maximum seconds; None if unknown."""
    workers: int = 1

    problems: tuple[str, ...] = ()
    """Parts that the plan leaves out, with the reasons."""
    unusable: tuple[str, ...] = ()
    """What is wrong with data, so that runs of the study would fail."""
    memory: int | None = None
    """Largest memory of a run in bytes; None if unknown."""

    whole: Range | None = None
    """Seconds of all runs of the study, finished or not, added up; None if unknown."""
    alone: Range | None = None
    """The same if every cell did all of its work itself."""

    took: dict[Path, float] = attrs.field(factory=dict)
    """Run directory -> seconds that the finished run took."""
    pending: dict[Path, Range | None] = attrs.field()
    """Those of the `planned` runs that are still to do; by default all that have not finished."""
    unchosen: list[Range | None] = attrs.field(factory=list)
    """Seconds of each run still to do of a cell that a sampler has yet to choose."""
    fresh: list[Range | None] = attrs.field(factory=list)
    """Seconds of each run with a fresh seed still to do, as long as the chosen cell is not known."""

    _first: dict[Path, float] = attrs.field(factory=dict, init=False)
    """The first finished run of each worker, in which it has loaded its libraries -> its seconds without
    these."""

    @pending.default
    def _not_finished(self) -> dict[Path, Range | None]:
        return {
            run: seconds
            for run, seconds in self.planned.items()
            if run not in self.took
        }

    def finished(self, run: Path, seconds: float) -> None:
        """Note that a run has finished."""
        self._count(run)
        self.took[run] = seconds
        if len(self._first) < self.workers:
            # Libraries may be loaded already: a start is no reason to expect less than the plan says.
            planned = self.planned.get(run)
            if planned is not None:
                seconds = max(seconds - START, min(seconds, planned[0]))
            self._first[run] = seconds

    def ended(self, run: Path) -> None:
        """Note that a run has ended in another way, which says nothing on the others."""
        self._count(run)
        if run not in self.took:
            self.planned.pop(run, None)

    def _count(self, run: Path) -> None:
        """Count a run that has ended, once."""
        if run in self.pending:
            del self.pending[run]
        elif self.unchosen and run in self.planned and run not in self.took:
            # Its cell is one of those that the sampler has chosen.
            self.unchosen.pop()

    def chosen(self, runs: Sequence[Path]) -> None:
        """Note the runs with fresh seeds still to do: the cell is known, and all other runs have ended."""
        self.pending = dict(zip(runs, self.fresh, strict=False))
        self.planned |= self.pending
        self.unchosen = []
        self.fresh = []

    def of(self, run: Path) -> Range | None:
        """Return the minimum and maximum seconds of a run, or None if unknown.

        Where runs have finished, both are what the plan says, scaled as these need it, or, for a run without
        a plan, their mean. The first run of a worker counts only while no other has finished, less its start.
        """
        return self._correction()(self.planned.get(run))

    def _correction(self) -> Callable[[Range | None], Range | None]:
        """Return the function from what is planned of a run to what the finished runs let expect of it."""
        if not self.took:
            return lambda planned: planned
        scale = self._scale()
        later = self._later()
        mean = sum(later.values()) / len(later)

        def corrected(planned: Range | None) -> Range:
            seconds = mean
            if planned is not None and scale is not None:
                seconds = scale * _middle(planned)
            return seconds, seconds

        return corrected

    def of_all(self, alone: bool = False) -> Range | None:
        """Return the minimum and maximum seconds of all runs of the study, one after the other.

        It is corrected by the finished runs as `of` is, so that it is never less than what is left of it.
        With `alone`, every cell does all of its work itself. None if it is unknown.
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
        # Runs with fresh seeds come after all others.
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
        """Return what the whole study takes and what sharing saves of it; None if either is unknown."""
        whole = self.of_all()
        alone = self.of_all(alone=True)
        if whole is None or alone is None:
            return None
        if _middle(whole) >= _middle(alone):
            return _in_words(whole)
        saved = share(1 - _middle(whole) / _middle(alone))
        return f"{_in_words(whole)}; {_in_words(alone)} without sharing, which saves {saved}"

    def _together(self, runs: Sequence[Range | None]) -> Range | None:
        """Return the seconds of runs that the workers share."""
        total = _sum(map(self._correction(), runs))
        if total is None:
            return None
        return _times(total, 1 / max(1, min(self.workers, len(runs))))

    def _later(self) -> Mapping[Path, float]:
        """Return the finished runs that count: those after the first of a worker, if there are any."""
        later = {
            run: seconds for run, seconds in self.took.items() if run not in self._first
        }
        return later or self._first

    def _scale(self) -> float | None:
        """Return how much longer the finished runs took than was planned; None if none of them was."""
        took_in_all = 0.0
        planned_in_all = 0.0
        for run, took in self._later().items():
            planned = self.planned.get(run)
            if planned is not None:
                took_in_all += took
                planned_in_all += _middle(planned)
        if not planned_in_all:
            return None
        return took_in_all / planned_in_all


def time_left(
    work: Work,
    directory: Path,
    planner: Planner | None = None,
    *,
    kept: Sequence[KeptRun] | None = None,
    number_of_runs: int | None = None,
    confirmation: Confirmation | None = None,
) -> TimeLeft:
    """Return the time that the work of a study takes; what has finished in `directory` corrects it.

    `kept` is what `directory` holds of the runs. `number_of_runs` is that of a sampler, which takes only some
    of them. `confirmation` comes after them.
    """
    if kept is None:
        kept = kept_runs(directory, work)
    plans = _Plans(planner or Planner())
    planned = plans.of_work(work)
    alone = plans.of_cells_alone(work)
    whole, whole_alone, mean_cell = _sum(planned.values()), _sum(alone), _mean(alone)

    to_train = needed(directory, work, [run.task for run in kept if run.status is None])
    for prefix in work.prefixes:
        if prefix not in to_train:
            del planned[prefix.directory]
    took = {}
    for run in kept:
        place = run.task.directory
        if run.is_done:
            seconds = _recorded_seconds(directory / place)
            if seconds is not None:
                took[place] = seconds
        elif run.is_finished and not run.is_to_be_trained_again:
            # What it lacks is computed from the encoder that it has kept.
            entries = tuple(evaluation.entry for evaluation in run.missing)
            recipe = attrs.evolve(run.task.cell.recipe, stage=(), evaluate=entries)
            planned[place] = plans.of_run(recipe)

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
    """Let only so many runs of cells be left, with those that have finished; each takes the mean of all."""
    part = number_of_runs / len(work.tasks)
    cells = [
        left.pending.pop(task.directory)
        for task in work.tasks
        if task.directory in left.pending
    ]
    finished = len(work.tasks) - len(cells)
    left.unchosen = [_mean(cells)] * max(0, number_of_runs - finished)
    # It is not known which shared stages the chosen cells need.
    left.pending = {run: _times(seconds, part) for run, seconds in left.pending.items()}
    left.whole = _times(left.whole, part)
    left.alone = _times(left.alone, part)


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
    """Return the means of minima and maxima; None if one is unknown, or there is none."""
    if not ranges:
        return None
    return _times(_sum(ranges), 1 / len(ranges))


def _middle(planned: Range) -> float:
    return (planned[0] + planned[1]) / 2


def _recorded_seconds(run: Path) -> float | None:
    """Return the seconds that a run took, without shared stages; None if its record cannot be read."""
    try:
        record = read_record(run / REPORT)
        cost = recorded_cost(record)
        seconds = None if cost is None else cost.own.seconds
        if seconds is None:
            seconds = record["seconds"]
        return float(seconds)
    except (OSError, ValueError, KeyError, TypeError, DataError):
        # The time is then that of the others.
        return None


@attrs.define(eq=False)
class _Plans:
    planner: Planner
    memory: int | None = None
    problems: dict[str, None] = attrs.field(factory=dict)

    _stages: dict[str, list[Range | None]] = attrs.field(factory=dict, init=False)
    """Runtime, encoders and stages of a recipe -> seconds of each stage."""
    _evaluated: set[str] = attrs.field(factory=set, init=False)
    """Evaluations of encoders before training that are planned: their vectors are kept."""

    def of_work(self, work: Work) -> dict[Path, Range | None]:
        """Return run directory -> seconds of shared stages and cells."""
        planned = {}
        for prefix in work.prefixes:
            recipe = first_stages(prefix.recipe, prefix.count)
            begun = 0 if prefix.above is None else prefix.above.count
            planned[prefix.directory] = self.of_run(recipe, begun)
        for bundle in work.bundles:
            for task in bundle:
                begun = 0 if task.above is None else task.above.count
                # Of cells that share passes, the first one encodes for all.
                encodes = task is bundle[0]
                planned[task.directory] = self.of_run(task.cell.recipe, begun, encodes)
        return planned

    def of_cells_alone(self, work: Work) -> list[Range | None]:
        """Return the seconds of each cell that does all of its work itself."""
        self._evaluated.clear()
        return [self.of_run(task.cell.recipe) for task in work.tasks]

    def of_run(
        self, recipe: Recipe, begun: int = 0, encodes: bool = True
    ) -> Range | None:
        """Return the seconds of a run that goes on after `begun` stages."""
        seconds = _sum([(RUN, RUN), *self._of_stages(recipe)[begun:]])
        if seconds is None or not encodes:
            return seconds
        return _sum([seconds, *self._of_evaluations(recipe, begun)])

    def _of_stages(self, recipe: Recipe) -> list[Range | None]:
        """Return the seconds of each stage with its validations, and note the memory."""
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
            seconds.append(
                _sum([planned.seconds, *self._of_validations(recipe, stage, planned)])
            )
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
                yield _times(seconds, number_of_looks(validation.every, planned.steps))

    def _of_evaluations(self, recipe: Recipe, begun: int) -> Iterator[Range]:
        """Yield the seconds of each evaluation before and after the stages."""
        for entry in recipe.evaluate:
            name = entry.encoder or recipe.main_encoder
            for seconds in self._of_evaluation(recipe, entry, name):
                if "end" in entry.at:
                    yield seconds
                if (
                    "start" in entry.at
                    and not begun
                    and self._is_new(recipe, entry, name)
                ):
                    yield seconds

    def _of_evaluation(
        self,
        recipe: Recipe,
        entry: Evaluate | Validate | Watch,
        name: str,
    ) -> Iterator[Range]:
        """Yield the seconds of an evaluation; nothing if they are unknown, which is a problem."""
        seconds = self.planner.evaluation(recipe, entry, name)
        if isinstance(seconds, str):
            self.problems[f"evaluations with `{entry.evaluator.name}`: {seconds}"] = (
                None
            )
        else:
            yield seconds

    def _is_new(self, recipe: Recipe, entry: Evaluate, name: str) -> bool:
        """Whether no equal encoder was evaluated so before training, and note that it is now."""
        # Encoders are equal if they are of equal files or equal seeds.
        encoder = recipe.encoders[name]
        seed = None if encoder.backbone.traits.from_files else recipe.run.seed
        key = repr((encoder, entry.evaluator, recipe.runtime, seed))
        is_new = key not in self._evaluated
        self._evaluated.add(key)
        return is_new


def _in_words(seconds: Range) -> str:
    low, high = map(duration, seconds)
    if low == high:
        return low
    return f"{low} to {high}"
