"""`Run`: the run, as passed to lifecycle hooks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs


@attrs.frozen(eq=False)
class Run:
    """Read-only information about the run for lifecycle hooks."""

    name: str
    directory: Path
    recipe: Any
    """The recipe, a `sentbed.tools.Recipe`."""
    facts: Mapping[str, Any]
    """Content of the manifest so far: versions, machine, data, engine, counters."""
