"""Names of signals, for messages about processes that a signal has ended."""

from __future__ import annotations

import signal


def signal_name(number: int) -> str:
    """Return the name of a signal, such as `SIGKILL`, or its number if Python has no name for it."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
