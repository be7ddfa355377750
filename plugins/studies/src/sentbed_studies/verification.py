"""The rows of a paper that need no training: what they take, and whether published numbers are met."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import attrs
from sentbed.errors import RunError
from sentbed.tools import Plugins
from sentbed_jobs.pool_loop import Say
from sentbed_report.formatting import count, duration
from sentbed_report.study.published_number_comparison import Number
from sentbed_report.study.read_study_directory import is_study, read_data
from sentbed_report.tables.terminal import aligned
from sentbed_workbench.resource_plan import Planner

from sentbed_studies.cell_keys import CellKeys
from sentbed_studies.paper_recipe_files import CHECKS
from sentbed_studies.published_number_verdicts import (
    CONTRADICTED,
    NOT_WITHIN,
    WITHIN,
    comparison,
    numbers_of,
    verdict,
)
from sentbed_studies.shared_work_plan import Task, Work, plan_work
from sentbed_studies.study import Entries, Study, read_study
from sentbed_studies.study_command import run_plan
from sentbed_studies.study_plan import plan_study
from sentbed_studies.study_reports import write_reports
from sentbed_studies.time_left import Range, time_left

SHOWN = 3
"""Checks named of what is missing."""

INCOMPLETE = 3
"""Exit code where no number was missed, and not all were measured."""


@attrs.frozen
class Check:
    """One check: what it takes, before it is run."""

    name: str
    """Cell of the study."""
    model: str
    """Hub id or location of the weights; empty if they are random."""
    seconds: Range | None
    """Minimum and maximum seconds of encoding; None if unknown, as of a model that is not here yet."""
    memory: int | None
    """Memory in bytes of weights and encoding; None if unknown."""
    finished: bool
    lacking: str
    """What is missing on this machine; empty if nothing is known to be."""


@attrs.frozen
class Verdict:
    """What a check has shown."""

    check: str
    outcome: str
    """`met`, `met in part`, `not met`, `not measured`, `shown only` or `not run`, with the count or the
    reason."""
    missed: bool = False
    complete: bool = True
    """Whether every published number of the check was measured."""


def find_checks(papers: Path, paper: str) -> dict[str, Path]:
    """Return the file of checks of a paper, or with an empty name of every paper that has one.

    Raises:
        RunError: if the paper has none.
    """
    files = {file.parent.name: file for file in sorted(papers.glob(f"*/{CHECKS}"))}
    if not paper:
        return files
    if paper not in files:
        having = ", ".join(f"`{name}`" for name in files) or "no paper"
        raise RunError(
            f"there is no `{CHECKS}` of `{paper}` in `{papers}`; {having} has one"
        )
    return {paper: files[paper]}


@attrs.frozen(eq=False)
class Verification:
    """The checks of a paper: the cells of a study, in a directory of its own."""

    paper: str
    study: Study
    directory: Path
    checks: tuple[Check, ...]

    def run(
        self, workers: int | None, retrain: bool, plugins: Plugins, say: Say
    ) -> list[Verdict]:
        """Run the checks that can be run and have not finished; say ours, theirs and the verdicts."""
        failed = self._run_cells(workers, retrain, plugins, say)
        numbers: tuple[Number, ...] = ()
        if is_study(self.directory):
            names = {check.name for check in self.checks}
            of_study = numbers_of(read_data(self.directory))
            numbers = tuple(number for number in of_study if number.cell in names)

        verdicts = list(judge(self.checks, numbers, failed))
        say("")
        if numbers:
            for line in comparison(numbers):
                say(line)
        rows = [
            (f"{self.paper}: {verdict.check}", verdict.outcome) for verdict in verdicts
        ]
        for line in aligned(rows, left=2):
            say(line)
        return verdicts

    def _run_cells(
        self, workers: int | None, retrain: bool, plugins: Plugins, say: Say
    ) -> dict[str, str]:
        """Run cells, and return the errors of those that failed, by name."""
        runnable = {
            check.name
            for check in self.checks
            if not check.lacking and not check.finished
        }
        only = [cell.labels for cell in self.study.cells if cell.name in runnable]
        if not only:
            return {}
        plan = plan_study(
            self.study, self.directory, plugins, only=only, workers=workers
        )
        result = run_plan(plan, plugins, only=only, keep_going=True, retrain=retrain)
        say(str(write_reports(self.directory)))
        errors = {}
        for outcome in result.failed:
            if isinstance(outcome.job.run, Task):
                errors[outcome.job.run.cell.name] = outcome.error
        return errors


def read_verification(
    paper: str,
    file: Path,
    parent: Path,
    overrides: Sequence[str],
    only: Entries,
    plugins: Plugins,
) -> Verification:
    """Read the checks of a paper; `only` selects some, as `StudyTable.exclude` does, and empty is all.

    Raises:
        RecipeError: with all problems of the file, but for what is missing on this machine.
    """
    study = read_study(file, overrides, plugins, only=())
    selected = study
    if only:
        # Of a combination that cannot work only the name is known, and not whether it was asked for.
        selected = attrs.evolve(study.only(only), excluded=())
    directory = parent / study.name
    checks = _read_checks(
        selected, plan_work(selected.cells, CellKeys(plugins)), directory
    )
    return Verification(
        paper, attrs.evolve(study, remarks=()), directory, tuple(checks)
    )


def _read_checks(study: Study, work: Work, directory: Path) -> list[Check]:
    """Return the checks of a study, which was read with `only=()`: what it misses here is in its remarks.

    A cell whose parts do not go together is a check, too, that cannot be run.
    """
    planner = Planner()
    lacking: dict[str, list[str]] = {}
    for remark in study.remarks:
        for cell in remark.cells:
            lacking.setdefault(cell, []).append(remark.message)
    checks = []
    for task in work.tasks:
        left = time_left(work.of([task.cell]), directory, planner)
        seconds = None
        if not left.problems and left.memory:
            seconds = left.alone
        recipe = task.cell.recipe
        checks.append(
            Check(
                name=task.cell.name,
                model=recipe.encoders[recipe.main_encoder].backbone.traits.model or "",
                seconds=seconds,
                memory=left.memory or None,
                finished=task.is_done(directory),
                lacking="; ".join(lacking.get(task.cell.name, ())),
            )
        )
    # Work is in the order in which it is shared.
    checks.sort(key=lambda check: study.names.index(check.name))
    for excluded in study.excluded:
        checks.append(
            Check(excluded.name, "", None, None, False, "; ".join(excluded.reasons))
        )
    return checks


def missing_lines(checks: Mapping[str, Sequence[Check]]) -> Iterator[str]:
    """Yield what is missing on this machine, each with the checks that cannot be run without it."""
    lacking: dict[str, list[str]] = {}
    for paper, of_paper in checks.items():
        for check in of_paper:
            if check.lacking and not check.finished:
                lacking.setdefault(check.lacking, []).append(f"{paper}: {check.name}")
    for reason, names in lacking.items():
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        yield f"missing here: {'; '.join(names[:SHOWN])}{more}: {reason}"


def check_table(checks: Mapping[str, Sequence[Check]]) -> Iterator[str]:
    """Yield the lines of a table of the checks of each paper: model, time, memory, and what is missing."""
    rows = [("check", "model", "encoding", "memory", "")]
    for paper, of_paper in checks.items():
        for check in of_paper:
            state = "to run"
            if check.finished:
                state = "finished"
            elif check.lacking:
                state = f"cannot run: {check.lacking}"
            time = memory = "unknown"
            if check.seconds is not None:
                time = " to ".join(map(duration, check.seconds))
            if check.memory is not None:
                memory = f"{check.memory / 1e9:.1f} GB"
            rows.append((f"{paper}: {check.name}", check.model, time, memory, state))
    yield from aligned(rows, left=2)


def judge(
    checks: Sequence[Check], numbers: Sequence[Number], failed: Mapping[str, str]
) -> Iterator[Verdict]:
    """Yield what each check has shown; `failed` has the error of those that could not be run."""
    for check in checks:
        of_check = [number for number in numbers if number.cell == check.name]
        if not of_check:
            reason = failed.get(check.name) or check.lacking or "it has not been run"
            yield Verdict(
                check.name, f"not run: {' '.join(reason.split())}", complete=False
            )
            continue
        yield _judge_numbers(check.name, of_check)


def _judge_numbers(name: str, numbers: Sequence[Number]) -> Verdict:
    verdicts = Counter(verdict(number) for number in numbers)
    within = verdicts[WITHIN]
    decided = within + verdicts[NOT_WITHIN]
    # Of a key that fits several scores, none of them is the number's.
    not_measured = sum(number.row.found is None for number in numbers)
    counted = f"{within} of {count(decided, 'number')} within"
    if not_measured:
        counted += f", {not_measured} not measured"
    if verdicts[CONTRADICTED]:
        counted += f", {verdicts[CONTRADICTED]} contradicted"
    missed = within < decided
    if missed:
        outcome = "not met"
    elif not decided:
        outcome = "not measured" if not_measured else "shown only"
    else:
        outcome = "met in part" if not_measured else "met"
    return Verdict(
        name, f"{outcome}: {counted}", missed=missed, complete=not not_measured
    )


def exit_code(verdicts: Sequence[Verdict]) -> int:
    """Return 1 if a number was missed, `INCOMPLETE` if one was not measured, and 0 otherwise."""
    if any(verdict.missed for verdict in verdicts):
        return 1
    if all(verdict.complete for verdict in verdicts):
        return 0
    return INCOMPLETE
