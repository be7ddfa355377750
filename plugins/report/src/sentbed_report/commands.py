"""The commands `compare` and `table` for the scores of runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import click
from sentbed.tools import echo


@click.command()
@click.argument("runs", nargs=-1, metavar="RUN RUN [RUN ...]", type=click.Path(file_okay=False))
@click.option(
    "--encoder", "encoders", multiple=True, metavar="NAME", help="Of both runs; given twice, of A and of B."
)
@click.option("--resamples", type=click.IntRange(100), default=1000, show_default=True, help="Draws.")
@click.option(
    "--method",
    type=click.Choice(["bootstrap", "randomisation"]),
    default="bootstrap",
    show_default=True,
    help="Where the p-value of two runs comes from.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--out", type=click.Path(file_okay=False), help="Write tables and a report into this directory."
)
def compare(
    runs: Sequence[str],
    encoders: tuple[str, ...],
    resamples: int,
    method: Literal["bootstrap", "randomisation"],
    as_json: bool,
    out: str | None,
) -> None:
    """Compare runs and studies on all scores that they share: difference, interval and p-value.

    Two runs are compared score by score. Only scores of one protocol are compared; what the encoders
    themselves differ in is remarked. Encoders before and after training: `sentbed compare RUN RUN --encoder
    NAME@start --encoder NAME`.

    More runs, or two with `--out`, become a table: runs of one recipe under several seeds are a row, and each
    row is compared with the first over seeds and items. Where a RUN is the directory of a study, each of its
    cells is a row; a study alone is compared with its own baseline.
    """
    from sentbed_report.run_comparison import compare_runs, comparison_json, comparison_text
    from sentbed_report.study.read_study_directory import is_study

    study = any(is_study(Path(run)) for run in runs)
    if len(runs) < 2 and not study:
        raise click.UsageError("name two runs or more, or a study")
    if len(runs) > 2 or out is not None or study:
        if encoders or method != "bootstrap":
            raise click.UsageError("`--encoder` and `--method` are for two runs, without `--out`")
        _compare_many([Path(run) for run in runs], resamples, as_json, out)
        return
    if len(encoders) > 2:
        raise click.UsageError("`--encoder` names one encoder for both runs, or one for each")
    found = compare_runs(runs[0], runs[1], encoders, resamples, method)
    echo(comparison_json(found) if as_json else comparison_text(found))


def _compare_many(runs: Sequence[Path], resamples: int, as_json: bool, out: str | None) -> None:
    """Print the tables of several runs; with `out`, write them and print the path of their report."""
    from sentbed.errors import RunError

    from sentbed_report.study.build_summary_tables import summarise
    from sentbed_report.study.exports import to_json, write_exports
    from sentbed_report.study.runs_as_study import runs_as_study
    from sentbed_report.table_formats import to_text

    data = runs_as_study(runs, None if out is None else Path(out))
    found = summarise(data, resamples=resamples)
    if not found:
        raise RunError("none of the runs has finished with scores; add an `[[evaluate]]` to their recipes")
    if as_json:
        echo(to_json(data, found), nl=False)
    else:
        echo("\n".join(map(to_text, found)), nl=False)
        for cell in data.cells if not data.axes else ():
            if cell.name == data.baseline:
                continue
            echo(f"\n{cell.name} differs from {data.baseline} in:")
            echo("\n".join(f"  {one}" for one in cell.differences or ["nothing but the seed"]))
    if out is not None:
        from sentbed_report.study_page import write_study_report

        write_exports(Path(out), data, found)
        echo(write_study_report(Path(out), data, found), err=as_json)


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(file_okay=False))
@click.option("--evaluator", help="Only the scores of this evaluator.")
@click.option("--protocol", help="Only the scores of this protocol id, or with ENTRY=VALUE.")
@click.option("--metric", help="Only the scores of this metric, such as `uniformity` or `f1`.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "markdown", "latex", "csv"]),
    default="text",
    show_default=True,
    help="LaTeX is for the package booktabs.",
)
def table(
    runs: Sequence[str], evaluator: str | None, protocol: str | None, metric: str | None, form: str
) -> None:
    """Print the scores of RUNS as papers do: an encoder a row, a task a column, then the average.

    Where one of RUNS is the directory of a study, a cell is a row: mean and deviation over its seeds.

    Of a task that an evaluator scores by several metrics it is the first, or that of `--metric`. Several
    tables as CSV are one, with a value a line.
    """
    from sentbed_report.run_tables import run_tables, study_tables
    from sentbed_report.study.exports import to_csv as study_csv
    from sentbed_report.study.exports import to_tidy_csv
    from sentbed_report.study.read_study_directory import is_study
    from sentbed_report.table_formats import FORMATS, to_csv, to_long_csv

    if any(is_study(Path(run)) for run in runs):
        summaries = study_tables(runs, evaluator, protocol, metric)
        if form == "csv":
            tidy = len(summaries) > 1
            echo(to_tidy_csv(summaries) if tidy else study_csv(summaries[0]), nl=False)
            return
        echo("\n".join(map(FORMATS[form], summaries)), nl=False)
        return
    found = run_tables(runs, evaluator, protocol, metric)
    if form == "csv":
        echo(to_long_csv(found) if len(found) > 1 else to_csv(found[0]), nl=False)
        return
    echo("\n".join(FORMATS[form](table) for table in found), nl=False)
