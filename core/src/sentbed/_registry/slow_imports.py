"""Slow imports of plugins, of which the commands `sentbed check` and `sentbed plugins` warn."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

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
def watched(what: str, module: str) -> Iterator[None]:
    """Measure the import of a module in the block; add a message on `what` if it is slow or heavy.

    Nothing is measured if the module has been imported before.
    """
    if module in sys.modules:
        yield
        return

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
