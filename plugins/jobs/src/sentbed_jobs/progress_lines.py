"""Progress of a long job as lines of text, for logs and other places without a progress bar."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta

import attrs

EVERY = 15.0
"""Minimum number of seconds between two lines."""


@attrs.define(eq=False)
class ProgressLines:
    """Prints a line with the amount done, the elapsed time and the time left, at most every `EVERY` seconds."""

    what: str
    """Name of the job."""
    total: int
    say: Callable[[str], object]
    clock: Callable[[], float] = time.monotonic
    _done: int = attrs.field(default=0, init=False)
    _start: float = attrs.field(init=False)
    _last_line: float = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._start = self._last_line = self.clock()

    def advance(self, amount: int) -> None:
        """Add to the amount done. Print a line if the last line is at least `EVERY` seconds old."""
        self._done += amount
        now = self.clock()
        if not self._done or now - self._last_line < EVERY:
            return

        self._last_line = now
        seconds = now - self._start
        seconds_left = seconds / self._done * (self.total - self._done)
        elapsed = timedelta(seconds=round(seconds))
        left = timedelta(seconds=round(seconds_left))
        self.say(
            f"{self.what}: {self._done:,} of {self.total:,}, {elapsed}, about {left} left"
        )
