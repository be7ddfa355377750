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
    comparison = compare_runs(runs[0], runs[1], encoders, resamples, method)
    echo(comparison_json(comparison) if as_json else comparison_text(comparison))


def _compare_many(runs: Sequence[Path], resamples: int, as_json: bool, out: str | None) -> None:
    """Print the tables of several runs; with `out`, write them and print the path of their report."""
    from sentbed.errors import RunError

    from sentbed_report.study.build_summary_tables import summarise
    from sentbed_report.study.exports import to_json, write_exports
    from sentbed_report.study.runs_as_study import runs_as_study
    from sentbed_report.study_page.study_report import write_study_report

    data = runs_as_study(runs, None if out is None else Path(out))
    summaries = summarise(data, resamples=resamples)
    if not summaries:
        raise RunError("none of the runs has finished with scores; add an `[[evaluate]]` to their recipes")
    if as_json:
        echo(to_json(data, summaries), nl=False)
    else:
        echo("\n".join(map(str, summaries)), nl=False)
        for cell in data.cells if not data.axes else ():
            if cell.name != data.baseline:
                echo(f"\n{cell.name} differs from {data.baseline} in:")
                for difference in cell.differences or ["nothing but the seed"]:
                    echo(f"  {difference}")
    if out is not None:
        write_exports(Path(out), data, summaries)
        echo(write_study_report(Path(out), data, summaries), err=as_json)


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(file_okay=False))
@click.option("--evaluator", help="Only the scores of this evaluator.")
@click.option("--protocol", help="Only the scores of this protocol id, or with ENTRY=VALUE.")
@click.option("--metric", help="Only the scores of this metric, such as `uniformity` or `f1`.")
@click.option("--axes", metavar="A,B", help="Of a study: labels of B across, of A down, by the last column.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "markdown", "latex", "csv", "html", "json"]),
    default="text",
    show_default=True,
    help="LaTeX is for the packages booktabs, siunitx and threeparttable.",
)
def table(
    runs: Sequence[str],
    evaluator: str | None,
    protocol: str | None,
    metric: str | None,
    axes: str | None,
    form: str,
) -> None:
    """Print the scores of RUNS as papers do: a cell or an encoder a row, a task a column, then the average.

    Runs that differ in nothing but their seed are one row, as the cells of a study: mean and deviation over
    the seeds.

    Of a task that an evaluator scores by several metrics it is the first, or that of `--metric`. Several
    tables as CSV are one, with a value a line.
    """
    import json

    from sentbed.tools import plain

    from sentbed_report.selected_tables import named_tables, pivoted, selected_tables
    from sentbed_report.tables.comma_separated import to_csv, to_long_csv
    from sentbed_report.tables.html import to_html
    from sentbed_report.tables.json_records import to_records
    from sentbed_report.tables.latex import to_latex
    from sentbed_report.tables.markdown import to_markdown
    from sentbed_report.tables.terminal import to_text

    summaries = selected_tables([Path(run) for run in runs], evaluator, protocol, metric)
    tables = named_tables(summaries)
    if axes is not None:
        names = [name.strip() for name in axes.split(",")]
        if len(names) != 2:
            raise click.UsageError("`--axes` takes two axes, as `--axes pooler,temperature`")
        tables = [pivoted(summary, names) for summary in summaries]
    if form == "csv":
        echo(to_long_csv(tables) if len(tables) > 1 else to_csv(tables[0]), nl=False)
    elif form == "json":
        records = plain([to_records(of_form) for of_form in tables])
        echo(json.dumps(records, indent=2, ensure_ascii=False))
    else:
        formats = {"text": to_text, "markdown": to_markdown, "latex": to_latex, "html": to_html}
        echo("\n".join(map(formats[form], tables)), nl=False)
