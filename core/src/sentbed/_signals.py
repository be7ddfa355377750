"""Handling of the signals that end a run: SIGTERM and SIGINT."""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SIGNALS = (signal.SIGTERM, signal.SIGINT)
"""Signals that end a run: SIGTERM is sent by batch systems, SIGINT by Ctrl-C."""

SAME_SIGNAL = 1.0
"""Seconds after a signal in which another one is ignored.

A batch system sends the signal to every process, and a launcher forwards it as well; both are one signal.
"""


class Stop:
    """Raises `KeyboardInterrupt` when a signal arrives; inside `patient`, the first signal is only recorded.

    `asked` is the name of the recorded signal, or None. `say` is called with a message when a signal is recorded;
    by default, the message is written to standard error.
    """

    def __init__(self, say: Callable[[str], None] | None = None) -> None:
        self.asked: str | None = None
        self._last_time = -math.inf
        self._say = say or _print_error
        self._patient = False

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Handle the signals in the block, unless they are ignored or this is not the main thread.

        A study's worker ignores Ctrl-C, which it leaves to the process that started it.
        """
        handlers = {}
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                if signal.getsignal(number) not in (None, signal.SIG_IGN):
                    handlers[number] = signal.signal(number, self._handle)
        try:
            yield
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)

    @contextmanager
    def patient(self) -> Iterator[None]:
        """Record the first signal in the block instead of raising; the caller checks `asked` after the block."""
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


def _print_error(message: str) -> None:
    """Write a message to standard error, which `print` cannot do if the signal came during another `print`."""
    os.write(2, f"{message}\n".encode())
