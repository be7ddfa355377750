"""Command `overlap`."""

from __future__ import annotations

import click


@click.command()
@click.argument(
    "runs",
    nargs=-1,
    required=True,
    type=click.Path(file_okay=False),
)
@click.option(
    "--training",
    multiple=True,
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Training texts: `.jsonl`, `.csv`, or tab-separated text; also `.gz`.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def overlap(
    runs: tuple[str, ...],
    training: tuple[str, ...],
    as_json: bool,
) -> None:
    """Show the scores of RUNS on clean items, which do not occur in training texts.

    RUNS are directories of runs and studies. Training texts are those of `--training`, of `[clean]` in the
    recipes, and of their stages. An item is clean if no training text of any run has it. No model is loaded.
    """
    import json
    from pathlib import Path

    from sentbed.errors import RunError
    from sentbed.tools import (
        RESOLVED,
        load_plugins,
        plain,
        read_document,
        structure_recipe,
    )
    from sentbed_report.page.sections import table_of
    from sentbed_report.study.runs_as_study import runs_as_study
    from sentbed_report.tables.json_records import to_records
    from sentbed_report.tables.terminal import to_text

    from sentbed_audit.clean.clean_section import (
        NAMES,
        NUMBERS,
        TITLE,
        clean_rows,
        note,
    )
    from sentbed_audit.clean.overlap import Overlap
    from sentbed_audit.clean.training_texts import TrainingSource, training_sources

    plugins = load_plugins()
    data = runs_as_study([Path(path) for path in runs], None)
    base = data.directory or Path()
    finished = []
    sources: list[TrainingSource] = [Path(path).resolve() for path in training]
    evaluators = []
    for cell in data.cells:
        for run in cell.runs:
            if run.status != "finished" or run.directory is None:
                continue
            finished.append(run)
            directory = (base / run.directory).resolve()
            document = read_document(directory / RESOLVED)
            recipe = structure_recipe(document, plugins, directory)
            # Components with lists have no hash.
            for source in training_sources(recipe):
                if source not in sources:
                    sources.append(source)
            for entry in recipe.evaluate:
                if entry.evaluator not in evaluators:
                    evaluators.append(entry.evaluator)

    if not sources:
        raise RunError(
            "there are no training texts to search: the recipes have neither `[clean]` nor a stage; name files "
            "with `--training`"
        )
    result = Overlap(evaluators, sources)
    rows = []
    for run in finished:
        rows += [(str(run), *row) for row in clean_rows(result, run.scores)]
    table = table_of(TITLE, ("run", *NAMES), NUMBERS, rows)
    if as_json:
        click.echo(json.dumps(plain(to_records(table)), indent=2, ensure_ascii=False))
        return
    click.echo(to_text(table))
    click.echo(note(result))
