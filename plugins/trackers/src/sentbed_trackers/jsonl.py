"""Tracker that writes every event of a run to `log.jsonl`, as a line with a JSON object."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from typing import IO, Any

import attrs
from sentbed import hookimpl
from sentbed.protocols import Evaluation, Run, StepResult
from sentbed.tools import plain

LOG_FILE = "log.jsonl"

STATE = "jsonl"
"""Name under which a checkpoint stores the length of the log."""


class JsonlTracker:
    """Writes every event of a run to `log.jsonl` in the run's directory.

    Each line has `time` (seconds since 1970) and `event` (the name of the hook). Each line is flushed, so that
    the log of a killed run is readable up to the last event. A resumed run truncates the log to the length that
    it had at the checkpoint, since the later events happen again.
    """

    required = True
    """Whether the run ends with an error if this tracker fails."""

    def __init__(self) -> None:
        self._file: IO[str] | None = None

    @hookimpl
    def run_started(self, run: Run) -> None:
        """Open the log."""
        self._open(run, 0)
        self._write("run_started", name=run.name)

    @hookimpl
    def run_resumed(self, run: Run, states: Mapping[str, Mapping[str, Any]]) -> None:
        """Truncate the log to the length that it had at the checkpoint, and log the event."""
        self._open(run, states.get(STATE, {"bytes": 0})["bytes"])
        self._write("run_resumed", name=run.name)

    @hookimpl
    def tracker_state(self) -> tuple[str, Mapping[str, Any]] | None:
        """Return the length of the log in bytes, and its name.

        A run that continues in another directory copies the file of this name.
        """
        if self._file is None:
            return None
        # The log is written to disk before the checkpoint, so that it is never shorter than the checkpoint tells.
        descriptor = self._file.fileno()
        os.fsync(descriptor)
        return STATE, {"bytes": os.fstat(descriptor).st_size, "files": [LOG_FILE]}

    @hookimpl
    def warned(self, message: str) -> None:
        """Log the event."""
        self._write("warned", message=message)

    @hookimpl
    def evaluation_started(self, evaluator: str, encoder: str) -> None:
        """Log the event."""
        self._write("evaluation_started", evaluator=evaluator, encoder=encoder)

    @hookimpl
    def scores_ready(self, evaluation: Evaluation) -> None:
        """Log every score of an evaluation, with its protocol."""
        self._write("scores_ready", scores=evaluation.scores)

    @hookimpl
    def stage_started(self, stage: str, total_steps: int) -> None:
        """Log the event."""
        self._write("stage_started", stage=stage, total_steps=total_steps)

    @hookimpl
    def step_finished(
        self,
        stage: str,
        step: int,
        total_steps: int,
        result: StepResult,
    ) -> None:
        """Log the loss, learning rate, gradient norm and further metrics of a step."""
        self._write(
            "step_finished",
            stage=stage,
            step=step,
            total_steps=total_steps,
            **attrs.asdict(result),
        )

    @hookimpl
    def validated(
        self,
        stage: str,
        step: int,
        score: float,
        best: bool,
    ) -> None:
        """Log the event."""
        self._write(
            "validated",
            stage=stage,
            step=step,
            score=score,
            best=best,
        )

    @hookimpl
    def observed(
        self,
        stage: str,
        step: int,
        encoder: str,
        evaluation: Evaluation,
    ) -> None:
        """Log every score of an evaluation during a stage, with its protocol."""
        self._write(
            "observed",
            stage=stage,
            step=step,
            encoder=encoder,
            primary=evaluation.primary,
            scores=evaluation.scores,
        )

    @hookimpl
    def checkpoint_saved(
        self,
        stage: str,
        step: int,
    ) -> None:
        """Log the event."""
        self._write("checkpoint_saved", stage=stage, step=step)

    @hookimpl
    def stage_finished(
        self,
        stage: str,
        steps: int,
        best_score: float | None,
        best_step: int,
    ) -> None:
        """Log the event."""
        self._write(
            "stage_finished",
            stage=stage,
            steps=steps,
            best_score=best_score,
            best_step=best_step,
        )

    @hookimpl
    def run_finished(self) -> None:
        """Log the event, and close the log."""
        self._write("run_finished")
        self._close()

    @hookimpl(tryfirst=True)
    def run_failed(self, error: BaseException) -> None:
        """Log the error, and close the log."""
        self._write("run_failed", error=str(error) or type(error).__name__)
        self._close()

    def _open(self, run: Run, length: int) -> None:
        """Open the log of a run for appending, truncated to `length` bytes."""
        self._close()
        path = run.directory / LOG_FILE
        self._file = path.open("a", encoding="utf-8")
        self._file.truncate(min(length, path.stat().st_size))

    def _write(self, event: str, **fields: Any) -> None:
        """Write the line of an event; do nothing if the log is closed."""
        if self._file is None:
            return
        line = {"time": round(time.time(), 3), "event": event, **fields}
        self._file.write(json.dumps(plain(line)) + "\n")
        self._file.flush()

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
