"""The command line. Every command imports what it needs when it is called: `--help` is to be instant."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from sentbed import __version__
from sentbed.errors import RecipeError, SentbedError

if TYPE_CHECKING:
    from sentbed.registry import Plugins

BAD_INPUT, FAILED, INTERRUPTED = 2, 1, 130
"""Exit codes: what was asked for cannot be done; a run failed or missed its `[expected]`; Ctrl-C."""


class _Group(click.Group):
    """Turns sentbed's errors into messages, unless `--traceback` is given."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except SentbedError as error:
            if ctx.params.get("traceback"):
                raise
            for line in (f"error: {error}", *getattr(error, "__notes__", ())):
                click.echo(line, err=True)
            ctx.exit(BAD_INPUT if isinstance(error, RecipeError) else FAILED)
        except (KeyboardInterrupt, click.Abort) as error:
            for line in ("interrupted", *getattr(error, "__notes__", ())):
                click.echo(line, err=True)
            ctx.exit(INTERRUPTED)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
@click.option("--traceback", is_flag=True, help="Show where in the code an error was raised.")
def main(traceback: bool) -> None:
    """Test sentence encoders: one TOML recipe, end to end.

    Completion: `eval "$(_SENTBED_COMPLETE=bash_source sentbed)"`, likewise zsh_source and fish_source.
    """


_set = click.option(
    "--set", "overrides", multiple=True, metavar="PATH=VALUE", help="Override a value; PATH= takes a key out."
)


_no_cache = click.option(
    "--no-cache", is_flag=True, help="Compute every vector, and keep none; no score depends on it."
)


@main.command()
@click.argument("recipe", type=click.Path(dir_okay=False), required=False)
@_set
@_no_cache
@click.option("--out", type=click.Path(file_okay=False), help="The run directory; runs/NAME-TIME by default.")
@click.option(
    "--resume", "resumed", type=click.Path(file_okay=False), help="Go on with the run in this directory."
)
@click.option("--allow-changes", is_flag=True, help="Resume although recipe or data have changed.")
def run(
    recipe: str | None,
    overrides: tuple[str, ...],
    no_cache: bool,
    out: str | None,
    resumed: str | None,
    allow_changes: bool,
) -> None:
    """Run RECIPE; the last line printed is the path of its report.

    With `--resume DIR`, go on with the run in DIR where it was stopped; RECIPE may then be left out.
    """
    import signal

    from sentbed.recipe import load_recipe

    # Batch systems end a job with SIGTERM: it is to leave a usable run directory as Ctrl-C does.
    signal.signal(signal.SIGTERM, _interrupt)
    if no_cache:
        overrides = (*overrides, "run.cache=false")
    if resumed is None:
        from sentbed.runner import run as run_recipe

        if recipe is None:
            raise click.UsageError("name a RECIPE, or a run to go on with (`--resume DIR`)")
        if allow_changes:
            raise click.UsageError("`--allow-changes` is for `--resume`")
        result = run_recipe(load_recipe(recipe, overrides), out)
    else:
        from sentbed.resuming import resume

        if out is not None:
            raise click.UsageError("a resumed run stays in its directory: take `--out` out")
        if recipe is None and overrides:
            recipe = str(Path(resumed) / "resolved.toml")
        given = None if recipe is None else load_recipe(recipe, overrides)
        result = resume(resumed, given, allow_changes=allow_changes)
    if result.unmet:
        click.echo(f"expected numbers that were not met: {', '.join(result.unmet)}", err=True)
    click.echo(result.report)
    if result.unmet:
        sys.exit(FAILED)


@main.command()
@click.argument("recipe", type=click.Path(dir_okay=False))
@_set
@click.option("--out", type=click.Path(file_okay=False), help="Where to write; runs/NAME-search by default.")
def search(recipe: str, overrides: tuple[str, ...], out: str | None) -> None:
    """Find the best demonstration for RECIPE's prompt, on development data.

    Stopped, it goes on where it was when started again. The last line printed is the path of its report.
    """
    import signal
    from functools import partial

    from sentbed.recipe import load_recipe
    from sentbed.search import search as search_recipe

    signal.signal(signal.SIGTERM, _interrupt)
    result = search_recipe(load_recipe(recipe, overrides), out, say=partial(click.echo, err=True))
    click.echo(result.report)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt("ended by SIGTERM")


@main.command()
@click.argument("recipes", nargs=-1, required=True, type=click.Path(dir_okay=False))
@_set
def check(recipes: Sequence[str], overrides: tuple[str, ...]) -> None:
    """Find every problem of each of RECIPES, without loading anything heavy."""
    from sentbed.recipe import load_recipe
    from sentbed.registry import load_plugins

    plugins = load_plugins()
    bad = 0
    for recipe in recipes:
        try:
            load_recipe(recipe, overrides, plugins)
        except RecipeError as error:
            bad += 1
            for problem in error.problems:
                click.echo(problem)
        else:
            click.echo(f"{recipe}: no problems")
    if bad:
        sys.exit(BAD_INPUT)


@main.command()
@click.argument("encoder", type=click.Path(file_okay=False))
@click.option("--input", "source", required=True, metavar="FILE|-", help="One sentence a line, UTF-8.")
@click.option("--output", required=True, type=click.Path(dir_okay=False), help="A .npy file, float32.")
@click.option("--runtime", default="cpu", show_default=True, help="Where to run.")
@click.option("--precision", default=None, help="fp32, bf16 or auto; the runtime's default if left out.")
def encode(encoder: str, source: str, output: str, runtime: str, precision: str | None) -> None:
    """Encode the lines of a file with the encoder in ENCODER; row i is line i."""
    from sentbed.bulk import encode_lines

    table = {"use": runtime} | ({"precision": precision} if precision else {})
    rows, width = encode_lines(encoder, table, source, Path(output))
    click.echo(f"{output}: {rows} x {width}", err=True)


@main.command()
@click.argument("encoder", type=click.Path(file_okay=False))
@click.option("--with", "evaluator", required=True, help="An evaluator by name; see `sentbed plugins`.")
@_set
@_no_cache
@click.option("--json", "as_json", is_flag=True, help="Print the scores as JSON, with their protocols.")
def evaluate(encoder: str, evaluator: str, overrides: tuple[str, ...], no_cache: bool, as_json: bool) -> None:
    """Evaluate the encoder in ENCODER.

    `--set` sets the evaluator's fields (`tasks=["STSB"]`) and the runtime's (`runtime.precision=bf16`).
    """
    import json
    from functools import partial

    from sentbed.bulk import evaluate_encoder
    from sentbed.report.record import plain, score_record
    from sentbed.vectors import VectorStore

    store = None if no_cache else VectorStore(say=partial(click.echo, err=True))
    evaluation = evaluate_encoder(encoder, evaluator, overrides, store)
    if as_json:
        click.echo(json.dumps([plain(score_record(score)) for score in evaluation.scores], indent=2))
    else:
        for score in evaluation.scores:
            click.echo(f"{score.task:<14} {score.metric:<16} {score.protocol_name:<24} {score.value:>8.2f}")


@main.command()
@click.argument("run_a", type=click.Path(file_okay=False))
@click.argument("run_b", type=click.Path(file_okay=False))
@click.option(
    "--encoder", "encoders", multiple=True, metavar="NAME", help="Of both runs; given twice, of A and of B."
)
@click.option("--resamples", type=click.IntRange(100), default=1000, show_default=True, help="Draws.")
@click.option(
    "--method",
    type=click.Choice(["bootstrap", "randomisation"]),
    default="bootstrap",
    show_default=True,
    help="Where the p-value comes from.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def compare(
    run_a: str,
    run_b: str,
    encoders: tuple[str, ...],
    resamples: int,
    method: Literal["bootstrap", "randomisation"],
    as_json: bool,
) -> None:
    """Compare the encoders of RUN_A and RUN_B, score by score: difference, interval and p-value.

    Only scores of one protocol are compared; what the encoders themselves differ in is remarked. Encoders
    before and after training: `sentbed compare RUN RUN --encoder NAME@start --encoder NAME`.
    """
    from sentbed.report.results import compare_runs, comparison_json, comparison_text

    if len(encoders) > 2:
        raise click.UsageError("`--encoder` names one encoder for both runs, or one for each")
    found = compare_runs(run_a, run_b, encoders, resamples, method)
    click.echo(comparison_json(found) if as_json else comparison_text(found))


@main.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(file_okay=False))
@click.option("--evaluator", help="Only the scores of this evaluator.")
@click.option("--protocol", help="Only the scores of this protocol id, or with ENTRY=VALUE.")
@click.option("--metric", help="Only the scores of this metric, such as `uniformity` or `f1`.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "markdown", "latex", "csv"]),
    default="text",
    show_default=True,
    help="LaTeX is for the package booktabs.",
)
def table(
    runs: Sequence[str], evaluator: str | None, protocol: str | None, metric: str | None, form: str
) -> None:
    """Print the scores of RUNS as papers do: an encoder a row, a task a column, then the average.

    Of a task that an evaluator scores by several metrics it is the first, or that of `--metric`. Several
    tables as CSV are one, with a value a line.
    """
    from sentbed.report.formats import FORMATS, to_long_csv
    from sentbed.report.results import run_tables

    found = run_tables(runs, evaluator, protocol, metric)
    if form == "csv" and len(found) > 1:
        click.echo(to_long_csv(found), nl=False)
        return
    click.echo("\n".join(FORMATS[form](table) for table in found), nl=False)


@main.command()
@click.argument("encoder", type=click.Path(file_okay=False))
@click.argument("output", type=click.Path(file_okay=False))
def export(encoder: str, output: str) -> None:
    """Write the encoder in ENCODER to OUTPUT with its adapters merged: plain weights, the same vectors to the
    rounding of the backbone's `dtype`.
    """
    from sentbed.encoder import Encoder

    Encoder.load(encoder).export(output)
    click.echo(output)


@main.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def plugins(as_json: bool) -> None:
    """List the installed plugins and what they offer."""
    from sentbed.registry import KINDS, load_plugins

    found = load_plugins()
    if as_json:
        click.echo(_plugins_json(found))
        return
    for plugin in found.plugins:
        state = f"cannot be loaded: {plugin.problem}" if plugin.problem else ""
        click.echo(f"{plugin.name} ({plugin.distribution} {plugin.version}) {state}".rstrip())
    for kind in KINDS:
        for name in found.names(kind):
            info = found.find(kind, name)
            click.echo(f"  {kind:<10} {name:<18} {info.summary}")


def _plugins_json(found: Plugins) -> str:
    import json

    import attrs

    return json.dumps(
        {
            "plugins": [attrs.asdict(plugin) for plugin in found.plugins],
            "components": [
                {
                    "kind": info.kind,
                    "name": info.name,
                    "distribution": info.distribution,
                    "version": info.version,
                    "summary": info.summary,
                }
                for info in found.components.values()
            ],
        },
        indent=2,
    )


def _kinds() -> list[str]:
    from sentbed.registry import KINDS

    return list(KINDS)


@main.command()
@click.argument("kind")
@click.argument("name", required=False)
def show(kind: str, name: str | None) -> None:
    """Show a component (`show loss info-nce`): its fields, defaults, units and source, and an example.

    Without a NAME, a table of a recipe: `show stage`, `show validate`, `show checkpoint` ...
    """
    from sentbed.registry import load_plugins
    from sentbed.show import describe, describe_table, tables

    known = tables() if name is None else _kinds()
    if kind not in known:
        what = "table of a recipe" if name is None else "kind of component"
        hint = f"; name one: `sentbed show {kind} NAME`" if kind in _kinds() else ""
        raise click.UsageError(f"there is no {what} `{kind}`{hint}; choose one of {', '.join(known)}")
    click.echo(describe_table(kind) if name is None else describe(load_plugins().find(kind, name)))


@main.group()
def data() -> None:
    """Find, check and download the data sets that the plugins know."""


_data_dir = click.option(
    "--dir",
    "directory",
    type=click.Path(file_okay=False),
    help="The data directory; SENTBED_DATA by default.",
)
_digests = click.option("--check", "digests", is_flag=True, help="Compare digests too, beside row counts.")


@data.command("list")
@_data_dir
@_digests
def data_list(directory: str | None, digests: bool) -> None:
    """List the known data: name, state, what it is for."""
    from sentbed.known import collections, look
    from sentbed.paths import data_root
    from sentbed.registry import load_plugins

    base = data_root() if directory is None else Path(directory)
    for name, known in collections(load_plugins()).items():
        found = look(known, base, digests)
        click.echo(f"{name:<18} {found.state:<16} {known.summary}")
        if found.detail:
            click.echo(f"{'':<18} {found.detail}")
    if base is None:
        click.echo("SENTBED_DATA is not set: name the data directory with `--dir`", err=True)


@data.command("where")
@click.argument("name", required=False)
@_data_dir
@_digests
def data_where(name: str | None, directory: str | None, digests: bool) -> None:
    """Show where the files of NAME (or of all known data) are or would have to be, and the state of each."""
    from sentbed.known import collections, find, how_to_get, look
    from sentbed.paths import data_root
    from sentbed.registry import load_plugins

    base = data_root() if directory is None else Path(directory)
    loaded = load_plugins()
    for known in collections(loaded).values() if name is None else [find(loaded, name)]:
        found = look(known, base, digests)
        click.echo(f"{known.name}: {found.state}, {found.directory}")
        for item in found.files:
            click.echo(f"  {item.state:<16} {item.path.relative_to(found.directory)}  {item.detail}".rstrip())
        click.echo(f"  source: {known.source}" + (f" ({known.licence})" if known.licence else ""))
        if found.bad:
            click.echo(f"  {how_to_get(known)}")


@data.command("get")
@click.argument("name")
@_data_dir
def data_get(name: str, directory: str | None) -> None:
    """Download what is missing of NAME; stopped, it goes on where it was when started again."""
    from sentbed.download import Bars
    from sentbed.getting import get
    from sentbed.known import UNKNOWN, data_base, find
    from sentbed.paths import DATA_VARIABLE, data_root
    from sentbed.registry import load_plugins

    known = find(load_plugins(), name)
    base = data_base(directory)
    with Bars() as bars:
        found = get(known, base, bars)
    for item in found.files:
        if item in found.bad or item.state == UNKNOWN:
            click.echo(f"{item.state}: {item.path} {item.detail}".rstrip(), err=True)
    if found.bad:
        raise SentbedError(
            f"{len(found.bad)} of {len(found.files)} files of `{name}` are not what they should be; "
            f"{known.advice or f'see {known.source}'}"
        )
    root = data_root()
    if root is None or root.absolute() != base.absolute():
        click.echo(f"for sentbed to find it: export {DATA_VARIABLE}={base.absolute()}", err=True)
    click.echo(f"{found.directory}: {found.state}")


@main.group()
def cache() -> None:
    """Look at the vectors that evaluations have kept on this machine, or remove them."""


@cache.command()
def info() -> None:
    """Say where the vectors are, how many, and of which encoders."""
    from datetime import datetime

    from sentbed.vectors import LIMIT_VARIABLE, VectorStore

    store = VectorStore()
    spaces = store.held()
    click.echo(f"place    {store.root}")
    click.echo(f"size     {_gigabytes(sum(space.size for space in spaces))}")
    click.echo(f"limit    {_gigabytes(store.limit)} ({LIMIT_VARIABLE})")
    click.echo(
        f"vectors  {sum(space.vectors for space in spaces):,} of {len(spaces)} "
        f"encoder{'s' * (len(spaces) != 1)}"
    )
    for space in spaces:
        keys = ("model", "pooler", "width", "precision", "max_length")
        model, pooler, width, precision, length = (space.about.get(key, "?") for key in keys)
        used = f"{datetime.fromtimestamp(space.used):%Y-%m-%d %H:%M}"
        counts = f"{space.vectors:>10,} x {width:<5} {_gigabytes(space.size):>10}"
        click.echo(f"  {used}  {counts}  {pooler:<16} {precision} {length:>4} tokens  {model}")


@cache.command()
@click.option(
    "--older-than",
    type=click.FloatRange(0),
    metavar="DAYS",
    default=0.0,
    help="Only what was not used since.",
)
def clear(older_than: float) -> None:
    """Remove the vectors, or those that were not used for some days."""
    from sentbed.vectors import VectorStore

    store = VectorStore()
    click.echo(f"removed {_gigabytes(store.clear(older_than))} from {store.root}")


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.3f} GB"


@main.group()
def new() -> None:
    """Start something from a template."""


@new.command()
@click.argument("path", required=False, type=click.Path(dir_okay=False))
def recipe(path: str | None) -> None:
    """Write a commented recipe to PATH, or print it."""
    from sentbed.show import RECIPE_TEMPLATE

    if path is None:
        click.echo(RECIPE_TEMPLATE, nl=False)
        return
    if Path(path).exists():
        raise SentbedError(f"`{path}` exists already; choose another name")
    from sentbed.paths import write_atomic

    write_atomic(Path(path), RECIPE_TEMPLATE)
    click.echo(f"{path}: try `sentbed check {path}`, then `sentbed run {path}`")
