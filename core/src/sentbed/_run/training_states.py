"""Training states on disk, from which a stopped run is resumed.

`states/SS-NNNNNNNN` in the run directory is the state after NNNNNNNN steps of stage SS. It is written
atomically, and has checksums to detect damage.
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
"""Directory of the states, in the directory of the run."""
STATE_FILE = "state.json"
TRAINER = "trainer"
"""Directory that the trainer fills, in the directory of a state."""
SCHEMA = 1
"""Version of the format of states."""


@attrs.frozen
class State:
    """Training state after step `step` of stage `stage`."""

    path: Path
    stage: int
    """Index of the stage; the number of stages if all have finished."""
    step: int
    """Number of finished steps of the stage; at 0 the stage has not begun."""
    content: Mapping[str, Any] = attrs.field(factory=dict)
    """Content as passed to `write_state`; empty if it has not been read."""

    @property
    def trainer(self) -> Path:
        """Directory written by the trainer."""
        return self.path / TRAINER


def write_state(
    run: Path,
    stage: int,
    step: int,
    content: Mapping[str, Any],
    trainer: Callable[[Path], None] | None,
) -> State:
    """Write a state; `trainer` fills a subdirectory. Raises `RunError` if the disk is full."""
    path = run / STATES / f"{stage:02d}-{step:08d}"

    def fill(directory: Path) -> None:
        if trainer is not None:
            (directory / TRAINER).mkdir()
            trainer(directory / TRAINER)
        try:
            text = json.dumps({"schema": SCHEMA, **content})
        except TypeError as error:
            raise PluginError(
                f"a tracker's state cannot be written as JSON: {error}"
            ) from error
        write_atomic(directory / STATE_FILE, text)
        write_sums(directory)

    write_directory(path, fill)
    return State(path, stage, step, content)


def saved_states(run: Path) -> list[State]:
    """Return the states of a run, newest first, without reading their content."""
    states = []
    for path in (run / STATES).glob("*"):
        if match := re.fullmatch(r"(\d+)-(\d+)", path.name):
            states.append(State(path, int(match[1]), int(match[2])))
    return sorted(states, key=lambda state: (state.stage, state.step), reverse=True)


def read(state: State) -> State:
    """Return the state with its content.

    Raises:
        ValueError: if a file is missing or damaged; the message names it.
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
    """Return a context that turns any exception into a `RunError` that names the state as the cause."""
    advice = "remove it, to go on from an older one, or start a new run"
    return foreign(RunError, f"the state `{state.path}` cannot be restored", advice)


def prune(run: Path, last: State, keep: int) -> None:
    """Keep `last` and the newest `keep` - 1 states before it, and remove all others.

    States newer than `last` are damaged, or the run would have been resumed from them.
    """
    states = saved_states(run)
    index = [state.path for state in states].index(last.path)
    for state in states[:index] + states[index + keep :]:
        remove_directory(state.path)
    # Temporary directories left by processes killed while writing.
    for left in (run / STATES).glob(".*"):
        remove_directory(left)
