"""The commands `compare` and `table`, which print the scores of runs and studies."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from sentbed_report.study.study_data import CellInfo, StudyData
    from sentbed_report.study.summary_tables import Summary


@click.command()
@click.argument(
    "runs",
    nargs=-1,
    metavar="RUN RUN [RUN ...]",
    type=click.Path(file_okay=False),
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--out",
    type=click.Path(file_okay=False),
    help="Write tables and a report into this directory.",
)
def compare(
    runs: Sequence[str],
    as_json: bool,
    out: str | None,
) -> None:
    """Compare runs, or the cells of a study, on all scores that they share: difference, interval and p-value.

    Each row is compared with the first row over seeds and items, if their protocols are equal. Two runs are two
    rows. If there are more runs, or with `--out`, runs that differ only in their seed share a row. If RUN is
    the directory of a study, its cells are compared with its own baseline.
    """
    from sentbed_report.selected_tables import require_tables
    from sentbed_report.study.build_summary_tables import summarise
    from sentbed_report.study.exports import to_json, write_exports
    from sentbed_report.study.read_study_directory import is_study
    from sentbed_report.study.runs_as_study import runs_as_study
    from sentbed_report.study_page.study_report import write_study_report

    directories = [Path(run) for run in runs]
    base = None if out is None else Path(out)
    if not any(map(is_study, directories)) and len(runs) < 2:
        raise click.UsageError("name two runs or more, or a study")

    is_row_each = len(runs) == 2 and base is None
    data = runs_as_study(directories, base, is_row_each)
    # Only a page shows how all pairs compare; without one, the baseline's tests have the whole level.
    summaries = summarise(data, all_pairs=base is not None)
    require_tables(summaries)
    if as_json:
        click.echo(to_json(data, summaries), nl=False)
    else:
        _print_comparison(data, summaries)
    if base is not None:
        write_exports(base, data, summaries)
        click.echo(write_study_report(base, data, summaries), err=as_json)


def _print_comparison(data: StudyData, summaries: Sequence[Summary]) -> None:
    """Print the tables, and how the cells' recipes differ."""
    from sentbed_report.run_comparison import difference_table
    from sentbed_report.tables.terminal import to_text

    for summary in summaries:
        click.echo(summary)
        differences = difference_table(summary)
        if differences.rows:
            click.echo(to_text(differences))
    for cell in data.cells:
        # If there are axes, the names of the cells already say how they differ.
        if data.axes or cell.name == data.baseline:
            continue
        if not cell.differences:
            click.echo(
                f"{cell.name} and {data.baseline}: {_without_difference(data, cell)}"
            )
            continue
        click.echo(f"{cell.name} differs from {data.baseline} in:")
        for difference in cell.differences:
            click.echo(f"  {difference}")


def _without_difference(data: StudyData, cell: CellInfo) -> str:
    """Return whether a cell with the recipe of the baseline differs from it in its seed."""
    for other in data.cells:
        if other.name == data.baseline and other.seeds != cell.seeds:
            return "the recipes are identical, the seeds are not"
    return "recipe and seed are identical"


@click.command()
@click.argument(
    "runs",
    nargs=-1,
    required=True,
    type=click.Path(file_okay=False),
)
@click.option("--evaluator", help="Only the scores of this evaluator.")
@click.option("--protocol", help="Only the scores of this protocol id.")
@click.option(
    "--metric", help="Only the scores of this metric, such as `uniformity` or `f1`."
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "markdown", "latex", "csv", "html"]),
    default="text",
    show_default=True,
    help="LaTeX is for the packages booktabs, siunitx and threeparttable.",
)
def table(
    runs: Sequence[str],
    evaluator: str | None,
    protocol: str | None,
    metric: str | None,
    form: str,
) -> None:
    """Print the scores of RUNS as in papers: one row per cell or encoder, one column per task, the average last.

    Runs that differ only in their seed share a row, like the runs of a study's cell; the row has their mean and
    standard deviation.

    If an evaluator scores a task by several metrics, the scores in the first metric are printed; `--metric`
    chooses another. With `--format csv`, every score under every seed is printed, one per line.
    """
    from sentbed_report.selected_tables import selected_scores, selected_tables
    from sentbed_report.study.exports import named_tables
    from sentbed_report.study.measurements import study_frame
    from sentbed_report.tables.comma_separated import csv_text
    from sentbed_report.tables.html import to_html
    from sentbed_report.tables.latex import to_latex
    from sentbed_report.tables.markdown import to_markdown
    from sentbed_report.tables.terminal import to_text

    directories = [Path(run) for run in runs]
    if form == "csv":
        data = selected_scores(directories, evaluator, protocol, metric)
        frame = study_frame(data).drop(columns="score")
        click.echo(csv_text(frame), nl=False)
        return

    summaries = selected_tables(directories, evaluator, protocol, metric)
    tables = named_tables(summaries)
    formats = {
        "text": to_text,
        "markdown": to_markdown,
        "latex": to_latex,
        "html": to_html,
    }
    click.echo("\n".join(map(formats[form], tables)), nl=False)
