"""What a study is to run: its plan as text, the time it takes, and how many cells at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from sentbed.helpers import physical_memory, usable_cores
from sentbed.tools import unstructure
from sentbed_common import core_quota, memory_limit
from sentbed_report.formatting import count
from sentbed_report.study.decisions import read_decisions
from sentbed_report.study_page.decisions_section import outcome

from sentbed_studies.axes import labels_that_are_equal
from sentbed_studies.confirmation import Confirmation
from sentbed_studies.other_keys import kept_lines
from sentbed_studies.sampled_cells import runs_of
from sentbed_studies.shared_work_plan import Task, Work
from sentbed_studies.study import Remark, Study
from sentbed_studies.time_left import START, TimeLeft, said, said_of_whole, time_left
from sentbed_studies.write_study_directory import is_finished, needed

MEMORY_SHARE = 0.8
"""Share of the memory that cells at a time may fill."""
SHOWN = 3
"""Cells named of a remark."""


def time_of(
    work: Work,
    directory: Path,
    workers: int | None,
    choose_workers: bool = True,
    runs: int | None = None,
    confirmation: Confirmation | None = None,
) -> TimeLeft:
    """Return the time that work takes with so many workers.

    If they are not given, there are as many as `workers_for` it, or one without `choose_workers`. `runs` is
    the number of runs, where a sampler takes only some of them. `confirmation` comes after them.
    """
    left = time_left(work, directory)
    if runs is not None and runs < len(work.tasks):
        left.sample(runs)
    if confirmation is not None:
        left.confirm(confirmation.runs)
        if confirmation.left is not None:
            left.chosen(confirmation.left)
    left.workers = workers or (workers_for(work, left) if choose_workers else 1)
    return left


def workers_for(work: Work, left: TimeLeft) -> int:
    """Return how many cells to run at a time on this machine: what its cores and its memory are enough for.

    One, where a cell may use all cores or a GPU, where its memory is not known, and where loading the
    libraries of more workers would take longer than the runs.
    """
    threads = _threads(work)
    seconds, memory = left.seconds(), memory_limit() or physical_memory()
    if threads is None or not left.memory or memory is None:
        return 1
    if seconds is None or seconds[1] < 3 * START:
        return 1
    room = int(MEMORY_SHARE * memory // left.memory)
    return max(1, min(_cores() // threads, room, len(work.bundles)))


def _threads(work: Work) -> int | None:
    """Return the threads of the cell that has most, or None if the number is open or there is none."""
    found = {unstructure(task.cell.recipe.runtime).get("threads") for task in work.tasks}
    return None if None in found or not found else int(max(found))


def _cores() -> int:
    return min(usable_cores(), math.ceil(core_quota() or usable_cores()))


def plan_lines(
    found: Study,
    work: Work,
    directory: Path,
    left: TimeLeft,
    needless: Sequence[Task] = (),
    confirmation: Confirmation | None = None,
) -> Iterator[str]:
    """Yield a readable summary of the work to do.

    `needless` are the runs of it that stopping leaves out, `confirmation` those that follow it.
    """
    unfinished = [task for task in work.tasks if not task.is_done(directory)]
    done = len(work.tasks) - len(unfinished)
    lacking = sum(is_finished(directory / task.directory) for task in unfinished)
    cells = len({task.cell.name for task in work.tasks})
    sampling, runs = found.table.sampler, runs_of(found, work)
    some = "" if sampling is None else f"{sampling.cells:,} of "
    fresh = ""
    if confirmation is not None:
        done += confirmation.runs - confirmation.number_left
        runs += confirmation.runs
        fresh = f" + {count(confirmation.runs, 'run')} of the chosen cell"
    sizes = f"{some}{count(cells, 'cell')} x {count(len(found.seeds), 'seed')}{fresh} = {count(runs, 'run')}"
    skipped = f", {len(needless):,} not needed" if needless else ""
    later = f", {lacking:,} trained that lack evaluations" if lacking else ""
    yield f"study {found.name}: {sizes}, {done} finished{later}{skipped}"
    if sampling is not None:
        by = f"sampled by {sampling.with_.name}, seed {sampling.seed}"
        batch = f", {count(sampling.batch, 'cell')} at a time with seed {found.seeds[0]}"
        yield f"  cells: {by}{batch if sampling.with_.learns else ''}"
    for axis in found.axes:
        yield f"  {axis.name}: {', '.join(axis.labels)}"
    reasons: dict[str, list[str]] = {}
    for one in found.excluded:
        reasons.setdefault(" ".join(one.reasons), []).append(one.name)
    for reason, names in reasons.items():
        yield f"  left out: {'; '.join(names)}: {reason}"
    for message in labels_that_are_equal(found.axes):
        yield f"  remark: {message}"
    for remark in found.remarks:
        yield f"  not here, and not asked for now: {listed(remark)}"
    if (stop := found.table.stop) is not None:
        looks = f"after {stop.first_look} to {len(found.seeds)} seeds"
        yield (
            f"  stops: what is shown to be worse than the {stop.worse_than} by more than {stop.margin:g}, "
            f"{looks}; error rate of the study {stop.error_rate:g}"
        )
    if confirmation is not None:
        yield f"  confirms: {_said_of(confirmation)}"
    if needless and (decisions := read_decisions(directory)) is not None:
        yield f"  decided: {outcome(decisions)}"
    work = work.without(needless)
    for line in kept_lines(work, directory):
        yield f"  {line}"
    most = "" if sampling is None else "at most "
    for prefix in needed(directory, work):
        yield f"  shared: {prefix}, trained once for {most}{count(work.sharing(prefix), 'run')}"
    for bundle in work.bundles:
        if len(bundle) > 1:
            yield f"  shared: one pass of the backbone for {most}{len(bundle)} runs: {bundle[0]} and others"
    for problem in left.problems:
        yield f"  not in the estimate: {problem}"
    if (whole := said_of_whole(left)) is not None:
        yield f"  all runs, one after the other: {'more than ' if left.problems else ''}{whole}"
    if left.seconds() is None:
        yield "  time left: unknown"
    elif (time := said(left)) is not None:
        least = "more than " if left.problems else ""
        yield f"  time left: {least}{time} on this machine, {count(left.workers, 'cell')} at a time"
        threads, cores = _threads(work), _cores()
        if threads is not None and 2 * threads * left.workers <= cores:
            idle, more = cores - threads * left.workers, cores // left.workers
            yield (
                f"  {idle} of {cores} cores stay idle; `--set study.threads={more}` lets cells use them, "
                "under keys of their own"
            )


def _said_of(confirmation: Confirmation) -> str:
    """Return what a study does with fresh seeds, and how that is estimated."""
    seeds = count(confirmation.runs, "fresh seed")
    runs = f"{count(confirmation.number_left, 'run')} of a mean cell"
    if confirmation.left is None:
        return (
            f"the chosen cell is run with {seeds} after all others; which one that is is not known yet, and "
            f"the estimate counts {runs}"
        )
    if not confirmation.left:
        return f"the chosen cell, {confirmation.cell}, was run with {seeds}"
    return f"the chosen cell, {confirmation.cell}, is run with {seeds}; the estimate counts {runs}"


def listed(remark: Remark) -> str:
    """Return a remark with the first cells that it is on."""
    more = " and others" if len(remark.cells) > SHOWN else ""
    return f"{'; '.join(remark.cells[:SHOWN])}{more}: {remark.message}"
