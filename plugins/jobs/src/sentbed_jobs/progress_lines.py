"""Lines on the progress of a long job, for logs and wherever else no bar can be shown."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta

import attrs

EVERY = 15.0
"""Seconds between two lines."""


@attrs.define(eq=False)
class ProgressLines:
    """Says now and then how much is done, how long it took and how long the rest will take."""

    what: str
    total: int
    say: Callable[[str], object]
    clock: Callable[[], float] = time.monotonic
    _done: int = attrs.field(default=0, init=False)
    _began: float = attrs.field(init=False)
    _said: float = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._began = self._said = self.clock()

    def advance(self, amount: int) -> None:
        """Note that so much more is done, and say so if the last line is `EVERY` seconds old."""
        self._done += amount
        now = self.clock()
        if self._done and now - self._said >= EVERY:
            self._said = now
            took = now - self._began
            left = took / self._done * (self.total - self._done)
            shown = f"{timedelta(seconds=round(took))}, about {timedelta(seconds=round(left))} left"
            self.say(f"{self.what}: {self._done:,} of {self.total:,}, {shown}")
