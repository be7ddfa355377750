"""Training states on disk: what a run that was stopped goes on from.

`states/SS-NNNNNNNN` in the run directory is the state after NNNNNNNN steps of stage SS. It appears whole or
not at all, and its checksums tell whether it is still what was written.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs

from sentbed._paths import sha256, write_atomic, write_directory
from sentbed.errors import PluginError

STATES = "states"
STATE_FILE = "state.json"
TRAINER = "trainer"
SUMS_FILE = "checksums.json"
SCHEMA = 1


@attrs.frozen
class State:
    """One state: `stage` is about to take its step `step` + 1."""

    path: Path
    stage: int
    """Index of the stage; the number of stages where all have finished."""
    step: int
    """Steps of the stage that are done; at 0 nothing of it has been built."""
    content: Mapping[str, Any] = attrs.field(factory=dict)
    """What `write` was given."""

    @property
    def trainer(self) -> Path:
        """The directory that the trainer wrote."""
        return self.path / TRAINER


def write(
    run: Path, stage: int, step: int, content: Mapping[str, Any], trainer: Callable[[Path], None] | None
) -> State:
    """Write a state; `trainer` fills a directory of its own. Raises `RunError` where the disk is full."""
    path = run / STATES / f"{stage:02d}-{step:08d}"

    def fill(directory: Path) -> None:
        if trainer is not None:
            (directory / TRAINER).mkdir()
            trainer(directory / TRAINER)
        try:
            text = json.dumps({"schema": SCHEMA, **content})
        except TypeError as error:
            raise PluginError(f"a tracker's state cannot be written as JSON: {error}") from error
        write_atomic(directory / STATE_FILE, text)
        files = sorted(p for p in directory.rglob("*") if p.is_file())
        sums = {file.relative_to(directory).as_posix(): sha256(file) for file in files}
        write_atomic(directory / SUMS_FILE, json.dumps(sums, indent=1))

    write_directory(path, fill)
    return State(path, stage, step, content)


def found(run: Path) -> list[State]:
    """Return the states of a run, the newest first, without reading them."""
    places = ((path, re.fullmatch(r"(\d+)-(\d+)", path.name)) for path in (run / STATES).glob("*"))
    states = [State(path, int(match[1]), int(match[2])) for path, match in places if match]
    return sorted(states, key=lambda state: (state.stage, state.step), reverse=True)


def read(state: State) -> State:
    """Return the state with its content.

    Raises:
        ValueError: where a file is missing or is not what was written; the message names it.
    """
    try:
        sums = json.loads((state.path / SUMS_FILE).read_bytes())
        for name, expected in ({STATE_FILE: None} | sums).items():
            if sha256(state.path / name) != expected:
                raise ValueError(f"`{name}` is not what was written")
        content = json.loads((state.path / STATE_FILE).read_bytes())
    except OSError as error:
        raise ValueError(f"`{Path(error.filename or '').name}` cannot be read: {error.strerror}") from error
    except (AttributeError, TypeError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"`{SUMS_FILE}` is not what was written") from error
    if content.get("schema") != SCHEMA:
        raise ValueError(f"it has schema {content.get('schema')}, this version of sentbed reads {SCHEMA}")
    return attrs.evolve(state, content=content)


def prune(run: Path, last: State, keep: int) -> None:
    """Remove all states but `keep`: the one that was written last, and the newest ones before it.

    Newer ones are damaged, or the run would have gone on from them.
    """
    states = found(run)
    place = [state.path for state in states].index(last.path)
    for state in states[:place] + states[place + keep :]:
        shutil.rmtree(state.path, ignore_errors=True)
    # What processes that were killed while they wrote have left.
    for left in (run / STATES).glob(".*"):
        shutil.rmtree(left, ignore_errors=True)
