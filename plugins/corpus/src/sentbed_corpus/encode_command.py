"""The command `encode`, which writes the vectors of texts to disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from sentbed.tools import Document, apply_overrides, set_option, trust_option

if TYPE_CHECKING:
    from sentbed_corpus import Request

FILE_ENDING = ".npy"


@click.command()
@click.argument("encoder", type=click.Path(file_okay=False))
@click.option(
    "--input",
    "sources",
    required=True,
    multiple=True,
    metavar="PATH|-",
    help="A file, a directory or a quoted pattern; may be repeated. By their endings: .txt (one text a line), "
    ".csv, .tsv, .jsonl, all also with .gz, .parquet, .arrow. `hub:OWNER/NAME` is a data set. "
    "`-` is standard input.",
)
@click.option(
    "--output",
    required=True,
    type=click.Path(),
    help="A .npy file, which is encoded in memory; else a directory of shards.",
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
    help="Where tables have the text.",
)
@click.option(
    "--dtype",
    type=click.Choice(["float32", "float16"]),
    default="float32",
    show_default=True,
    help="Type of the vectors' numbers.",
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
def encode(
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
    request = _request(encoder, sources, output, options)
    if output.lower().endswith(FILE_ENDING) and not Path(output).is_dir():
        _encode_array(request, options)
    else:
        _encode_corpus(request, options)


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


def _request(
    encoder: str,
    sources: Sequence[str],
    output: str,
    options: Mapping[str, Any],
) -> Request:
    from sentbed_corpus import Request

    return Request(
        encoder=encoder,
        inputs=tuple(sources),
        output=Path(output),
        runtime=_runtime_table(options),
        column=options["column"],
        dtype=options["dtype"],
        shard_rows=options["shard_rows"],
        trust_remote_code=options["trust_remote_code"],
        prompt=options["prompt"],
        instruction=options["instruction"],
    )


def _encode_array(request: Request, options: Mapping[str, Any]) -> None:
    from sentbed_corpus.corpus_encoding import encode_array
    from sentbed_corpus.progress import bar

    if options["workers"] > 1 or options["executor_name"] != "local":
        raise click.UsageError(
            f"a `{FILE_ENDING}` file is written by this process; name a directory for other "
            "workers"
        )
    rows, width = encode_array(request, bar)
    click.echo(f"{request.output}: {rows} x {width}", err=True)


def _encode_corpus(request: Request, options: Mapping[str, Any]) -> None:
    from functools import partial

    from sentbed.helpers import Stop
    from sentbed.protocols import Executor
    from sentbed.tools import component_of

    from sentbed_corpus import encode_corpus
    from sentbed_corpus.input_texts import STANDARD_INPUT
    from sentbed_corpus.progress import bar

    if STANDARD_INPUT in request.inputs:
        raise click.UsageError(
            f"standard input can be encoded into a `{FILE_ENDING}` file only: it cannot be read again"
        )
    say = partial(click.echo, err=True)
    table = {"use": options["executor_name"], "workers": options["workers"]}
    if options["cpus_per_worker"]:
        table["cpus"] = options["cpus_per_worker"]
    if options["gpus_per_worker"]:
        table["gpus"] = options["gpus_per_worker"]
    if options["ray_address"]:
        table["address"] = options["ray_address"]
    executor = component_of(Executor, table, key="executor")
    with Stop(say).listening():
        summary = encode_corpus(
            request,
            executor,
            overwrite=options["overwrite"],
            say=say,
            bar=bar,
        )
    line = f"{request.output}: {summary.rows} texts, shards: {summary.shards}"
    if summary.encoded:
        line += f", {summary.encoded / summary.seconds:.0f} texts/s"
    click.echo(line, err=True)
