"""The command `evaluate`: evaluate a saved encoder."""

from __future__ import annotations

import click
from sentbed.tools import set_option, trust_option


@click.command()
@click.argument("encoder", type=click.Path(file_okay=False))
@click.option(
    "--with",
    "evaluator",
    required=True,
    help="An evaluator by name; see `sentbed plugins`.",
)
@set_option()
@click.option(
    "--no-cache",
    is_flag=True,
    help="Compute every vector, and keep none; no score depends on it.",
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print the scores as JSON, with their protocols.",
)
@trust_option
def evaluate(
    encoder: str,
    evaluator: str,
    overrides: tuple[str, ...],
    no_cache: bool,
    as_json: bool,
    trust_remote_code: bool,
) -> None:
    """Evaluate the encoder in ENCODER.

    `--set` sets the evaluator's fields (`tasks=["STSB"]`) and the runtime's (`runtime.precision=bf16`).
    """
    import json
    from functools import partial

    from sentbed.helpers import score_text
    from sentbed.tools import plain

    from sentbed_workbench.evaluate import evaluate_encoder
    from sentbed_workbench.vector_cache import VectorCache

    store = None
    if not no_cache:
        store = VectorCache(say=partial(click.echo, err=True))
    evaluation = evaluate_encoder(
        encoder, evaluator, overrides, store, trust_remote_code
    )
    if as_json:
        click.echo(json.dumps(plain(evaluation.scores), indent=2))
        return
    for score in evaluation.scores:
        columns = f"{score.task:<14} {score.metric:<16} {score.protocol_name:<24}"
        click.echo(f"{columns} {score_text(score.value):>9}")
