"""Command `reproduce`: run the recipe of a published table and compare the numbers."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import attrs
import click
from sentbed.helpers import Stop
from sentbed.tools import FAILED

from sentbed_studies.study_command import (
    entries,
    keep_going_option,
    only_option,
    out_option,
    override_option,
    run_plan,
    workers_option,
)


@click.command()
@click.argument("what", metavar="PAPER[:TABLE]", required=False)
@only_option
@override_option
@click.option(
    "--recipes",
    type=click.Path(exists=True, file_okay=False),
    help="The directory of the papers' recipes.",
)
@out_option
@workers_option
@keep_going_option
@click.option(
    "--dry-run",
    is_flag=True,
    help="Say what the cells take, and print the plan; run nothing.",
)
def reproduce(
    what: str | None,
    only: tuple[str, ...],
    overrides: tuple[str, ...],
    recipes: str | None,
    out: str | None,
    workers: int | None,
    keep_going: bool,
    dry_run: bool,
) -> None:
    """Run the recipe of a published table, and print our numbers, the paper's and the differences.

    `sentbed reproduce` lists the papers, `sentbed reproduce sentence-t5` lists the tables of a paper, and
    `sentbed reproduce sentence-t5:table-2 --only size=base` runs a table. `sentbed reproduce
    sentence-t5:verify` runs the rows that need no training.
    """
    # SIGTERM ends the command as Ctrl-C does. A run in this process handles it first.
    click.get_current_context().with_resource(Stop().listening())
    paper, _, table = (what or "").partition(":")
    from sentbed.tools import load_plugins

    from sentbed_studies.paper_recipe_files import find_papers, find_table
    from sentbed_studies.study import read_study, require_runtimes
    from sentbed_studies.study_needs import needs_of
    from sentbed_studies.study_plan import plan_study

    papers = Path(recipes) if recipes else find_papers()
    if not table:
        _list_recipes(papers, paper)
        return

    plugins = load_plugins()
    labels = entries(only)
    file = find_table(papers, paper, table)
    study = read_study(file, overrides, plugins, check_files=False)
    cells = study.only(labels) if labels else study
    click.echo(needs_of(cells, plugins), err=not dry_run)
    if not dry_run:
        study = read_study(file, overrides, plugins, only=labels or None)
        require_runtimes(cells)
    directory = Path(out or study.default_directory)
    plan = plan_study(study, directory, plugins, only=labels, workers=workers)
    for line in plan.lines():
        click.echo(line, err=not dry_run)
    if dry_run:
        return

    result = run_plan(
        plan,
        plugins,
        only=labels,
        keep_going=keep_going,
    )
    has_missed = _print_comparison(plan.directory)
    if result.failed or has_missed:
        sys.exit(FAILED)


def _print_comparison(directory: Path) -> bool:
    """Write the report of a study, and print our numbers, the paper's and the path of the report.

    Return whether a number of a cell that was run was not reproduced.
    """
    from sentbed_report.study.build_summary_tables import summarise
    from sentbed_report.study.published_number_comparison import published_numbers
    from sentbed_report.study.read_study_directory import read_data
    from sentbed_report.study_page.published_section import published_section
    from sentbed_report.tables.terminal import to_text

    from sentbed_studies.study_reports import write_reports

    data = read_data(directory)
    report = write_reports(directory, data=data)

    # Without a baseline and pairs, nothing is tested, which would take long.
    tables = summarise(attrs.evolve(data, baseline=None), all_pairs=False)
    finished = {run.cell for run in data.finished_runs}
    numbers = []
    for number in published_numbers(data, tables):
        if number.cell in finished:
            numbers.append(number)

    section = published_section(data, numbers)
    if section is not None:
        click.echo(to_text(section.tables[0]), nl=False)
        click.echo(section.summary)
        for note in section.notes:
            click.echo(note)
    click.echo(report)
    return any(number.is_missed for number in numbers)


def _list_recipes(papers: Path, paper: str) -> None:
    """Print the tables of a paper with their recipe files; all papers with their tables if `paper` is empty."""
    from sentbed_studies.paper_recipe_files import papers_in, tables_of

    if paper:
        tables = tables_of(papers, paper)
        width = max(map(len, tables), default=0)
        for name, file in tables.items():
            click.echo(f"{paper}:{name:<{width}} {os.path.relpath(file)}")
        return

    for name in papers_in(papers):
        click.echo(f"{name}: {', '.join(tables_of(papers, name))}")
