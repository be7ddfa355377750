"""Command `overlap`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from sentbed.tools import echo

from sentbed_audit.clean.seen_texts import NEAR

if TYPE_CHECKING:
    from sentbed.protocols import Score


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path())
@click.option(
    "--training",
    multiple=True,
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Training texts: `.jsonl`, `.csv`, or tab-separated text; also `.gz`.",
)
@click.option(
    "--stages", is_flag=True, help="Also search the data of the recipes' stages."
)
@click.option(
    "--near",
    type=click.FloatRange(0, 1, min_open=True),
    default=NEAR,
    show_default=True,
    help="Minimum share of a text's words, in runs of shared words, to count as nearly seen.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--out",
    type=click.Path(file_okay=False),
    help="For runs: write tables and a report on clean items into this directory.",
)
def overlap(
    paths: tuple[str, ...],
    training: tuple[str, ...],
    stages: bool,
    near: float,
    as_json: bool,
    out: str | None,
) -> None:
    """Count the items of evaluations that occur in training texts.

    PATHS are a recipe, or directories of runs and studies. For a recipe, the numbers of items that are seen
    exactly and nearly are printed; for runs, also their scores on the other, clean items, and a comparison.
    Training texts are those of `--training` and of `[clean]` in the recipes. No model is loaded.
    """
    import json

    from sentbed.errors import RunError
    from sentbed.tools import load_plugins, load_recipe, plain
    from sentbed_report.study.runs_as_study import runs_as_study
    from sentbed_report.tables.json_records import to_records
    from sentbed_report.tables.terminal import to_text

    from sentbed_audit.clean.clean_section import counts_table, notes
    from sentbed_audit.clean.clean_study import (
        comparison_tables,
        recipes_of,
        scores_of_runs,
        write_clean_report,
    )
    from sentbed_audit.clean.overlap import Overlap, Training

    places = [Path(path) for path in paths]
    plugins = load_plugins()
    directory = None if out is None else Path(out)
    data = None
    if places[0].is_file():
        if len(places) > 1 or directory is not None:
            raise click.UsageError(
                "name one recipe, or directories of runs and studies; `--out` is for these"
            )
        recipes = [load_recipe(places[0], plugins=plugins)]
    else:
        data = runs_as_study(places, directory)
        recipes = recipes_of(data, plugins)

    texts = Training.of(recipes, map(Path, training), stages)
    if not texts.files and not texts.sources:
        raise RunError(
            "there are no training texts to look in; name files with `--training`, or give `--stages` for the "
            "data of the recipe's own stages"
        )

    evaluators = []
    for recipe in recipes:
        evaluators += [entry.evaluator for entry in recipe.evaluate]

    result = Overlap(evaluators, texts, near)

    tables = [counts_table(result)]
    not_counted: Sequence[Score] = ()
    if data is not None:
        scores, not_counted = scores_of_runs(data, result)
        tables += [scores, *comparison_tables(data, result)]
    page = None
    if data is not None and directory is not None:
        page = write_clean_report(directory, data, result)

    if as_json:
        records = plain([to_records(table) for table in tables])
        echo(json.dumps(records, indent=2, ensure_ascii=False))
        return

    for table in tables:
        echo(to_text(table))

    for note in notes(result, near, not_counted):
        echo(note)

    if page is not None:
        echo(str(page))
