"""Components, commands and tables that a plugin names and does not import."""

from __future__ import annotations

import attrs


@attrs.frozen
class Lazy:
    """A component, command or recipe table that is imported when it is first used."""

    target: str
    """`package.module:name`."""
    summary: str
    """One line for `sentbed plugins` and `--help`; of a component, the first line of its docstring."""
