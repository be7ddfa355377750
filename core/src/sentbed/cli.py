"""The command line. Every command imports what it needs when it is called: `--help` is to be instant."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from sentbed import __version__
from sentbed.cli_check import check
from sentbed.cli_common import BAD_INPUT, FAILED, INTERRUPTED, set_option
from sentbed.cli_data import cache, data
from sentbed.cli_encode import encode
from sentbed.cli_exchange import export, import_
from sentbed.cli_explain import explain
from sentbed.cli_machine import doctor
from sentbed.cli_new import new
from sentbed.cli_plan import plan
from sentbed.cli_plugins import components_of, plugins
from sentbed.cli_recipes import diff, migrate, schema
from sentbed.cli_reproduce import reproduce
from sentbed.cli_results import compare, table
from sentbed.cli_study import study
from sentbed.errors import RecipeError, SentbedError


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


_set = set_option()


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
@click.option("--devices", type=click.IntRange(1), help="Devices to train and encode on; `runtime.devices`.")
def run(
    recipe: str | None,
    overrides: tuple[str, ...],
    no_cache: bool,
    out: str | None,
    resumed: str | None,
    allow_changes: bool,
    devices: int | None,
) -> None:
    """Run RECIPE; the last line printed is the path of its report.

    With `--resume DIR`, go on with the run in DIR where it was stopped; RECIPE may then be left out.
    """
    from sentbed.processes import done_elsewhere
    from sentbed.recipe import RESOLVED, load_recipe

    if no_cache:
        overrides = (*overrides, "run.cache=false")
    if devices is not None:
        overrides = (*overrides, f"runtime.devices={devices}")
    if resumed is None and recipe is None:
        raise click.UsageError("name a RECIPE, or a run to go on with (`--resume DIR`)")
    if resumed is None and allow_changes:
        raise click.UsageError("`--allow-changes` is for `--resume`")
    if resumed is not None and out is not None:
        raise click.UsageError("a resumed run stays in its directory: take `--out` out")
    resolved = Path(resumed or "") / RESOLVED
    if recipe is None and resolved.is_file():
        recipe = str(resolved)
    loaded = None if recipe is None else load_recipe(recipe, overrides)
    if loaded is not None and (code := done_elsewhere(loaded.runtime, sys.argv[1:])) is not None:
        sys.exit(code)
    if resumed is not None:
        from sentbed.resuming import resume

        result = resume(resumed, loaded, allow_changes=allow_changes)
    elif loaded is not None:
        from sentbed.runner import run as run_recipe

        result = run_recipe(loaded, out)
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

    from sentbed.processes import done_elsewhere
    from sentbed.recipe import load_recipe
    from sentbed.search import search as search_recipe

    signal.signal(signal.SIGTERM, _interrupt)
    loaded = load_recipe(recipe, overrides)
    if (code := done_elsewhere(loaded.runtime, sys.argv[1:])) is not None:
        sys.exit(code)
    result = search_recipe(loaded, out, say=partial(click.echo, err=True))
    click.echo(result.report)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt("ended by SIGTERM")


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
@click.argument("kind")
@click.argument("name", required=False)
def show(kind: str, name: str | None) -> None:
    """Show a component (`show loss info-nce`): its fields, defaults, units and source, and an example.

    Without a NAME, the components of a kind (`show loss`), or a table of a recipe: `show stage`,
    `show validate`, `show checkpoint` ...
    """
    from sentbed.registry import KINDS, load_plugins
    from sentbed.show import describe, describe_table, tables

    known = [*KINDS, *tables()] if name is None else [*KINDS]
    if kind not in known:
        what = "kind of component" + (" or table of a recipe" if name is None else "")
        raise click.UsageError(f"there is no {what} `{kind}`; choose one of {', '.join(known)}")
    if name is not None:
        click.echo(describe(load_plugins().find(kind, name)))
    elif kind in KINDS:
        click.echo("\n".join(components_of(kind, load_plugins())))
    else:
        click.echo(describe_table(kind))


for _command in (
    reproduce,
    check,
    explain,
    study,
    encode,
    compare,
    table,
    data,
    cache,
    doctor,
    plan,
    plugins,
    new,
    export,
    import_,
    schema,
    diff,
    migrate,
):
    main.add_command(_command)
