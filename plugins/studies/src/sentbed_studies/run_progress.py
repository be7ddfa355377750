"""How far a run is that is at work, read from its log."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import attrs
from sentbed.errors import DataError
from sentbed.helpers import open_file
from sentbed_report.formatting import duration

LOG = "log.jsonl"
"""Log of a run: one JSON object an event."""


@attrs.frozen
class RunProgress:
    """How far a run is."""

    what: str
    """What it does: `stage NAME`, `evaluating ENCODER with EVALUATOR`."""
    elapsed: float
    """Seconds since the run was started or resumed."""
    step: int | None = None
    steps: int | None = None
    """Steps of the stage."""
    loss: float | None = None
    left: float | None = None
    """Seconds until the end of the stage, or, where the seconds of a whole run are known, of the run."""

    @property
    def place(self) -> str:
        """What it does, and the step, if it takes steps."""
        return self.what if self.step is None else f"{self.what}: step {self.step} of {self.steps}"

    def __str__(self) -> str:
        parts = [self.place]
        if self.loss is not None:
            parts.append(f"loss {self.loss:.4f}")
        parts.append(duration(self.elapsed))
        if self.left is not None:
            parts.append(f"about {duration(self.left)} left")
        return ", ".join(parts)


@attrs.define(eq=False)
class RunLog:
    """Reads the log of a run as it grows."""

    run: Path
    _read: int = attrs.field(default=0, init=False)
    _line: bytes = attrs.field(default=b"", init=False)
    """The last line that was read."""
    _what: str = attrs.field(default="starting", init=False)
    _began: float | None = attrs.field(default=None, init=False)
    _first: tuple[int, float] | None = attrs.field(default=None, init=False)
    """The stage's first step since the run was started or resumed, and its time."""
    _last: dict[str, Any] = attrs.field(factory=dict, init=False)
    """The last step."""
    _steps: dict[str, int] = attrs.field(factory=dict, init=False)

    @property
    def began(self) -> float | None:
        """When the run was started or resumed, in seconds since 1970; None before that."""
        return self._began

    def progress(self, seconds: float | None = None, now: float | None = None) -> RunProgress | None:
        """Return how far the run is, or None if it has no log; `seconds` is what the whole run will take."""
        self._follow()
        if self._began is None:
            return None
        elapsed = max(0.0, (time.time() if now is None else now) - self._began)
        left = self._left()
        if seconds is not None:
            left = max(left or 0.0, seconds - elapsed)
        if not self._last:
            return RunProgress(self._what, elapsed, left=left)
        stage = str(self._last["stage"])
        return RunProgress(
            self._what, elapsed, self._last["step"], self._steps.get(stage), self._last["loss"], left
        )

    def _left(self) -> float | None:
        """Return the seconds until the end of the stage, if two of its steps are known."""
        steps = self._steps.get(str(self._last.get("stage")))
        if self._first is None or steps is None or self._last["step"] <= self._first[0]:
            return None
        each = (self._last["time"] - self._first[1]) / (self._last["step"] - self._first[0])
        return float(each * (steps - self._last["step"]))

    def _follow(self) -> None:
        try:
            with open_file(self.run / LOG) as log:
                log.seek(self._read - len(self._line))
                text = log.read()
                if not text.startswith(self._line):
                    # A resumed run has cut its log.
                    self._read, self._line = 0, b""
                    log.seek(0)
                    text = log.read()
        except (OSError, DataError):
            return
        # The last line may be half written.
        lines = text[len(self._line) : text.rfind(b"\n") + 1].splitlines(keepends=True)
        for line in lines:
            self._note(json.loads(line))
            self._read, self._line = self._read + len(line), line

    def _note(self, event: dict[str, Any]) -> None:
        match event["event"]:
            case "run_started" | "run_resumed":
                self._began, self._first, self._last = event["time"], None, {}
                self._what = "starting"
            case "stage_started":
                self._steps[event["stage"]] = event["total_steps"]
                self._what, self._first, self._last = f"stage {event['stage']}", None, {}
            case "step_finished":
                self._what, self._last = f"stage {event['stage']}", event
                self._first = self._first or (event["step"], event["time"])
            case "stage_finished" | "scores_ready":
                self._what, self._first, self._last = "between stages", None, {}
            case "evaluation_started":
                self._what = f"evaluating {event['encoder']} with {event['evaluator']}"
                self._first, self._last = None, {}
