"""The command `diff`: print the differences between two recipes."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click
from sentbed.tools import FAILED, echo, set_option


@click.command()
@click.argument("a", type=click.Path())
@click.argument("b", type=click.Path())
@set_option("Override a value of both; PATH= takes a key out.")
@click.option(
    "--cell",
    "cells",
    multiple=True,
    metavar="LABELS",
    help="A cell of the study in A or B, or in both; given twice, a cell of A, then of B.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def diff(
    a: str,
    b: str,
    overrides: tuple[str, ...],
    cells: Sequence[str],
    as_json: bool,
) -> None:
    """Say in which values the recipes A and B differ, and which file each value comes from.

    A and B are recipes or run directories; defaults and extended recipes are included. The exit code is 0 if
    both recipes give the same scores: they differ at most in the names of the run and its stages, in
    checkpoints or in trackers. It is 1 if a score may differ, and 2 if a recipe cannot be read.
    """
    import json

    from sentbed.tools import load_plugins

    from sentbed_workbench.recipe_diff import (
        compare,
        read,
        record,
        scores_may_differ,
        text,
    )

    if len(cells) > 2:
        raise click.UsageError(
            "`--cell` names one cell for both recipes, or one for each"
        )
    first, second = read((a, b), overrides, load_plugins(), cells)
    differences = compare(first, second)
    if as_json:
        facts = record(differences, (a, b))
        echo(
            json.dumps(
                facts,
                indent=2,
                ensure_ascii=False,
                default=str,
            )
        )
    else:
        echo("\n".join(text(differences, (a, b))))

    if scores_may_differ(differences):
        sys.exit(FAILED)
