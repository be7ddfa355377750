"""Runs the checks of one paper, and says what they have shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import attrs
from sentbed.tools import Plugins
from sentbed_jobs.executor_lookup import executor_of
from sentbed_report.study.published_number_comparison import Number
from sentbed_report.study.read_study_directory import read_data
from sentbed_report.tables.terminal import aligned

from sentbed_studies.cell_keys import CellKeys
from sentbed_studies.published_table_recipes import comparison, numbers_of
from sentbed_studies.runner import run_study
from sentbed_studies.shared_work_plan import Work, plan_work
from sentbed_studies.study import Entries, Study, read_study
from sentbed_studies.study_plan import time_of
from sentbed_studies.study_reports import write_reports
from sentbed_studies.verification import Check, Verdict, judge, read_checks


@attrs.frozen(eq=False)
class Verification:
    """The checks of a paper: the cells of a study, in a directory of its own."""

    paper: str
    study: Study
    work: Work
    directory: Path
    checks: tuple[Check, ...]

    def run(
        self, workers: int | None, retrain: bool, plugins: Plugins, say: Callable[[str], object]
    ) -> list[Verdict]:
        """Run the checks that can be run and have not finished; say ours, theirs and the verdicts."""
        failed = self._run_cells(workers, retrain, plugins, say)
        numbers = self._numbers()
        verdicts = list(judge(self.checks, numbers, failed))
        say("")
        if numbers:
            for line in comparison(numbers):
                say(line)
        rows = [(f"{self.paper}: {verdict.check}", verdict.outcome) for verdict in verdicts]
        for line in aligned(rows, left=2):
            say(line)
        return verdicts

    def _run_cells(
        self, workers: int | None, retrain: bool, plugins: Plugins, say: Callable[[str], object]
    ) -> dict[str, str]:
        """Run cells, and return the errors of those that failed, by name."""
        runnable = {check.name for check in self.checks if not check.lacking and not check.finished}
        tasks = [task for task in self.work.tasks if task.cell.name in runnable]
        if not tasks:
            return {}
        work = self.work.of([task.cell for task in tasks])
        left = time_of(work, self.directory, workers)
        result = run_study(
            self.study,
            self.directory,
            plugins,
            executor=executor_of("local", {"workers": left.workers}, plugins, say),
            only=[task.cell.labels for task in tasks],
            work=self.work,
            keep_going=True,
            retrain=retrain,
            say=say,
            left=left,
        )
        say(str(write_reports(self.directory)))
        errors = {outcome.job.directory: outcome.error for outcome in result.failed}
        return {task.cell.name: errors[task.directory] for task in tasks if task.directory in errors}

    def _numbers(self) -> tuple[Number, ...]:
        """Return the published numbers of the checks that have finished, with ours."""
        if not any((self.directory / task.directory).is_dir() for task in self.work.tasks):
            return ()
        names = {check.name for check in self.checks}
        return tuple(number for number in numbers_of(read_data(self.directory)) if number.cell in names)


def read_verification(
    paper: str, file: Path, parent: Path, overrides: Sequence[str], only: Entries, plugins: Plugins
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
    work = plan_work(study.cells, CellKeys(plugins))
    directory = parent / study.name
    checks = read_checks(selected, work.of(selected.cells), directory)
    return Verification(paper, attrs.evolve(study, remarks=()), work, directory, tuple(checks))
