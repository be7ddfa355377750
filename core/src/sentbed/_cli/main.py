"""The command line `sentbed`, and its command `run`.

Commands import their dependencies when they are called, so that `--help` is instant.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from sentbed._cli.check import check
from sentbed._cli.common import (
    BAD_INPUT,
    FAILED,
    INTERRUPTED,
    done_elsewhere,
    set_option,
)
from sentbed._cli.plugins import plugins
from sentbed._version import __version__
from sentbed.errors import (
    PluginError,
    RecipeError,
    SentbedError,
    reason_of,
)

if TYPE_CHECKING:
    from sentbed._registry.registry import Plugins
    from sentbed._run.runner import RunResult

_PLUGINS = "sentbed.plugins"
"""Key under which click's `ctx.meta` stores the loaded plugins."""


class _Group(click.Group):
    """Group of core's commands and of plugins' commands.

    Errors are printed without a traceback, unless `--traceback` is given.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        from sentbed._registry.offers import COMMAND

        return sorted({*self.commands, *_plugins(ctx).names(COMMAND)})

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name in self.commands:
            return self.commands[name]
        from sentbed._registry.offers import COMMAND

        try:
            offer = _plugins(ctx).find(COMMAND, name)
        except PluginError as error:
            if ctx.resilient_parsing:  # that is, while a shell completes what is typed
                return None
            ctx.fail(str(error))
        try:
            command: click.Command = offer.load()
        except PluginError:
            if ctx.resilient_parsing:
                return None
            raise
        return command

    def format_commands(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        rows = {}
        for name in self.list_commands(ctx):
            try:
                command = self.get_command(ctx, name)
            except PluginError as error:
                rows[name] = str(error)
                continue
            if command is not None:
                rows[name] = (command.help or "").partition("\n")[0]
        with formatter.section("Commands"):
            formatter.write_dl(sorted(rows.items()))

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (KeyboardInterrupt, click.Abort) as error:
            _say("interrupted", error)
            ctx.exit(INTERRUPTED)
        except (click.ClickException, click.exceptions.Exit, BrokenPipeError):
            raise  # click handles these itself
        except Exception as error:
            if ctx.params.get("traceback"):
                raise
            message = reason_of(error)
            if not isinstance(error, SentbedError):
                message += " (`--traceback` shows where)"
            _say(f"error: {message}", error)
            status = BAD_INPUT if isinstance(error, RecipeError) else FAILED
            ctx.exit(status)


def _say(message: str, error: BaseException) -> None:
    """Print a message and the notes of the error (`BaseException.add_note`) to standard error."""
    for line in (message, *getattr(error, "__notes__", ())):
        click.echo(line, err=True)


def _plugins(ctx: click.Context) -> Plugins:
    """Return the plugins. They are loaded at the first call."""
    from sentbed._registry.registry import load_plugins

    if _PLUGINS not in ctx.meta:
        ctx.meta[_PLUGINS] = load_plugins()
    loaded: Plugins = ctx.meta[_PLUGINS]
    return loaded


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
@click.option(
    "--traceback", is_flag=True, help="Show where in the code an error was raised."
)
def main(traceback: bool) -> None:
    """Train and evaluate sentence encoders from a TOML recipe.

    Completion: `eval "$(_SENTBED_COMPLETE=bash_source sentbed)"`, likewise zsh_source and fish_source.
    """


@main.command()
@click.argument("recipe", type=click.Path(dir_okay=False))
@set_option()
@click.option(
    "--no-cache",
    is_flag=True,
    help="Compute every vector anew, and store none; scores do not change.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False),
    help="Run directory to create (default: runs/NAME-TIME).",
)
@click.option(
    "--resume",
    "resumed",
    type=click.Path(file_okay=False),
    help="Continue the run in this directory.",
)
@click.option(
    "--devices",
    type=click.IntRange(1),
    help="Number of devices to train and encode on; sets `runtime.devices`.",
)
def run(
    recipe: str,
    overrides: tuple[str, ...],
    no_cache: bool,
    out: str | None,
    resumed: str | None,
    devices: int | None,
) -> None:
    """Run RECIPE: train its encoders, and evaluate them. The last printed line is the path of the report.

    With `--resume DIR`, the run of RECIPE in DIR is continued where it stopped.
    """
    from sentbed._recipe.load import load_recipe
    from sentbed._run.runner import resume as resume_run
    from sentbed._run.runner import run as start_run

    if no_cache:
        overrides = (*overrides, "run.cache=false")
    if devices is not None:
        overrides = (*overrides, f"runtime.devices={devices}")

    if resumed is not None and out is not None:
        raise click.UsageError("a resumed run stays in its directory: take `--out` out")

    loaded = load_recipe(recipe, overrides)
    code = done_elsewhere(loaded.runtime, sys.argv[1:])
    if code is not None:
        sys.exit(code)

    if resumed is not None:
        result = resume_run(resumed, loaded)
    else:
        result = start_run(loaded, out)

    _print_result(result)
    if result.unmet or result.undefined:
        sys.exit(FAILED)


def _print_result(result: RunResult) -> None:
    """Print the scores that fail the run, and the path of the report."""
    if result.unmet:
        click.echo(
            f"expected numbers that were not met: {', '.join(result.unmet)}", err=True
        )
    if result.undefined:
        names = [f"{score.task}/{score.metric}" for score in result.undefined]
        click.echo(f"scores that are not a number: {', '.join(names)}", err=True)
    click.echo(result.report)


main.add_command(check)
main.add_command(plugins)
