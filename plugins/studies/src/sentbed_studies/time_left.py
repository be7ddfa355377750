"""Estimate of the time that a study has left, which runs correct as they finish."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import attrs
from sentbed.errors import DataError, SentbedError
from sentbed.helpers import read_json
from sentbed.tools import Evaluate, Recipe, Stage, Validate, Watch, first_stages
from sentbed_report.run_cost import recorded_cost
from sentbed_workbench.resource_plan import Planner, StagePlan, number_of_looks

from sentbed_studies.added_evaluations import without_encoder
from sentbed_studies.shared_work_plan import Prefix, Work
from sentbed_studies.write_study_directory import is_finished, needed

Range: TypeAlias = tuple[float, float]

START = 6.0
"""Seconds in which a worker loads its libraries, about."""
RUN = 1.0
"""Seconds in which a run builds its encoder, saves it and writes its report, about."""
RECORD = "report.json"
"""Record of a run, which has its `seconds`."""


@attrs.define(eq=False)
class TimeLeft:
    """Time that the runs of a study take, as planned and as found."""

    planned: dict[Path, Range | None]
    """Run directory -> minimum and maximum seconds; None if unknown."""
    workers: int = 1
    problems: tuple[str, ...] = ()
    """Parts that the plan leaves out, with the reasons."""
    unusable: tuple[str, ...] = ()
    """What is wrong with data, so that runs of the study would fail."""
    memory: int | None = None
    """Largest memory of a run in bytes; None if unknown."""
    found: dict[Path, float] = attrs.field(factory=dict)
    """Run directory -> seconds that the run took."""
    whole: Range | None = None
    """Seconds of all runs of the study, finished or not, added up; None if unknown."""
    alone: Range | None = None
    """The same if every cell did all of its work itself."""
    cells: frozenset[Path] = frozenset()
    """Runs of `planned` that are of cells, and no stages that cells share."""
    runs: int | None = None
    """Number of these still to do, where a sampler chooses some of the cells; None for all of them."""
    mean_cell: Range | None = None
    """Seconds of a run of a cell that shares no work, as the mean over the cells; None if unknown."""
    fresh: int = 0
    """Number of runs with fresh seeds of the chosen cell, finished or not."""
    fresh_unchosen: int = 0
    """Number of these that are still to do, as long as the cell is not known; each takes `mean_cell`."""

    first: list[Path] = attrs.field(factory=list, init=False)
    """Runs in which a worker has loaded its libraries: as many of the first ones as there are workers."""

    def finished(self, run: Path, seconds: float) -> None:
        """Note that a run has finished."""
        self._count(run)
        self.found[run] = seconds
        if len(self.first) < self.workers:
            self.first.append(run)

    def ended(self, run: Path) -> None:
        """Note that a run has ended in another way, which says nothing on the others."""
        self._count(run)
        if run not in self.found:
            self.planned.pop(run, None)

    def confirm(self, runs: int) -> None:
        """Note that the chosen cell, which is not known yet, will be run with so many fresh seeds."""
        self.fresh = self.fresh_unchosen = runs

    def chosen(self, runs: Sequence[Path]) -> None:
        """Note the fresh seeds' runs still to do: the cell is known, and all other runs have ended."""
        ended = {run: seconds for run, seconds in self.planned.items() if run in self.found}
        self.planned = ended | dict.fromkeys(runs, self.mean_cell)
        self.runs = None
        self.fresh_unchosen = 0

    def sample(self, runs: int) -> None:
        """Note that only so many runs of cells will take place, with those that have finished."""
        share = runs / max(1, len(self.cells))
        self.runs = max(0, runs - len(self.found.keys() & self.cells))
        self.whole, self.alone = (
            None if one is None else (share * one[0], share * one[1]) for one in (self.whole, self.alone)
        )

    def _count(self, run: Path) -> None:
        """Count a run that has ended, once."""
        if self.runs is not None and run in self.cells and run in self.planned and run not in self.found:
            self.runs = max(0, self.runs - 1)

    def of(self, run: Path) -> Range | None:
        """Return the minimum and maximum seconds of a run, or None if unknown.

        Where runs have finished, both are what the plan says, scaled as these need it, or, for a run without
        a plan, their mean. The first run of a worker counts only while no other has finished, less its start.
        """
        return self._corrected(self.planned.get(run))

    def _corrected(self, planned: Range | None) -> Range | None:
        if not self.found:
            return planned
        scale = self._scale()
        if planned is None or scale is None:
            later = self._later()
            mean = sum(later.values()) / len(later)
            return mean, mean
        return scale * _middle(planned), scale * _middle(planned)

    def of_all(self, alone: bool = False) -> Range | None:
        """Return the minimum and maximum seconds of all runs of the study, one after the other.

        It is corrected by the finished runs as `of` is, so that it is never less than what is left of it.
        With `alone`, every cell does all of its work itself. None if it is unknown.
        """
        planned = self.alone if alone else self.whole
        if planned is None:
            return None
        if self.fresh:
            if self.mean_cell is None:
                return None
            planned = (
                planned[0] + self.fresh * self.mean_cell[0],
                planned[1] + self.fresh * self.mean_cell[1],
            )
        scale = self._scale() if self.found else None
        if scale is not None:
            planned = (scale * _middle(planned), scale * _middle(planned))
        start = START if planned[1] else 0.0
        return start + planned[0], start + planned[1]

    def _later(self) -> Mapping[Path, float]:
        """Return the finished runs that count: those after the first of a worker, if there are any."""
        return {run: took for run, took in self.found.items() if run not in self.first} or self.found

    def _scale(self) -> float | None:
        """Return how much longer the finished runs took than was planned; None if none of them was."""
        took_in_all = planned_in_all = 0.0
        for run, took in self._later().items():
            planned = self.planned.get(run)
            if planned is not None:
                took_in_all += self._without_start(run, took)
                planned_in_all += _middle(planned)
        return took_in_all / planned_in_all if planned_in_all else None

    def _without_start(self, run: Path, took: float) -> float:
        """Return the seconds of a run less its worker's start, but not below the plan if it was above."""
        planned = self.planned.get(run)
        if run not in self.first or planned is None:
            return took
        # Libraries may be loaded already, or faster: a start is no reason to expect less than the plan says.
        return max(took - START, min(took, planned[0]))

    def seconds(self) -> Range | None:
        """Return the minimum and maximum seconds left for all runs and workers, or None if unknown."""
        waiting = [run for run in self.planned if run not in self.found]
        ranges = [self.of(run) for run in waiting]
        known = [one for one in ranges if one is not None]
        if len(known) < len(ranges):
            return None
        # Of sampled cells it is not known which: each counts as the mean of those that are left.
        cells = len(self.cells.intersection(waiting))
        part = 1.0 if self.runs is None else min(1.0, self.runs / max(1, cells))
        low, high = (
            part * sum(one[side] for one in known) / max(1, min(self.workers, len(known))) for side in (0, 1)
        )
        if self.fresh_unchosen:
            # They come after all others.
            each = self._corrected(self.mean_cell)
            if each is None:
                return None
            times = self.fresh_unchosen / max(1, min(self.workers, self.fresh_unchosen))
            low, high = low + times * each[0], high + times * each[1]
        is_to_start = (known and part) or self.fresh_unchosen
        start = START if is_to_start and not self.found else 0.0
        return start + low, start + high


def time_left(work: Work, directory: Path, planner: Planner | None = None) -> TimeLeft:
    """Return the time that the work of a study takes; what has finished in `directory` corrects it."""
    plans = _Plans(planner or Planner())
    jobs: list[tuple[Path, Recipe, Prefix | None]] = [
        *((p.directory, first_stages(p.recipe, p.count), p.above) for p in work.prefixes),
        *((task.directory, task.cell.recipe, task.above) for task in work.tasks),
    ]
    shared = {task.directory for bundle in work.bundles for task in bundle[1:]}
    # Of cells that share passes, the first one encodes for all.
    every = {
        place: plans.run(recipe, 0 if above is None else above.count, place not in shared)
        for place, recipe, above in jobs
    }
    apart = attrs.evolve(plans, evaluated=set())
    alone = [apart.run(task.cell.recipe, 0, True) for task in work.tasks]
    done = {p.directory for p in work.prefixes} - {p.directory for p in needed(directory, work)}
    planned = {place: seconds for place, seconds in every.items() if place not in done}
    lost = without_encoder(directory, work)
    for task in work.tasks:
        if not is_finished(directory / task.directory):
            continue
        missing = task.missing(directory)
        if not missing:
            continue
        # It has a time to come, whatever it took before.
        done.add(task.directory)
        if task not in lost:
            # What it lacks is computed from the encoder that it has kept.
            entries = tuple(evaluation.entry for evaluation in missing)
            evaluated = attrs.evolve(task.cell.recipe, stage=(), evaluate=entries)
            planned[task.directory] = plans.run(evaluated, 0, True)
    found = {
        place: took
        for place in planned
        if place not in done
        and is_finished(directory / place)
        and (took := _took(directory / place)) is not None
    }
    return TimeLeft(
        planned,
        mean_cell=_mean(alone),
        problems=tuple(plans.problems),
        unusable=tuple(plans.planner.unusable),
        memory=plans.memory,
        found=found,
        cells=frozenset(task.directory for task in work.tasks),
        whole=_sum(every.values()),
        alone=_sum(alone),
    )


def _sum(ranges: Iterable[Range | None]) -> Range | None:
    """Return the sums of minima and maxima; None if one is unknown."""
    low = high = 0.0
    for one in ranges:
        if one is None:
            return None
        low, high = low + one[0], high + one[1]
    return low, high


def _mean(ranges: Sequence[Range | None]) -> Range | None:
    """Return the means of minima and maxima; None if one is unknown, or there is none."""
    total = _sum(ranges)
    if total is None or not ranges:
        return None
    return total[0] / len(ranges), total[1] / len(ranges)


def _middle(planned: Range) -> float:
    return (planned[0] + planned[1]) / 2


def _took(run: Path) -> float | None:
    try:
        record = read_json(run / RECORD)
        cost = recorded_cost(record)
        # The seconds of a run that goes on from shared stages are with theirs.
        return float(record["seconds"] if cost is None or cost.own.seconds is None else cost.own.seconds)
    except (OSError, ValueError, KeyError, TypeError, DataError):
        # A run is not lost with its record; the time is then that of the others.
        return None


@attrs.define(eq=False)
class _Plans:
    planner: Planner
    memory: int | None = None
    problems: dict[str, None] = attrs.field(factory=dict)
    known: dict[str, tuple[Range | None, ...]] = attrs.field(factory=dict)
    evaluated: set[str] = attrs.field(factory=set)

    def run(self, recipe: Recipe, begun: int, encodes: bool) -> Range | None:
        """Return the seconds of a run that goes on after `begun` stages."""
        key = repr((recipe.runtime, recipe.encoders, recipe.stage))
        if key not in self.known:
            self.known[key] = tuple(self._stages(recipe))
        low = high = RUN
        for seconds in self.known[key][begun:]:
            if seconds is None:
                return None
            low, high = low + seconds[0], high + seconds[1]
        for seconds in self._evaluations(recipe, begun) if encodes else ():
            low, high = low + seconds[0], high + seconds[1]
        return low, high

    def _stages(self, recipe: Recipe) -> Iterator[Range | None]:
        """Yield the seconds of each stage with its validations, and note the memory."""
        try:
            plan = self.planner.plan(recipe)
        except SentbedError as error:
            self.problems[str(error)] = None
            yield from (None for _ in recipe.stage)
            return
        self.memory = max(
            (self.memory or 0, sum(plan.encoding.values()), *(s.peak or 0 for s in plan.stages))
        )
        for stage, planned in zip(recipe.stage, plan.stages, strict=True):
            self.problems |= dict.fromkeys(planned.problems)
            yield (
                None if planned.seconds is None else self._with_looks(recipe, stage, planned, planned.seconds)
            )

    def _with_looks(self, recipe: Recipe, stage: Stage, planned: StagePlan, seconds: Range) -> Range:
        low, high = seconds
        for look in (stage.validate, *stage.watch):
            if look is not None and planned.steps is not None:
                name = look.encoder or recipe.trained(stage)[0]
                if (once := self._evaluation(recipe, look, name)) is None:
                    continue
                times = number_of_looks(look.every, planned.steps)
                low, high = low + times * once[0], high + times * once[1]
        return low, high

    def _evaluation(self, recipe: Recipe, entry: Evaluate | Validate | Watch, name: str) -> Range | None:
        seconds = self.planner.evaluation(recipe, entry, name)
        if isinstance(seconds, str):
            self.problems[f"evaluations with `{entry.with_.name}`: {seconds}"] = None
            return None
        return seconds

    def _evaluations(self, recipe: Recipe, begun: int) -> Iterator[Range]:
        """Yield the seconds of each evaluation before and after the stages."""
        for entry in recipe.evaluate:
            name = entry.encoder or recipe.main_encoder
            if (seconds := self._evaluation(recipe, entry, name)) is None:
                continue
            if "end" in entry.at:
                yield seconds
            if "start" in entry.at and not begun:
                # Vectors of equal encoders are kept, and are those of equal files or equal seeds.
                encoder = recipe.encoders[name]
                seed = None if encoder.backbone.traits.from_files else recipe.run.seed
                key = repr((encoder, entry.with_, recipe.runtime, seed))
                if key not in self.evaluated:
                    self.evaluated.add(key)
                    yield seconds


def said(left: TimeLeft) -> str | None:
    """Return the time left in words, or None if it is unknown or nothing is left."""
    seconds = left.seconds()
    return None if seconds is None or not seconds[1] else _words(seconds)


def said_of_whole(left: TimeLeft) -> str | None:
    """Return what the whole study takes and what sharing saves of it, in words; None if either is unknown."""
    from sentbed_report.formatting import share

    whole, alone = left.of_all(), left.of_all(alone=True)
    if whole is None or alone is None:
        return None
    saved = 1 - _middle(whole) / _middle(alone) if alone[1] else 0.0
    less = f"; {_words(alone)} without sharing, which saves {share(saved)}" if saved > 0 else ""
    return f"{_words(whole)}{less}"


def _words(seconds: Range) -> str:
    from sentbed_report.formatting import duration

    low, high = map(duration, seconds)
    return low if low == high else f"{low} to {high}"
