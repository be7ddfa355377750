"""Command `overlap`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sentbed_audit.clean.seen_texts import NEAR

if TYPE_CHECKING:
    from sentbed.protocols import Recipe, Score
    from sentbed_report.study.study_data import StudyData

    from sentbed_audit.clean.overlap import Training


@click.command()
@click.argument(
    "paths",
    nargs=-1,
    required=True,
    type=click.Path(),
)
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
def overlap(
    paths: tuple[str, ...],
    training: tuple[str, ...],
    stages: bool,
    near: float,
    as_json: bool,
) -> None:
    """Count the items of evaluations that occur in training texts.

    PATHS are a recipe, or directories of runs and studies. For a recipe, the numbers of items that are seen
    exactly and nearly are printed; for runs, also their scores on the other, clean items. Training texts are
    those of `--training` and of `[clean]` in the recipes. No model is loaded.
    """
    import json

    from sentbed.tools import plain
    from sentbed_report.tables.json_records import to_records
    from sentbed_report.tables.terminal import to_text

    from sentbed_audit.clean.clean_section import counts_table, notes
    from sentbed_audit.clean.clean_study import scores_of_runs
    from sentbed_audit.clean.overlap import Overlap

    recipes, runs = _read_paths([Path(path) for path in paths])
    evaluators = []
    for recipe in recipes:
        evaluators += [entry.evaluator for entry in recipe.evaluate]
    result = Overlap(evaluators, _training_texts(recipes, training, stages), near)
    tables = [counts_table(result)]
    not_counted: Sequence[Score] = ()
    if runs is not None:
        scores, not_counted = scores_of_runs(runs, result)
        tables.append(scores)

    if as_json:
        records = plain([to_records(table) for table in tables])
        click.echo(json.dumps(records, indent=2, ensure_ascii=False))
        return
    for table in tables:
        click.echo(to_text(table))
    for note in notes(result, near, not_counted):
        click.echo(note)


def _read_paths(
    paths: Sequence[Path],
) -> tuple[Sequence[Recipe], StudyData | None]:
    """Return the recipes, and their runs as a study; instead of runs, None if the path is that of a recipe."""
    from sentbed.tools import load_plugins, load_recipe
    from sentbed_report.study.runs_as_study import runs_as_study

    from sentbed_audit.clean.clean_study import recipes_of

    plugins = load_plugins()
    if not paths[0].is_file():
        runs = runs_as_study(paths, None)
        return recipes_of(runs, plugins), runs
    if len(paths) > 1:
        raise click.UsageError("name one recipe, or directories of runs and studies")
    return [load_recipe(paths[0], plugins=plugins)], None


def _training_texts(
    recipes: Sequence[Recipe],
    files: Sequence[str],
    stages: bool,
) -> Training:
    """Return where the files and the recipes have training texts; raises `RunError` if there are none."""
    from sentbed.errors import RunError

    from sentbed_audit.clean.overlap import Training

    texts = Training.of(recipes, map(Path, files), stages)
    if not texts.files and not texts.sources:
        raise RunError(
            "there are no training texts to search; name files with `--training`, or add `--stages` for the "
            "data of the recipe's own stages"
        )
    return texts
