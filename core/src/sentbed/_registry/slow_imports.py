"""Slow imports of plugins, of which the commands `sentbed check` and `sentbed plugins` warn."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout

from sentbed.errors import listed

LONG = 0.5
"""Seconds of processor time above which an import is reported as slow."""

LIBRARIES = frozenset({"torch", "jax", "transformers"})
"""Libraries that take seconds to import. Plugins must import them within functions, not at module level."""

slow_messages: dict[str, str] = {}
"""For each plugin or component whose import was slow: how long it took, and a remedy.

A key is what messages call the plugin or the component.
"""


@contextmanager
def watched(what: str) -> Iterator[None]:
    """Measure the imports in the block; if they are slow or load one of `LIBRARIES`, add a message on `what`.

    What the imported modules print goes to standard error, since a command may print JSON.
    """
    loaded_before = sys.modules.keys() & LIBRARIES
    start = time.process_time()
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        seconds = time.process_time() - start
        loaded = (sys.modules.keys() & LIBRARIES) - loaded_before
        if loaded or seconds > LONG:
            message = f"takes {seconds:.1f} s to import"
            if loaded:
                message += f" and loads {listed(sorted(loaded))} at module level"
            slow_messages[what] = f"{message}; import what is heavy where it is used"
