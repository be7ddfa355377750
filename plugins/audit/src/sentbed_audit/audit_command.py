"""Command `audit`."""

from __future__ import annotations

import click


@click.command()
@click.argument(
    "paths",
    nargs=-1,
    required=True,
    type=click.Path(),
)
@click.option(
    "--benchmark",
    metavar="NAME",
    help="Compare its tasks, splits and subsets: `MTEB(eng, v2)`.",
)
@click.option(
    "--task",
    "tasks",
    multiple=True,
    metavar="TASK",
    help="Compare these tasks only.",
)
@click.option(
    "--model",
    "models",
    multiple=True,
    metavar="MODEL",
    help="Compare these models only.",
)
@click.option(
    "--ignore-data-revisions",
    is_flag=True,
    help="Compare scores on different revisions of the data.",
)
@click.option(
    "--output",
    type=click.Path(file_okay=False),
    help="Write report, frame and JSON here.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def audit(
    paths: tuple[str, ...],
    benchmark: str | None,
    tasks: tuple[str, ...],
    models: tuple[str, ...],
    ignore_data_revisions: bool,
    output: str | None,
    as_json: bool,
) -> None:
    """Show which results in PATHS may be compared, and which models differ.

    PATHS are folders of MTEB's result files, result files of lm-eval, or CSV files with the columns model, task
    and score. Nothing is downloaded, no model is loaded.
    """
    import json
    from pathlib import Path

    from sentbed_audit.audit import audit_results
    from sentbed_audit.audit_report import answers, audit_record, write_audit

    result = audit_results(
        paths,
        benchmark=benchmark,
        tasks=tasks,
        models=models,
        ignore_data=ignore_data_revisions,
    )
    page = None
    if output is not None:
        page = write_audit(Path(output), result)
    if as_json:
        click.echo(json.dumps(audit_record(result), indent=2, ensure_ascii=False))
        return

    for line in answers(result):
        click.echo(f"{line.question}: {line.answer}")

    if page is not None:
        click.echo(str(page))
