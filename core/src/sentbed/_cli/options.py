"""What several commands share: exit codes and options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

BAD_INPUT, FAILED, INTERRUPTED = 2, 1, 130
"""Exit codes: what was asked for cannot be done; a run failed or missed its `[expected]`; Ctrl-C."""


def set_option(help: str = "Override a value; PATH= takes a key out.") -> Callable[[Any], Any]:
    """Return the option `--set PATH=VALUE`, which may be given several times."""
    return click.option("--set", "overrides", multiple=True, metavar="PATH=VALUE", help=help)


set_before_axes = set_option("Override a value, before the axes do.")
