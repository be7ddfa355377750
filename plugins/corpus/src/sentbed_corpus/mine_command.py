"""The command `mine`, which adds hard negatives to pairs of texts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import click
from sentbed.protocols import DataSource, Runtime
from sentbed.tools import (
    Document,
    apply_overrides,
    load_plugins,
    part_of,
    set_option,
    trust_option,
)


@click.command()
@click.argument("encoder", type=click.Path(file_okay=False))
@click.option(
    "--data",
    "source",
    required=True,
    help="A data source of pairs by name; see `sentbed plugins`.",
)
@set_option("A field of the data, or `runtime.FIELD`.")
@click.option(
    "--output",
    required=True,
    type=click.Path(),
    help="A .jsonl file, for the source `triplets`.",
)
@click.option(
    "--corpus",
    multiple=True,
    metavar="PATH",
    help="Further candidates: files, directories or patterns, as `sentbed encode` reads; may be repeated.",
)
@click.option(
    "--column",
    default="text",
    show_default=True,
    help="Where tables of the corpus have the text.",
)
@click.option(
    "--corpus-only", is_flag=True, help="Take no positive of another row as a negative."
)
@click.option(
    "--negatives",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Negatives of a row.",
)
@click.option(
    "--range-min",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Ranks to skip.",
)
@click.option(
    "--range-max",
    type=click.IntRange(1),
    default=100,
    show_default=True,
    help="Ranks to look at, from 0.",
)
@click.option(
    "--absolute-margin", type=float, help="Least difference to the positive's cosine."
)
@click.option(
    "--relative-margin",
    type=float,
    help="The same as a share of the positive's cosine: 0.05.",
)
@click.option("--max-score", type=float, help="Highest cosine of a negative.")
@click.option("--min-score", type=float, help="Lowest cosine of a negative.")
@click.option(
    "--sampling",
    type=click.Choice(["top", "random"]),
    default="top",
    show_default=True,
    help="Take the nearest of what the rules leave, or any.",
)
@click.option(
    "--seed",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Of `--sampling random`.",
)
@click.option(
    "--anchor-prompt",
    default="",
    metavar="KEY",
    help="The encoder's prompt of `task_prompts` for anchors: `query`, `SciFact-query`.",
)
@click.option(
    "--candidate-prompt",
    default="",
    metavar="KEY",
    help="The same for positives and other candidates: `document`.",
)
@click.option(
    "--instruction",
    default="",
    metavar="TEXT",
    help="What stands for `{instruction}` in these prompts.",
)
@click.option("--overwrite", is_flag=True, help="Replace the output.")
@trust_option
def mine(
    encoder: str,
    source: str,
    overrides: tuple[str, ...],
    output: str,
    corpus: tuple[str, ...],
    column: str,
    corpus_only: bool,
    anchor_prompt: str,
    candidate_prompt: str,
    instruction: str,
    overwrite: bool,
    trust_remote_code: bool,
    **rules: Any,
) -> None:
    """Find hard negatives for pairs of texts, with the encoder in ENCODER.

    The candidates of an anchor are the positives of other rows and the texts of `--corpus`. OUTPUT gets each
    row with its negatives; OUTPUT.json gets a record of how they were mined. See docs/howto/train.md.
    """
    if instruction and not anchor_prompt and not candidate_prompt:
        raise click.UsageError(
            "`--instruction` stands in a prompt: name it with `--anchor-prompt` or `--candidate-prompt`"
        )

    from functools import partial

    from sentbed.helpers import Stop

    from sentbed_corpus.hard_negatives import MiningRequest, mine_hard_negatives
    from sentbed_corpus.negative_rules import Rules
    from sentbed_corpus.progress import bar

    tables = _tables(source, overrides)
    request = MiningRequest(
        encoder=encoder,
        data=tables.data,
        output=Path(output),
        runtime=tables.runtime,
        rules=Rules(**rules),
        corpus=corpus,
        column=column,
        corpus_only=corpus_only,
        overwrite=overwrite,
        trust_remote_code=trust_remote_code,
        anchor_prompt=anchor_prompt,
        candidate_prompt=candidate_prompt,
        instruction=instruction,
    )
    say = partial(click.echo, err=True)
    with Stop(say).listening():
        mined = mine_hard_negatives(request, bar)
    rows = f"{mined.rows} rows"
    if mined.left_out:
        rows += f", {mined.left_out} left out for want of negatives"
    click.echo(f"{output}: {rows}; {mined.record} says how they were mined", err=True)
    negative_columns = mined.columns[2:]
    negative = ", ".join(f'"{name}"' for name in negative_columns)
    if len(negative_columns) > 1:
        negative = f"[{negative}]"
    # A string of JSON is one of TOML.
    path = json.dumps(output, ensure_ascii=False)
    click.echo(
        f'data = {{ use = "triplets", path = {path}, anchor = "anchor", positive = "positive", '
        f"negative = {negative} }}"
    )


@attrs.frozen
class _Tables:
    data: DataSource
    runtime: Runtime


def _tables(source: str, overrides: Sequence[str]) -> _Tables:
    """Return the data source of this name, and the runtime, which is `cpu` unless it is overridden.

    `overrides` set fields of the source as `FIELD=VALUE`, and fields of the runtime as `runtime.FIELD=VALUE`.

    Raises:
        RecipeError: with all invalid fields.
    """
    document = Document.of({"data": {"use": source}, "runtime": {"use": "cpu"}})
    paths = []
    for text in overrides:
        if text.startswith("runtime."):
            paths.append(text)
        else:
            paths.append(f"data.{text}")

    document = apply_overrides(document, paths)
    tables: _Tables = part_of(document, _Tables, load_plugins())
    return tables
