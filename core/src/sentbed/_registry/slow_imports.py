"""Slow imports of plugins, of which the commands `sentbed check` and `sentbed plugins` warn."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from sentbed.errors import listed

LONG = 0.5
"""Seconds of processor time (not of the clock) from which on an import is called slow."""

LIBRARIES = frozenset({"torch", "jax", "transformers"})
"""Libraries that take seconds to import. Plugins must import them within functions, not at module level."""

slow_messages: dict[str, str] = {}
"""What was imported slowly, or loaded one of `LIBRARIES` -> a message with how long it took, and the remedy."""


@contextmanager
def watched(what: str) -> Iterator[None]:
    """Add `what` to `slow_messages` if the imports within the context are slow."""
    loaded_before = sys.modules.keys() & LIBRARIES
    start = time.process_time()
    try:
        yield
    finally:
        seconds = time.process_time() - start
        loaded = (sys.modules.keys() & LIBRARIES) - loaded_before
        if loaded or seconds > LONG:
            message = f"takes {seconds:.1f} s to import"
            if loaded:
                message += f" and loads {listed(sorted(loaded))} at module level"
            slow_messages[what] = f"{message}; import what is heavy where it is used"
