"""Tracker that writes event files for TensorBoard."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
from sentbed import hookimpl
from sentbed.protocols import Tracker

from sentbed_trackers.metric_series import SeriesTracker, missing

if TYPE_CHECKING:
    from sentbed.protocols import Run

DIRECTORY = "tensorboard"
"""Subdirectory of a run directory that has the event files."""
STATE = "tensorboard"
"""Name under which a checkpoint stores the lengths of the event files."""
_FLUSH_SECONDS = 10


@attrs.frozen
class TensorBoard(Tracker):
    """Writes event files for TensorBoard into the run directory: every number of the run, and its recipe.

    `tensorboard --logdir runs` shows them. They are written by TensorBoard's event writer, without a tensor
    library. A resumed run truncates them to what they were at the checkpoint, since later events happen again.
    """

    name: ClassVar[str] = "tensorboard"

    def check(self) -> Iterator[str]:
        """Return a problem if TensorBoard is not installed."""
        return missing("tensorboard", self.name)

    def build(self) -> TensorBoardTracker:
        """Return the tracker, which opens an event file when the run starts."""
        return TensorBoardTracker()


class TensorBoardTracker(SeriesTracker):
    """Writes the event files of one run."""

    def __init__(self) -> None:
        self._directory = Path()
        """Directory with the event files: one of each process that has worked on the run."""
        self._writer: Any = None

    @hookimpl
    def run_started(self, run: Run) -> None:
        """Open an event file, and write the recipe into it."""
        from tensorboard.compat.proto.event_pb2 import SessionLog
        from tensorboard.plugins.text.summary_v2 import text_pb

        self._open(run)
        # This hides the events of a process that ended before the first checkpoint.
        self._add(0, session_log=SessionLog(status=SessionLog.START))
        text = (run.directory / "resolved.toml").read_text(encoding="utf-8")
        self._add(0, summary=text_pb("recipe", f"```toml\n{text}\n```"))

    @hookimpl
    def run_resumed(self, run: Run, states: Mapping[str, Mapping[str, Any]]) -> None:
        """Truncate the event files to the lengths that they had at the checkpoint, and open a new one."""
        lengths = states.get(STATE, {})
        for file in (run.directory / DIRECTORY).glob("*"):
            length = lengths.get(file.name, 0)
            os.truncate(file, min(length, file.stat().st_size))
        self._open(run)

    @hookimpl
    def tracker_state(self) -> tuple[str, Mapping[str, Any]] | None:
        """Return the length of each event file in bytes, and the name of this tracker."""
        if self._writer is None:
            return None
        self._writer.flush()
        lengths = {}
        for file in self._directory.iterdir():
            lengths[file.name] = file.stat().st_size
        return STATE, lengths

    @hookimpl
    def run_finished(self) -> None:
        """Close the event file."""
        if self._writer is not None:
            self._writer.close()

    @hookimpl
    def run_failed(self) -> None:
        """Close the event file."""
        self.run_finished()

    def put(self, step: int, values: Mapping[str, float]) -> None:
        """Write an event with the value of each series at a step."""
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.plugins.scalar.summary_v2 import scalar_pb

        summary = Summary()
        for name, value in values.items():
            summary.value.extend(scalar_pb(name, float(value)).value)

        self._add(step, summary=summary)

    def _open(self, run: Run) -> None:
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._directory = run.directory / DIRECTORY
        self._writer = EventFileWriter(str(self._directory), flush_secs=_FLUSH_SECONDS)

    def _add(self, step: int, **content: Any) -> None:
        """Write an event."""
        from tensorboard.compat.proto.event_pb2 import Event

        self._writer.add_event(Event(wall_time=time.time(), step=step, **content))
