"""Code that the commands share: exit codes, options, and starting several processes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from sentbed.protocols import Runtime

BAD_INPUT, FAILED, INTERRUPTED = 2, 1, 130
"""Exit codes of all commands.

`BAD_INPUT`: the recipe or the arguments are wrong. `FAILED`: a run failed, or a score after training was not a
number, or not what `[expected]` says. `INTERRUPTED`: the user pressed Ctrl-C.
"""


def set_option(
    help: str = "Override a value; PATH= takes a key out.",
) -> Callable[[Any], Any]:
    """Return the option `--set PATH=VALUE`, which may be given several times."""
    return click.option(
        "--set",
        "overrides",
        multiple=True,
        metavar="PATH=VALUE",
        help=help,
    )


trust_option = click.option(
    "--trust-remote-code",
    is_flag=True,
    help="Run Python code that comes with the encoder's model.",
)


def done_elsewhere(runtime: Runtime, arguments: Sequence[str]) -> int | None:
    """Return the exit code if other processes run the recipe, or None if this process has to run it.

    If the runtime needs several processes, they are started with `sentbed` and these arguments, and this process
    waits until they end. If this process is one of several, but not the first, it serves the first process until
    that one ends.

    Raises:
        RuntimeUnavailableError: if the runtime cannot be used on this machine.
    """
    from sentbed._recipe.checks import require_available

    require_available(runtime)
    code = runtime.launch([sys.executable, "-m", "sentbed", *arguments])
    if code is not None:
        return code
    return 0 if runtime.serve() else None
