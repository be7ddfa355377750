"""Progress of a run that is running, read from its log."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs
from sentbed.errors import DataError
from sentbed_report.formatting import duration

LOG = "log.jsonl"
"""Log of a run: one JSON object per event."""


@attrs.frozen
class RunProgress:
    """Progress of a run."""

    what: str
    """Current activity, such as `stage NAME` or `evaluating ENCODER with EVALUATOR`."""
    elapsed: float
    """Seconds since the run was started or resumed."""
    step: int | None = None
    """Number of the last finished step of the stage; None before its first step, and outside of stages."""
    steps: int | None = None
    """Number of steps of the stage; None if `step` is None."""
    loss: float | None = None
    """Loss of the step `step`; None if `step` is None."""
    left: float | None = None
    """Seconds left: of the whole run if its duration is known, otherwise of the stage. None if unknown."""

    @property
    def place(self) -> str:
        """Current activity; during a stage, also the step."""
        if self.step is None:
            return self.what
        return f"{self.what}: step {self.step} of {self.steps}"

    def __str__(self) -> str:
        parts = [self.place]
        if self.loss is not None:
            parts.append(f"loss {self.loss:.4f}")
        parts.append(duration(self.elapsed))
        if self.left is not None:
            parts.append(f"about {duration(self.left)} left")
        return ", ".join(parts)


@attrs.frozen
class _Step:
    """A finished step of a stage."""

    number: int
    """Number of the step, from 1."""
    time: float
    """Time of its end, in seconds since 1970."""
    loss: float | None
    """Loss of the step; None if it is not finite."""

    @classmethod
    def of(cls, event: Mapping[str, Any]) -> _Step:
        """Return the step of an event of the log.

        Raises `LookupError`, `TypeError`, `ValueError` or `OverflowError`.
        """
        loss = event["loss"]
        if loss is not None:
            loss = float(loss)
        return cls(_number_of_steps(event["step"]), float(event["time"]), loss)


def _number_of_steps(value: Any) -> int:
    """Return a number of steps.

    Raises `TypeError` or `ValueError` if it is none, and `OverflowError` if it is larger than any float.
    """
    return int(float(value))


@attrs.define(eq=False)
class RunLog:
    """The log of a run; each call of `progress` reads only the lines that are new."""

    run: Path
    began: float | None = attrs.field(default=None, init=False)
    """Time at which the run was started or resumed, in seconds since 1970; None without a log."""

    _what: str = attrs.field(default="starting", init=False)
    """Current activity; see `RunProgress.what`."""
    _stage_steps: int | None = attrs.field(default=None, init=False)
    """Number of steps of the stage that was started last."""
    _first_step: _Step | None = attrs.field(default=None, init=False)
    """The stage's first step since the run was started or resumed."""
    _last_step: _Step | None = attrs.field(default=None, init=False)
    """The stage's last step."""

    _position: int = attrs.field(default=0, init=False)
    """Number of bytes of the log that were read."""
    _last_line: bytes = attrs.field(default=b"", init=False)
    """Last line that was read."""

    def progress(
        self, seconds: float | None = None, now: float | None = None
    ) -> RunProgress | None:
        """Return the progress; None if there is no log, or the log does not say yet that the run has started.

        `seconds` is the expected duration of the whole run, if it is known. `now` is the time in seconds since
        1970, by default the current time.
        """
        for line in self._new_lines():
            # A disk that was full, or a stranger, may have left a line that is no event.
            with suppress(ValueError, LookupError, TypeError, OverflowError):
                self._read_event(json.loads(line))

        if self.began is None:
            return None

        if now is None:
            now = time.time()
        elapsed = max(0.0, now - self.began)
        left = self._seconds_left_of_stage()
        if seconds is not None:
            left = max(left or 0.0, seconds - elapsed)
        step = self._last_step
        if step is None:
            return RunProgress(self._what, elapsed, left=left)
        return RunProgress(
            self._what, elapsed, step.number, self._stage_steps, step.loss, left
        )

    def _seconds_left_of_stage(self) -> float | None:
        """Return the expected seconds until the end of the stage; None before two of its steps are known."""
        first, last = self._first_step, self._last_step
        if first is None or last is None or self._stage_steps is None:
            return None

        # As floats, since the sum of two numbers of a stranger's log may be too large for one.
        steps = float(last.number) - first.number
        if steps <= 0:
            return None

        seconds_per_step = (last.time - first.time) / steps
        return seconds_per_step * (float(self._stage_steps) - last.number)

    def _new_lines(self) -> list[bytes]:
        """Return the complete lines since the last call; all lines if the log was truncated in between."""
        try:
            with (self.run / LOG).open("rb") as log:
                # The last line is read again: if it has changed, the run was resumed, which truncates its log.
                log.seek(self._position - len(self._last_line))
                text = log.read()
                if not text.startswith(self._last_line):
                    self._position, self._last_line = 0, b""
                    log.seek(0)
                    text = log.read()
        except (OSError, DataError):
            return []

        # The log may end with an incomplete line.
        complete = text[len(self._last_line) : text.rfind(b"\n") + 1]
        lines = complete.splitlines(keepends=True)
        if lines:
            self._position += sum(map(len, lines))
            self._last_line = lines[-1]
        return lines

    def _read_event(self, event: Mapping[str, Any]) -> None:
        """Update the progress with an event.

        Raises `LookupError`, `TypeError`, `ValueError` or `OverflowError` if it is none.
        """
        match event["event"]:
            case "run_started" | "run_resumed":
                self.began = float(event["time"])
                self._begin("starting")
            case "stage_started":
                self._stage_steps = _number_of_steps(event["total_steps"])
                self._begin(f"stage {event['stage']}")
            case "step_finished":
                self._last_step = _Step.of(event)
                self._first_step = self._first_step or self._last_step
                self._what = f"stage {event['stage']}"
            case "stage_finished" | "scores_ready":
                self._begin("between stages")
            case "evaluation_started":
                self._begin(f"evaluating {event['encoder']} with {event['evaluator']}")

    def _begin(self, what: str) -> None:
        """Record the beginning of an activity."""
        self._what = what
        self._first_step = self._last_step = None
