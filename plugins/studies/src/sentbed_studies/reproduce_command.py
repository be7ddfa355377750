"""Command `reproduce`: run the recipe of a published table and compare the numbers."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import click
from sentbed.helpers import Stop
from sentbed.tools import FAILED, echo

from sentbed_studies.study_command import (
    entries,
    keep_going_option,
    only_option,
    override_option,
    retrain_option,
    run_plan,
    workers_option,
)

if TYPE_CHECKING:
    from sentbed.tools import Plugins

    from sentbed_studies.study import Entries, Study
    from sentbed_studies.study_plan import StudyPlan


@click.command()
@click.argument("what", metavar="PAPER[:TABLE]", required=False)
@click.option(
    "--size", help="Only the cells of this label of the axis `size`, such as `base`."
)
@only_option
@override_option
@click.option(
    "--recipes",
    type=click.Path(file_okay=False),
    help="The directory of the papers' recipes.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False),
    help="The directory; studies/NAME by default.",
)
@workers_option
@keep_going_option
@retrain_option
@click.option(
    "--dry-run",
    is_flag=True,
    help="Check every cell and print its time and memory; run nothing.",
)
def reproduce(
    what: str | None,
    size: str | None,
    only: tuple[str, ...],
    overrides: tuple[str, ...],
    recipes: str | None,
    out: str | None,
    workers: int | None,
    keep_going: bool,
    retrain: bool,
    dry_run: bool,
) -> None:
    """Run the recipe of a published table, and print our numbers, the paper's and the differences.

    `sentbed reproduce` lists the papers, `sentbed reproduce sentence-t5` lists the tables of a paper, and
    `sentbed reproduce sentence-t5:table-2 --size base` runs a table. `sentbed reproduce sentence-t5:verify` runs
    the rows that need no training.
    """
    # SIGTERM ends the command as Ctrl-C does. A run in this process handles it first.
    click.get_current_context().with_resource(Stop().listening())
    paper, _, table = (what or "").partition(":")
    from sentbed.tools import load_plugins

    from sentbed_studies.paper_recipe_files import find_papers, find_table

    papers = find_papers(recipes)
    if not table:
        _list_recipes(papers, paper)
        return

    plugins = load_plugins()
    if size:
        only = (*only, f"size={size}")
    labels = entries(only)
    file = find_table(papers, paper, table)
    plan = _plan_table(file, labels, overrides, plugins, out, workers, dry_run)
    if dry_run:
        return

    if not keep_going:
        plan.require_usable_data()
    result = run_plan(
        plan,
        plugins,
        only=labels,
        keep_going=keep_going,
        retrain=retrain,
    )
    has_missed = _print_comparison(plan.directory)
    if result.failed or has_missed:
        sys.exit(FAILED)


def _plan_table(
    file: Path,
    labels: Entries,
    overrides: Sequence[str],
    plugins: Plugins,
    out: str | None,
    workers: int | None,
    dry_run: bool,
) -> StudyPlan:
    """Read the recipe of a table; print its published numbers and the plan of its runs, and return the plan."""
    from sentbed_studies.published_number_verdicts import published_of
    from sentbed_studies.study import read_study
    from sentbed_studies.study_plan import plan_study

    if dry_run:
        # With `only=()`, missing files are remarks: numbers and times can be printed without them.
        study = read_study(file, overrides, plugins, only=())
        _print_numbers_and_missing(study, labels)
        study = attrs.evolve(study, remarks=())
    else:
        study = read_study(file, overrides, plugins, only=labels or None)
        for line in published_of(study):
            echo(line, err=True)

    directory = Path(out or Path("studies") / study.name)
    plan = plan_study(study, directory, plugins, only=labels, workers=workers)
    for line in plan.lines():
        echo(line, err=not dry_run)
    return plan


def _print_comparison(directory: Path) -> bool:
    """Write the report of a study, and print our numbers, the paper's and the path of the report.

    Return whether a number was not reproduced.
    """
    from sentbed_report.study.read_study_directory import read_data

    from sentbed_studies.published_number_verdicts import (
        comparison,
        missed,
        numbers_of,
    )
    from sentbed_studies.study_reports import write_reports

    data = read_data(directory)
    report = write_reports(directory, data=data)
    numbers = numbers_of(data)
    for line in comparison(numbers):
        echo(line)

    echo(report)
    return missed(numbers)


def _print_numbers_and_missing(study: Study, labels: Entries) -> None:
    """Print which files and libraries the selected cells lack on this machine, and their published numbers."""
    from sentbed_studies.published_number_verdicts import published_of, published_table
    from sentbed_studies.study_plan import remark_text

    selected = study
    if labels:
        selected = study.only(labels)
    # What is missing comes first: below the numbers of a paper it would be overlooked.
    for remark in selected.remarks:
        echo(f"missing here: {remark_text(remark)}")

    for line in (*published_of(study), *published_table(selected)):
        echo(line)


def _list_recipes(papers: Path, paper: str) -> None:
    """Print the tables of a paper with their recipe files; all papers with their tables if `paper` is empty."""
    from sentbed_studies.paper_recipe_files import papers_in, tables_of

    if paper:
        tables = tables_of(papers, paper)
        width = max(map(len, tables), default=0)
        for name, file in tables.items():
            echo(f"{paper}:{name:<{width}} {os.path.relpath(file)}")
        return

    for name in papers_in(papers):
        echo(f"{name}: {', '.join(tables_of(papers, name))}")
