"""Checks of the rows of a paper that need no training: time and memory, runs, and verdicts on their numbers."""

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
"""Maximum number of checks that a line on a missing file names."""

INCOMPLETE = 3
"""Exit code if no number was missed, but not all were measured."""


@attrs.frozen
class Check:
    """One check, with the time and memory that it needs."""

    name: str
    """Cell of the study."""
    model: str
    """Hub id or location of the weights; empty if they are random."""
    seconds: Range | None
    """Minimum and maximum seconds of encoding; None if unknown, such as before a model is downloaded."""
    memory: int | None
    """Memory in bytes of weights and encoding; None if unknown."""
    finished: bool
    lacking: str
    """Why it cannot be run on this machine; empty if no reason is known."""


@attrs.frozen
class Verdict:
    """Result of a check."""

    check: str
    outcome: str
    """`met`, `met in part`, `not met`, `not measured`, `shown only` or `not run`, with the count of numbers
    or the reason."""
    missed: bool = False
    complete: bool = True
    """Whether every published number of the check was measured."""


def find_checks(papers: Path, paper: str) -> dict[str, Path]:
    """Return name of a paper -> its file of checks. Return one paper's file, or all if `paper` is empty.

    Raises:
        RunError: if the paper has no checks.
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
        """Run the checks that can be run and have not finished; print our numbers, theirs and the verdicts."""
        failed = self._run_cells(workers, retrain, plugins, say)
        numbers = []
        if is_study(self.directory):
            names = {check.name for check in self.checks}
            for number in numbers_of(read_data(self.directory)):
                if number.cell in names:
                    numbers.append(number)

        verdicts = list(judge(self.checks, numbers, failed))
        say("")
        if numbers:
            for line in comparison(numbers):
                say(line)
        rows = [
            (f"{self.paper}: {result.check}", result.outcome) for result in verdicts
        ]
        for line in aligned(rows, left=2):
            say(line)
        return verdicts

    def _run_cells(
        self, workers: int | None, retrain: bool, plugins: Plugins, say: Say
    ) -> dict[str, str]:
        """Run the cells that can be run and have not finished; return name of a failed cell -> error."""
        runnable = set()
        for check in self.checks:
            if not check.lacking and not check.finished:
                runnable.add(check.name)

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
    """Read the checks of a paper; `only` selects some, in the form of `StudyTable.exclude`, by default all.

    Raises:
        RecipeError: with all problems of the file, except for what is missing on this machine.
    """
    study = read_study(file, overrides, plugins, only=())
    selected = study
    if only:
        # `only` selects no excluded cells.
        selected = attrs.evolve(study.only(only), excluded=())
    directory = parent / study.name
    work = plan_work(selected.cells, CellKeys(plugins))
    checks = _read_checks(selected, work, directory)
    without_remarks = attrs.evolve(study, remarks=())
    return Verification(paper, without_remarks, directory, tuple(checks))


def _read_checks(study: Study, work: Work, directory: Path) -> list[Check]:
    """Return the checks of a study that was read with `only=()`, so that its remarks say what is missing.

    An excluded cell, whose parts do not fit together, is a check that cannot be run.
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

    # The order of `work` depends on what is shared.
    checks.sort(key=lambda check: study.names.index(check.name))
    for excluded in study.excluded:
        checks.append(
            Check(excluded.name, "", None, None, False, "; ".join(excluded.reasons))
        )
    return checks


def missing_lines(checks: Mapping[str, Sequence[Check]]) -> Iterator[str]:
    """Yield a line for each missing file or library, with the checks that cannot be run without it."""
    lacking: dict[str, list[str]] = {}
    for paper, of_paper in checks.items():
        for check in of_paper:
            if check.lacking and not check.finished:
                lacking.setdefault(check.lacking, []).append(f"{paper}: {check.name}")
    for reason, names in lacking.items():
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        yield f"missing here: {'; '.join(names[:SHOWN])}{more}: {reason}"


def check_table(checks: Mapping[str, Sequence[Check]]) -> Iterator[str]:
    """Yield the lines of a table of the checks of each paper: model, time, memory, and whether it can be run."""
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
    """Yield the result of each check; `failed` has the error of each failed run, by the name of its check."""
    for check in checks:
        of_check = [number for number in numbers if number.cell == check.name]
        if of_check:
            yield _judge_numbers(check.name, of_check)
            continue
        reason = failed.get(check.name) or check.lacking or "it has not been run"
        outcome = f"not run: {' '.join(reason.split())}"
        yield Verdict(check.name, outcome, complete=False)


def _judge_numbers(name: str, numbers: Sequence[Number]) -> Verdict:
    """Return the result of a check by its published numbers."""
    verdicts = Counter(map(verdict, numbers))
    within = verdicts[WITHIN]
    decided = within + verdicts[NOT_WITHIN]
    # A number whose key fits several scores is not measured either.
    not_measured = len([number for number in numbers if number.row.found is None])
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
    return Verdict(name, f"{outcome}: {counted}", missed, complete=not_measured == 0)


def exit_code(verdicts: Sequence[Verdict]) -> int:
    """Return 1 if a number was missed, `INCOMPLETE` if one was not measured, and 0 otherwise."""
    if any(verdict.missed for verdict in verdicts):
        return 1
    if all(verdict.complete for verdict in verdicts):
        return 0
    return INCOMPLETE
