"""Names of signals, for messages about processes that one has ended."""

from __future__ import annotations

import signal


def signal_name(number: int) -> str:
    """Return the name of a signal such as `SIGKILL`, or its number where Python knows no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
