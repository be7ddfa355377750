"""Code shared by commands: exit codes, options and launching several processes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from sentbed.errors import printable

if TYPE_CHECKING:
    from sentbed.protocols import Runtime

BAD_INPUT, FAILED, INTERRUPTED = 2, 1, 130
"""Exit codes: the request cannot be carried out; a run failed or missed its `[expected]`; Ctrl-C."""


def echo(
    message: object = "", *, err: bool = False, nl: bool = True, coloured: bool = False
) -> None:
    """Print a line on standard output, or with `err` on standard error; see `printable`.

    All commands print with this function. A `coloured` message contains codes for the terminal; its parts have
    passed `printable` before.
    """
    text = str(message)
    if not coloured:
        text = printable(text)
    click.echo(text, err=err, nl=nl)


def set_option(
    help: str = "Override a value; PATH= takes a key out.",
) -> Callable[[Any], Any]:
    """Return the option `--set PATH=VALUE`, which may be given several times."""
    return click.option(
        "--set", "overrides", multiple=True, metavar="PATH=VALUE", help=help
    )


trust_option = click.option(
    "--trust-remote-code",
    is_flag=True,
    help="Run Python code that comes with the encoder's model.",
)


def done_elsewhere(runtime: Runtime, arguments: Sequence[str]) -> int | None:
    """Return the exit code if another process runs the recipe, or None if this one does.

    If the runtime needs several processes, start them with these arguments of `sentbed` and wait for them.
    If this process is one of them but not the first, serve the first one until it ends.

    Raises:
        RuntimeUnavailableError: if the runtime cannot be used on this machine.
    """
    from sentbed._recipe.checks import require_available

    require_available(runtime)
    code = runtime.launch([sys.executable, "-m", "sentbed", *arguments])
    if code is not None:
        return code
    return 0 if runtime.serve() else None
