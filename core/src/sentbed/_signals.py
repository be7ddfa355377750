"""Handling of signals that ask a run to end."""

from __future__ import annotations

import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

SIGNALS = (signal.SIGTERM, signal.SIGINT)
"""Signals that end a run: those of batch systems and of Ctrl-C."""

SAME_SIGNAL = 1.0
"""Seconds within which a repeated signal is ignored: a batch system signals every process, and a launcher
forwards the signal as well."""


class Stop:
    """Converts signals into `KeyboardInterrupt`: at once, or deferred inside `patient`.

    `asked` is the name of a deferred signal. A second signal is never deferred.
    """

    def __init__(self, say: Callable[[str], None] | None = None) -> None:
        self.asked: str | None = None
        self._last_time = -math.inf
        self._say = say or partial(print, file=sys.stderr)
        self._patient = False

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Handle the signals, unless the program handles them itself or this is not the main thread."""
        default_handlers = (signal.SIG_DFL, signal.default_int_handler)
        replaced = {}
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                handler = signal.getsignal(number)
                if handler in default_handlers:
                    replaced[number] = handler
                    signal.signal(number, self._handle)
        try:
            yield
        finally:
            for number, handler in replaced.items():
                signal.signal(number, handler)

    @contextmanager
    def patient(self) -> Iterator[None]:
        """Defer the first signal; the caller checks `asked` after the block."""
        self._patient = True
        try:
            yield
        finally:
            self._patient = False

    def _handle(self, number: int, _: object) -> None:
        now = time.monotonic()
        if now - self._last_time < SAME_SIGNAL:
            return
        self._last_time = now
        name = signal.Signals(number).name
        if not self._patient or self.asked is not None:
            raise KeyboardInterrupt(f"ended by {name}")
        self.asked = name
        self._say(f"{name}: ending after this step; once more to end at once")
