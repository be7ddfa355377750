"""Tracker that writes event files for TensorBoard."""

from __future__ import annotations

import hashlib
import logging
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
from sentbed import FilePath, RunError, hookimpl
from sentbed.protocols import Tracker

from sentbed_trackers.metric_series import SeriesTracker, missing

if TYPE_CHECKING:
    from sentbed.protocols import Run

_LOG = logging.getLogger(__name__)
_FILES = "events.out.tfevents.*"
_FLUSH_SECONDS = 10


@attrs.frozen
class TensorBoard(Tracker):
    """Writes event files for TensorBoard: every number of the run, and its recipe.

    `tensorboard --logdir runs` shows them. They are written by TensorBoard's event writer, without a tensor
    library. A resumed run truncates them to the length that they had at the checkpoint, so that nothing is shown
    twice. If they cannot be written, as on a full disk, a line on standard error says so and the run continues.
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
        self._path: Path | None = None
        self._writer: Any = None

    @property
    def _key(self) -> str:
        """Name under which a checkpoint stores the state of this tracker."""
        return "tensorboard" if self._parent is None else f"tensorboard {self._parent}"

    @hookimpl
    def run_started(self, run: Run) -> None:
        """Open an event file, and write the recipe into it."""
        if any(self._place(run).glob(_FILES)):
            raise self._taken_error(run)
        self._open(run)
        self._show_recipe(run)

    @hookimpl
    def run_resumed(self, run: Run, states: Mapping[str, Mapping[str, Any]]) -> None:
        """Remove the events after the checkpoint, and open a new event file.

        Raises:
            RunError: if the directory has events of another run.
        """
        lengths = states.get(self._key, {}).get("lengths", {})
        files = list(self._place(run).glob(_FILES))
        if self._parent is not None and not lengths:
            # No checkpoint of this tracker tells whose events these are, only their names do.
            suffix = _suffix(run)
            if not all(file.name.endswith(suffix) for file in files):
                raise self._taken_error(run)

        for file in files:
            if file.name not in lengths:
                file.unlink()
            elif file.stat().st_size > lengths[file.name]:
                os.truncate(file, lengths[file.name])
        self._open(run)
        if not lengths:
            self._show_recipe(run)

    @hookimpl
    def tracker_state(self) -> tuple[str, Mapping[str, Any]] | None:
        """Return the lengths of the event files."""
        if self._path is None:
            return None

        self._try("flush")
        lengths = {}
        for file in self._path.glob(_FILES):
            lengths[file.name] = file.stat().st_size
        return self._key, {"lengths": lengths}

    @hookimpl
    def run_finished(self) -> None:
        """Close the event file."""
        self._try("close")
        self._writer = self._path = None

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

        self._add(step, summary)

    def _place(self, run: Run) -> Path:
        """Return the directory of the event files."""
        if self._parent is None:
            return run.directory / "tensorboard"
        return Path(self._parent) / run.directory.resolve().name

    def _taken_error(self, run: Run) -> RunError:
        """Return the error that another run has events in the directory."""
        return RunError(
            f"`{self._place(run)}` already holds the events of a run of this name; choose another `directory` "
            "for the tracker `tensorboard`, or another `--out`"
        )

    def _open(self, run: Run) -> None:
        """Open an event file. Raises `RunError`."""
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._path = self._place(run)
        try:
            self._writer = EventFileWriter(
                str(self._path),
                flush_secs=_FLUSH_SECONDS,
                filename_suffix=_suffix(run),
            )
        except OSError as error:
            raise RunError(
                f"cannot write events for TensorBoard into `{self._path}`: {error.strerror or error}; "
                f"choose another `directory`, or take the tracker out of the recipe"
            ) from error

    def _show_recipe(self, run: Run) -> None:
        """Write an event with the recipe as text."""
        from tensorboard.plugins.text.summary_v2 import text_pb

        recipe = run.directory / "resolved.toml"
        if recipe.is_file():
            text = recipe.read_text(encoding="utf-8")
            self._add(0, text_pb("recipe", f"```toml\n{text}\n```"))

    def _add(self, step: int, summary: Any) -> None:
        """Write an event."""
        from tensorboard.compat.proto.event_pb2 import Event

        self._try(
            "add_event",
            Event(
                wall_time=time.time(),
                step=step,
                summary=summary,
            ),
        )

    def _try(self, method: str, *arguments: Any) -> None:
        """Call a method of the event writer. An `OSError` ends this tracker, but not the run."""
        if self._writer is None:
            return
        try:
            getattr(self._writer, method)(*arguments)
        except OSError as error:
            self._writer = None
            _LOG.warning(
                "events for TensorBoard can no longer be written into `%s` (%s); the run goes on without, "
                "its `log.jsonl` has everything",
                self._path,
                error.strerror or error,
            )


def _suffix(run: Run) -> str:
    """Return the suffix of a run's event files, by which they differ from those of runs in other directories."""
    place = str(run.directory.resolve())
    return f".{hashlib.sha256(place.encode()).hexdigest()[:8]}"
