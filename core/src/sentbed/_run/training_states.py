"""Training states on disk, from which a stopped run is resumed.

The directory `states/SS-NNNNNNNN` in the run directory has the training state after NNNNNNNN steps of stage SS.
It is written atomically, and has checksums with which damage is detected.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import attrs

from sentbed._files import (
    read_json,
    remove_directory,
    verified_sums,
    write_atomic,
    write_directory,
    write_sums,
)
from sentbed.errors import PluginError, RunError, foreign

STATES = "states"
"""Subdirectory of a run directory that has the training states."""

STATE_FILE = "state.json"
"""File of a training state that has everything except what the trainer writes."""

TRAINER = "trainer"
"""Subdirectory of a training state that the trainer writes."""

SCHEMA = 1
"""Version of the format of training states."""


@attrs.frozen
class State:
    """A training state."""

    path: Path
    stage: int
    """Index of the stage; the number of stages if all have finished."""
    step: int
    """Number of finished steps of the stage; 0 if the stage has not begun."""
    content: Mapping[str, Any] = attrs.field(factory=dict)
    """Content that was passed to `write_state`; empty if it has not been read."""

    @property
    def trainer(self) -> Path:
        """Directory that the trainer has written."""
        return self.path / TRAINER


def write_state(
    run: Path,
    stage: int,
    step: int,
    content: Mapping[str, Any],
    trainer: Callable[[Path], None] | None,
) -> State:
    """Write a training state.

    `trainer` is called with a directory, into which it writes the state of the trainer. It is None between
    stages.

    Raises:
        PluginError: if `content` cannot be written as JSON, since the state of a tracker is not JSON.
        RunError: if the disk is full.
    """
    path = run / STATES / f"{stage:02d}-{step:08d}"

    def fill(directory: Path) -> None:
        if trainer is not None:
            (directory / TRAINER).mkdir()
            trainer(directory / TRAINER)
        try:
            text = json.dumps({"schema": SCHEMA, **content})
        except (TypeError, ValueError) as error:
            raise PluginError(
                f"a tracker's state cannot be written as JSON: {error}"
            ) from error
        write_atomic(directory / STATE_FILE, text)
        write_sums(directory)

    write_directory(path, fill)
    return State(path, stage, step, content)


def saved_states(run: Path) -> list[State]:
    """Return the training states of a run, newest first, without reading their content."""
    states = []
    for path in (run / STATES).glob("*"):
        if match := re.fullmatch(r"(\d+)-(\d+)", path.name):
            states.append(State(path, int(match[1]), int(match[2])))
    return sorted(states, key=lambda state: (state.stage, state.step), reverse=True)


def read(state: State) -> State:
    """Return a training state with its content.

    Raises:
        ValueError: if a file is missing or damaged. The message names it.
    """
    if STATE_FILE not in verified_sums(state.path):
        raise ValueError(f"`{STATE_FILE}` is not what was written")
    try:
        content = read_json(state.path / STATE_FILE)
        schema = content.get("schema")
    except (AttributeError, ValueError) as error:
        raise ValueError(f"`{STATE_FILE}` is not what was written") from error
    if schema != SCHEMA:
        raise ValueError(
            f"it has schema {schema!r:.80}, this version of sentbed reads {SCHEMA}"
        )
    return attrs.evolve(state, content=content)


def restoring(state: State) -> AbstractContextManager[None]:
    """Return a context manager that turns exceptions in its block into a `RunError` naming the training state."""
    advice = "remove it, to go on from an older one, or start a new run"
    return foreign(RunError, f"the state `{state.path}` cannot be restored", advice)


def prune(
    run: Path,
    last: State,
    keep: int,
) -> None:
    """Remove all training states except `last` and the `keep` - 1 states before it.

    States that are newer than `last` are removed as well. They are damaged: otherwise, the run would have been
    resumed from them.
    """
    states = saved_states(run)
    index = [state.path for state in states].index(last.path)
    for state in states[:index] + states[index + keep :]:
        remove_directory(state.path)
    # Processes that were killed while they wrote a state have left temporary directories.
    for temporary in (run / STATES).glob(".*"):
        remove_directory(temporary)
