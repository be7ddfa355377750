"""Verification of papers' numbers that need no training: `sentbed reproduce --verify`.

Each row of a paper's table that needs no training is a check. The checks of a paper are the cells of a study.
"""

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
"""Maximum number of checks that a line on a missing file names; of the others, it has the number."""

INCOMPLETE = 3
"""Exit code if every measured number was reproduced, but not every number was measured."""


@attrs.frozen
class Check:
    """One check, with the time and memory that it needs."""

    name: str
    """Name of the cell in the study."""
    model: str
    """Hub id or location of the weights; empty if they are random."""
    seconds: Range | None
    """Minimum and maximum seconds of encoding; None if unknown, such as before a model is downloaded."""
    memory: int | None
    """Bytes of memory for weights and encoding; None if unknown."""
    finished: bool
    lacking: str
    """Why the check cannot be run on this machine; empty if no reason is known."""


@attrs.frozen
class Verdict:
    """Result of a check."""

    check: str
    """Name of the check."""
    outcome: str
    """`met`, `met in part`, `not met`, `not measured`, `shown only` or `not run`, with counts of numbers or the
    reason."""
    missed: bool = False
    """Whether a number was measured but not reproduced."""
    complete: bool = True
    """Whether every published number of the check was measured."""


def find_checks(papers: Path, paper: str) -> dict[str, Path]:
    """Return name of a paper -> recipe of its checks, for one paper, or for all papers if `paper` is empty.

    Raises:
        RunError: if the paper has no checks.
    """
    files = {}
    for file in sorted(papers.glob(f"*/{CHECKS}")):
        files[file.parent.name] = file
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
    """The checks of a paper: the cells of a study, with the directory of the study."""

    paper: str
    study: Study
    directory: Path
    checks: tuple[Check, ...]

    def run(
        self,
        workers: int | None,
        retrain: bool,
        plugins: Plugins,
        say: Say,
    ) -> list[Verdict]:
        """Run the checks that can be run and have not finished; return the verdicts on all checks.

        The measured and published numbers and the verdicts are printed with `say`.
        """
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

        rows = []
        for result in verdicts:
            rows.append((f"{self.paper}: {result.check}", result.outcome))
        for line in aligned(rows, left=2):
            say(line)
        return verdicts

    def _run_cells(
        self,
        workers: int | None,
        retrain: bool,
        plugins: Plugins,
        say: Say,
    ) -> dict[str, str]:
        """Run the checks that can be run and have not finished; return name of a failed check -> error."""
        to_run = set()
        for check in self.checks:
            if not check.lacking and not check.finished:
                to_run.add(check.name)

        only = [cell.labels for cell in self.study.cells if cell.name in to_run]
        if not only:
            return {}

        plan = plan_study(
            self.study, self.directory, plugins, only=only, workers=workers
        )
        result = run_plan(
            plan,
            plugins,
            only=only,
            keep_going=True,
            retrain=retrain,
        )
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
    """Read the checks of a paper.

    Args:
        paper: Name of the paper.
        file: Recipe of its checks.
        parent: Directory in which the directory of the study is.
        overrides: `PATH=VALUE`, applied to every check.
        only: Checks to select, in the form of `StudyTable.exclude`; by default all.
        plugins: Installed plugins.

    Raises:
        RecipeError: with all problems of the recipe; files that are missing on this machine are no problem.
    """
    # With `only=()`, files that are missing are remarks.
    study = read_study(file, overrides, plugins, only=())
    selected = study.only(only) if only else study
    directory = parent / study.name
    # Of all checks, since a check that is not selected keeps its run.
    work = plan_work(study.cells, CellKeys(plugins), study=directory)
    checks = _read_checks(selected, work.of(selected.cells), directory)
    without_remarks = attrs.evolve(study, remarks=())
    return Verification(paper, without_remarks, directory, tuple(checks))


def _read_checks(
    study: Study,
    work: Work,
    directory: Path,
) -> list[Check]:
    """Return the checks of a study. The remarks of the study must tell what is missing on this machine.

    An excluded cell is a check that cannot be run.
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

    # Runs that share forward passes are next to each other in `work`: the order of the study is restored.
    checks.sort(key=lambda check: study.names.index(check.name))
    for excluded in study.excluded:
        reasons = "; ".join(excluded.reasons)
        checks.append(Check(excluded.name, "", None, None, False, reasons))
    return checks


def missing_lines(checks: Mapping[str, Sequence[Check]]) -> Iterator[str]:
    """Yield a line for each missing file or library, with the checks that cannot be run without it."""
    lacking: dict[str, list[str]] = {}
    for paper, of_paper in checks.items():
        for check in of_paper:
            if check.lacking and not check.finished:
                lacking.setdefault(check.lacking, []).append(f"{paper}: {check.name}")

    for reason, names in lacking.items():
        shown = "; ".join(names[:SHOWN])
        if len(names) > SHOWN:
            shown += f" and {len(names) - SHOWN} more"
        yield f"missing here: {shown}: {reason}"


def check_table(checks: Mapping[str, Sequence[Check]]) -> Iterator[str]:
    """Yield the lines of a table of checks: model, time, memory, and whether the check can be run.

    `checks` maps the name of a paper to its checks.
    """
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
    checks: Sequence[Check],
    numbers: Sequence[Number],
    failed: Mapping[str, str],
) -> Iterator[Verdict]:
    """Yield the verdict on each check; `failed` maps the name of a failed check to its error."""
    for check in checks:
        of_check = [number for number in numbers if number.cell == check.name]
        if of_check:
            yield _judge_numbers(check.name, of_check)
            continue
        reason = failed.get(check.name) or check.lacking or "it has not been run"
        outcome = f"not run: {' '.join(reason.split())}"
        yield Verdict(check.name, outcome, complete=False)


def _judge_numbers(name: str, numbers: Sequence[Number]) -> Verdict:
    """Return the verdict on the check `name` by the verdicts on its published numbers."""
    verdicts = Counter(map(verdict, numbers))
    within = verdicts[WITHIN]
    decided = within + verdicts[NOT_WITHIN]
    not_measured = 0
    for number in numbers:
        # A number whose key fits several scores is not measured either.
        if number.row.found is None:
            not_measured += 1

    counts = f"{within} of {count(decided, 'number')} within"
    if not_measured:
        counts += f", {not_measured} not measured"
    if verdicts[CONTRADICTED]:
        counts += f", {verdicts[CONTRADICTED]} contradicted"

    missed = within < decided
    if missed:
        outcome = "not met"
    elif not decided:
        outcome = "not measured" if not_measured else "shown only"
    else:
        outcome = "met in part" if not_measured else "met"
    return Verdict(name, f"{outcome}: {counts}", missed, complete=not_measured == 0)


def exit_code(verdicts: Sequence[Verdict]) -> int:
    """Return 1 if a number was not reproduced, `INCOMPLETE` if one was not measured, and 0 otherwise."""
    if any(verdict.missed for verdict in verdicts):
        return 1
    if all(verdict.complete for verdict in verdicts):
        return 0
    return INCOMPLETE
