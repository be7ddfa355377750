"""The command `soup`: average the weights of encoders."""

from __future__ import annotations

import click
from sentbed.tools import echo, set_option


@click.command()
@click.argument("output", type=click.Path(file_okay=False))
@click.argument(
    "encoders",
    nargs=-1,
    required=True,
    type=click.Path(file_okay=False),
)
@click.option(
    "--with", "evaluator", help="Keep only what raises the score of this evaluator."
)
@set_option()
def soup(
    output: str,
    encoders: tuple[str, ...],
    evaluator: str | None,
    overrides: tuple[str, ...],
) -> None:
    """Average the weights of ENCODERS into a new encoder in OUTPUT.

    ENCODERS are directories of encoders or of runs that started from the same weights. With `--with` the
    average is greedy; the evaluator must use development data (`--set 'tasks=["STSB-dev"]'`).
    """
    from functools import partial

    from sentbed_workbench.model_soup import make_soup
    from sentbed_workbench.vector_cache import VectorCache

    say = partial(echo, err=True)
    average = make_soup(
        output, encoders, evaluator, overrides, VectorCache(say=say), say
    )
    kept = [parent for parent in average.parents if parent.kept]
    summary = f"{output}: the mean of {len(kept)} of {len(average.parents)} encoders"
    if average.score is not None:
        summary += f", which scores {average.score:.2f}"
    echo(summary)
