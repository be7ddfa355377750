"""Handling of the signals that end a run: SIGTERM and SIGINT."""

from __future__ import annotations

import math
import os
import signal
import sys
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

    `asked` is the name of the recorded signal (`a signal` in a process that ignores SIGINT), or None. `say` is
    called with a message when a signal is recorded; by default, the message is printed to standard error.
    """

    def __init__(self, say: Callable[[str], None] | None = None) -> None:
        self.asked: str | None = None
        self._last_time = -math.inf
        self._say = say or _print_error
        self._patient = False

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Handle the signals in the block.

        A signal for which the program has set a handler of its own keeps it; another `Stop` is replaced until the
        end of the block. In a thread other than the main thread, no signal is handled.
        """
        default_handlers = (signal.SIG_DFL, signal.default_int_handler)
        replaced = {}
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                handler = signal.getsignal(number)
                is_of_stop = isinstance(getattr(handler, "__self__", None), Stop)
                if handler in default_handlers or is_of_stop:
                    replaced[number] = handler
                    signal.signal(number, self._handle)
        try:
            yield
        finally:
            for number, handler in replaced.items():
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
        if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
            # A study's worker leaves Ctrl-C to the process that started it, which then ends it by SIGTERM.
            name = "a signal"
        if not self._patient or self.asked is not None:
            raise KeyboardInterrupt(f"ended by {name}")
        self.asked = name
        self._say(f"{name}: ending after this step; once more to end at once")


def _print_error(message: str) -> None:
    """Print a message to standard error."""
    try:
        print(message, file=sys.stderr)
    except RuntimeError:
        # The signal came during a write to standard error, whose buffer refuses another one within it.
        os.write(2, f"{message}\n".encode())
