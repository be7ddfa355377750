"""Tracker that writes event files for TensorBoard."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
from sentbed import FilePath, hookimpl
from sentbed.protocols import Tracker

from sentbed_trackers.metric_series import SeriesTracker, missing

if TYPE_CHECKING:
    from sentbed.protocols import Run

_FLUSH_SECONDS = 10


@attrs.frozen
class TensorBoard(Tracker):
    """Writes event files for TensorBoard: every number of the run, and its recipe.

    `tensorboard --logdir runs` shows them. They are written by TensorBoard's event writer, without a tensor
    library. If a run is resumed in its first stage, TensorBoard hides the steps after the checkpoint.
    """

    name: ClassVar[str] = "tensorboard"

    directory: FilePath | None = None
    """Directory in which each run has a subdirectory, named after the run directory. Default: the events are
    written to `tensorboard` in the run directory."""

    def check(self) -> Iterator[str]:
        """Return a problem if TensorBoard is not installed."""
        return missing("tensorboard", self.name)

    def build(self) -> TensorBoardTracker:
        """Return the tracker, which opens an event file when the run starts."""
        return TensorBoardTracker(self.directory)


class TensorBoardTracker(SeriesTracker):
    """Writes the event files of one run."""

    def __init__(self, directory: str | None) -> None:
        self._parent = directory
        self._writer: Any = None

    @hookimpl
    def run_started(self, run: Run) -> None:
        """Open an event file, and write the recipe into it."""
        from tensorboard.plugins.text.summary_v2 import text_pb

        self._open(run)
        self._hide_from(0)
        text = (run.directory / "resolved.toml").read_text(encoding="utf-8")
        self._add(0, summary=text_pb("recipe", f"```toml\n{text}\n```"))

    @hookimpl
    def run_resumed(self, run: Run) -> None:
        """Open a new event file, and let TensorBoard hide the steps after the checkpoint."""
        self._open(run)
        position = run.facts["resumed"][-1]
        if position["stage"] == 0:
            # The steps of all stages begin at 1, so that a later stage would hide some of the first.
            self._hide_from(position["step"] + 1)

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

        path = run.directory / "tensorboard"
        if self._parent is not None:
            path = Path(self._parent) / run.directory.resolve().name
        self._writer = EventFileWriter(str(path), flush_secs=_FLUSH_SECONDS)

    def _hide_from(self, step: int) -> None:
        """Begin a session, which hides earlier events of this step and later ones."""
        from tensorboard.compat.proto.event_pb2 import SessionLog

        self._add(step, session_log=SessionLog(status=SessionLog.START))

    def _add(self, step: int, **content: Any) -> None:
        """Write an event."""
        from tensorboard.compat.proto.event_pb2 import Event

        self._writer.add_event(Event(wall_time=time.time(), step=step, **content))
