"""A run in several processes: which of them runs the recipe."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from sentbed.protocols import Runtime


def done_elsewhere(runtime: Runtime, arguments: Sequence[str]) -> int | None:
    """Return the exit code where this process is not the one that is to run the recipe; else None.

    Where the runtime wants several processes, they are started with these arguments of `sentbed`, and this
    one waits; where this is one of them and not the first, it works for the first until that ends.
    """
    code = runtime.launch([sys.executable, "-m", "sentbed", *arguments])
    if code is not None:
        return code
    return 0 if runtime.serve() else None
