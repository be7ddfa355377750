"""The command `encode`, which writes the vectors of texts to disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from sentbed.tools import Document, apply_overrides, set_option, trust_option

FILE_ENDING = ".npy"
NO_OUTPUT = (".parquet", ".jsonl", ".json", ".csv", ".tsv", ".txt", ".npz", ".gz")
"""Endings of file names that `--output` refuses: it names a `.npy` file or a directory."""


@click.command()
@click.argument("encoder", type=click.Path(file_okay=False))
@click.option(
    "--input",
    "sources",
    required=True,
    multiple=True,
    metavar="PATH|-",
    help="A file, a directory or a quoted pattern; may be repeated. By their endings: .txt (one sentence a "
    "line), .jsonl, both also with .gz, .parquet. `-` is standard input.",
)
@click.option(
    "--output",
    required=True,
    type=click.Path(),
    help="A .npy file, float32, for the lines of one text file; else a directory.",
)
@click.option(
    "--runtime",
    default="cpu",
    show_default=True,
    help="Where to run.",
)
@click.option(
    "--precision",
    default=None,
    help="fp32, bf16 or auto; the runtime's default if left out.",
)
@set_option("Set a field of the runtime, such as `runtime.threads=2`.")
@click.option(
    "--column",
    default="text",
    show_default=True,
    help="Where .jsonl and .parquet have the text.",
)
@click.option(
    "--format",
    type=click.Choice(["npy", "parquet"]),
    default="npy",
    show_default=True,
    help="Format of the shards: npy is read by `sentbed_corpus.open_vectors`, parquet has a column `vector`.",
)
@click.option(
    "--dtype",
    type=click.Choice(["float32", "float16"]),
    default="float32",
    show_default=True,
    help="Type of the vectors' numbers.",
)
@click.option(
    "--keep",
    default="",
    metavar="COLUMN,...",
    help="Columns to copy beside the vectors (parquet).",
)
@click.option(
    "--shard-rows",
    type=click.IntRange(1),
    default=65_536,
    show_default=True,
    help="Rows that are held in memory, written together, and lost when a worker dies.",
)
@click.option(
    "--overwrite",
    is_flag=True,
    help="Start again, where the directory has other vectors.",
)
@click.option(
    "--executor",
    "executor_name",
    default="local",
    show_default=True,
    help="Who encodes: `local`, processes of this machine, `ray`, or another that a plugin offers.",
)
@click.option(
    "--workers",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="How many.",
)
@click.option(
    "--cpus-per-worker",
    type=click.IntRange(1),
    help="Threads of each; equal parts if left out.",
)
@click.option(
    "--gpus-per-worker",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="GPUs that each has for itself; with 0, local workers see all of them.",
)
@click.option(
    "--ray-address",
    help="Address of a running cluster, or `auto`; if left out, RAY_ADDRESS, else this machine.",
)
@click.option(
    "--prompt",
    default="",
    metavar="KEY",
    help="The encoder's prompt of `task_prompts` to put around the texts: `query`, `document`, `SciFact-query`.",
)
@click.option(
    "--instruction",
    default="",
    metavar="TEXT",
    help="What stands for `{instruction}` in that prompt.",
)
@trust_option
@click.pass_context
def encode(
    ctx: click.Context,
    /,
    encoder: str,
    sources: Sequence[str],
    output: str,
    **options: Any,
) -> None:
    """Encode texts with the encoder in ENCODER; row i of the vectors is text i.

    If the output is a directory, inputs are encoded shard by shard. If the command is stopped or killed, run it
    again: it does only what is missing. See docs/encoding.md.
    """
    if options["instruction"] and not options["prompt"]:
        raise click.UsageError(
            "`--instruction` stands in a prompt: name it with `--prompt`"
        )
    table = _runtime_table(options)
    if output.lower().endswith(NO_OUTPUT) and not Path(output).is_dir():
        stem = output[: output.rindex(".")]
        raise click.UsageError(
            f"`{output}` would be one file, found in `--output`; a `{FILE_ENDING}` file takes the lines of "
            f"one text file, anything else goes into a directory: `--output {stem} --format parquet` writes "
            f"Parquet files into `{stem}`"
        )
    if output.lower().endswith(FILE_ENDING) and not Path(output).is_dir():
        _encode_lines(ctx, encoder, sources, output, table, options)
    else:
        _encode_corpus(encoder, sources, output, table, options)


def _runtime_table(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the table of the runtime from the options `--runtime`, `--precision` and `--set`."""
    for override in options["overrides"]:
        if not override.startswith("runtime."):
            raise click.UsageError(
                f"found `--set {override}`, expected a field of the runtime, "
                "`--set runtime.FIELD=VALUE`"
            )
    table = {"use": options["runtime"]}
    if options["precision"]:
        table["precision"] = options["precision"]
    document = apply_overrides(Document.of({"runtime": table}), options["overrides"])
    runtime: Mapping[str, Any] = document.data["runtime"]
    return runtime


def _encode_lines(
    ctx: click.Context,
    encoder: str,
    sources: Sequence[str],
    output: str,
    table: Mapping[str, Any],
    options: Mapping[str, Any],
) -> None:
    from sentbed_corpus.encode_lines import encode_lines

    accepted = (
        "ctx",
        "encoder",
        "sources",
        "output",
        "runtime",
        "precision",
        "overrides",
        "prompt",
        "instruction",
        "trust_remote_code",
    )
    refused = []
    for parameter in ctx.command.params:
        origin = ctx.get_parameter_source(parameter.name or "")
        if parameter.name not in accepted and origin == ParameterSource.COMMANDLINE:
            refused.append(parameter.opts[0])

    for source in sources:
        if source.lower().endswith((".gz", ".jsonl", ".parquet")):
            refused.append(f"`{source}`")

    if len(sources) > 1:
        refused.append("several inputs")
    if refused:
        raise click.UsageError(
            f"a `{FILE_ENDING}` file takes the lines of one text file, found {refused[0]}; "
            "name a directory with `--output`"
        )
    rows, width = encode_lines(
        encoder,
        table,
        sources[0],
        Path(output),
        options["trust_remote_code"],
        options["prompt"],
        options["instruction"],
    )
    click.echo(f"{output}: {rows} x {width}", err=True)


def _encode_corpus(
    encoder: str,
    sources: Sequence[str],
    output: str,
    table: Mapping[str, Any],
    options: Mapping[str, Any],
) -> None:
    from functools import partial

    from sentbed.helpers import Stop
    from sentbed.tools import load_plugins
    from sentbed_jobs.executor_lookup import executor_of

    from sentbed_corpus import Request, encode_corpus
    from sentbed_corpus.encode_lines import bar
    from sentbed_corpus.plurals import count

    if "-" in sources:
        raise click.UsageError(
            f"standard input can be encoded into a `{FILE_ENDING}` file only: it cannot be read again"
        )
    local = options["executor_name"] == "local"
    if local and options["ray_address"]:
        raise click.UsageError("`--ray-address` is for `--executor ray`")
    if local and options["gpus_per_worker"] and options["workers"] == 1:
        raise click.UsageError(
            "`--gpus-per-worker` is for several workers: a single one has all GPUs"
        )
    if options["gpus_per_worker"] and options["runtime"] == "cpu":
        raise click.UsageError(
            "`--gpus-per-worker` is for a runtime with GPUs: add `--runtime cuda`"
        )
    say = partial(click.echo, err=True)
    columns = map(str.strip, options["keep"].split(","))
    request = Request(
        encoder=encoder,
        inputs=tuple(sources),
        output=Path(output),
        runtime=table,
        column=options["column"],
        keep=tuple(filter(None, columns)),
        format=options["format"],
        dtype=options["dtype"],
        shard_rows=options["shard_rows"],
        trust_remote_code=options["trust_remote_code"],
        prompt=options["prompt"],
        instruction=options["instruction"],
    )
    executor_options = {
        "workers": options["workers"],
        "cpus": options["cpus_per_worker"],
        "gpus": options["gpus_per_worker"] or None,
        "address": options["ray_address"],
    }
    workers = executor_of(
        options["executor_name"], executor_options, load_plugins(), say
    )
    with Stop(say).listening():
        summary = encode_corpus(
            request,
            workers,
            overwrite=options["overwrite"],
            say=say,
            bar=bar,
        )
    line = f"{output}: {summary.rows} x {summary.width} in {count(summary.shards, 'shard')}"
    if summary.encoded:
        line += f", {summary.encoded / summary.seconds:.0f} rows/s"
    click.echo(line, err=True)
