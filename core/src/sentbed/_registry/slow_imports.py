"""Slow imports of plugins, which `check` and `plugins` warn of."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

LONG = 0.5
"""Seconds of processor time after which an import is called slow; a busy machine changes nothing."""

LIBRARIES = frozenset({"torch", "jax", "transformers"})
"""Libraries that take seconds to import, and that no plugin needs before something is built."""

slow: dict[str, str] = {}
"""What this process has imported slowly, or with one of the libraries -> what it did, and a remedy."""


@contextmanager
def watched(what: str) -> Iterator[None]:
    """Note in `slow` if what is imported inside takes long."""
    before, start = sys.modules.keys() & LIBRARIES, time.process_time()
    try:
        yield
    finally:
        seconds = time.process_time() - start
        brought = ", ".join(
            f"`{name}`" for name in sorted((sys.modules.keys() & LIBRARIES) - before)
        )
        if brought or seconds > LONG:
            also = f" and loads {brought} at module level" if brought else ""
            slow[what] = (
                f"takes {seconds:.1f} s to import{also}; import what is heavy where it is used"
            )
