"""Subcommands of `sentbed` that plugins offer."""

from __future__ import annotations

import attrs


@attrs.frozen
class LazyCommand:
    """A `click.Command` that is imported when it is called."""

    target: str
    """`package.module:attribute`."""
    help: str
    """One line for `sentbed --help`."""
