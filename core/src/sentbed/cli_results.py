"""The commands `compare` and `table`: what runs have found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import click


@click.command()
@click.argument("run_a", type=click.Path(file_okay=False))
@click.argument("run_b", type=click.Path(file_okay=False))
@click.option(
    "--encoder", "encoders", multiple=True, metavar="NAME", help="Of both runs; given twice, of A and of B."
)
@click.option("--resamples", type=click.IntRange(100), default=1000, show_default=True, help="Draws.")
@click.option(
    "--method",
    type=click.Choice(["bootstrap", "randomisation"]),
    default="bootstrap",
    show_default=True,
    help="Where the p-value comes from.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def compare(
    run_a: str,
    run_b: str,
    encoders: tuple[str, ...],
    resamples: int,
    method: Literal["bootstrap", "randomisation"],
    as_json: bool,
) -> None:
    """Compare the encoders of RUN_A and RUN_B, score by score: difference, interval and p-value.

    Only scores of one protocol are compared; what the encoders themselves differ in is remarked. Encoders
    before and after training: `sentbed compare RUN RUN --encoder NAME@start --encoder NAME`.
    """
    from sentbed.report.results import compare_runs, comparison_json, comparison_text

    if len(encoders) > 2:
        raise click.UsageError("`--encoder` names one encoder for both runs, or one for each")
    found = compare_runs(run_a, run_b, encoders, resamples, method)
    click.echo(comparison_json(found) if as_json else comparison_text(found))


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

    Of a task that an evaluator scores by several metrics it is the first, or that of `--metric`. Several
    tables as CSV are one, with a value a line.
    """
    from sentbed.report.formats import FORMATS, to_long_csv
    from sentbed.report.results import run_tables

    found = run_tables(runs, evaluator, protocol, metric)
    if form == "csv" and len(found) > 1:
        click.echo(to_long_csv(found), nl=False)
        return
    click.echo("\n".join(FORMATS[form](table) for table in found), nl=False)
