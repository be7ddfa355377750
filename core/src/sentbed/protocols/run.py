"""A run, as lifecycle hooks see it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs


@attrs.frozen(eq=False)
class Run:
    """What lifecycle hooks are told about the run; nothing in it can be changed."""

    name: str
    directory: Path
    recipe: Any
    """The recipe; its type is `sentbed.tools.Recipe`."""
    facts: Mapping[str, Any]
    """What the manifest will say, as far as it is known: versions, machine, data, engine, counters."""
