"""Training states on disk, from which a stopped run is resumed.

The directory `states/SS-NNNNNNNN` in the run directory has the training state after NNNNNNNN steps of stage SS.
It appears whole, and the state before it is then removed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import attrs

from sentbed._files import read_json, remove_directory, write_atomic, write_directory
from sentbed._json import from_plain, plain
from sentbed._run.history import History
from sentbed.errors import RunError, foreign

STATES = "states"
"""Subdirectory of a run directory that has the training state."""

CHECKPOINTS = "checkpoints"
"""Subdirectory of a run directory that has the kept weights of all stages."""

STATE_FILE = "state.json"
"""File of a training state that has everything except what the trainer writes."""

TRAINER = "trainer"
"""Subdirectory of a training state that the trainer writes."""


@attrs.frozen
class Kept:
    """The weights that a stage keeps: the best so far, or those after its last step."""

    directory: str = ""
    """Directory with the saved weights, relative to the run directory; empty if no weights have been saved.

    It has a subdirectory for each encoder that the stage trains.
    """
    step: int = 0
    """Number of steps after which the encoders had these weights."""
    score: float | None = None
    """Validation score of these weights; None without validation."""
    misses: int = 0
    """Number of later validations, none of which had a better score."""


@attrs.frozen(kw_only=True)
class State:
    """The run after a step of a stage and before its evaluations, apart from what the trainer has saved."""

    stage: int
    """Index of the stage; the number of stages if all have finished."""
    step: int = 0
    """Number of finished steps of the stage; 0 if the stage has not begun."""
    sampler: Mapping[str, Any] = attrs.field(factory=dict)
    """Position of the sampler; empty if the stage has not begun."""
    kept_so_far: Kept = attrs.field(factory=Kept)
    """Kept weights of the stage."""

    kept: Mapping[str, Kept] = attrs.field(factory=dict)
    """Kept weights of each finished stage."""
    facts: Mapping[str, Any] = attrs.field(factory=dict)
    """Content of the manifest."""
    history: History = attrs.field(factory=History)
    """Scores, curves and warnings."""
    trackers: Mapping[str, Mapping[str, Any]] = attrs.field(factory=dict)
    """State of each tracker, by name."""

    def directory(self, run: Path) -> Path:
        """Return the directory of the training state in a run directory."""
        return run / STATES / f"{self.stage:02d}-{self.step:08d}"

    def trainer(self, run: Path) -> Path:
        """Return the directory that the trainer has written."""
        return self.directory(run) / TRAINER


def write_state(
    run: Path,
    state: State,
    save_trainer: Callable[[Path], None] | None = None,
) -> None:
    """Write a training state, and then remove the one before it.

    `save_trainer` is called with a directory, into which it writes the state of the trainer. It is None between
    stages.

    Raises:
        RunError: if the disk is full.
    """

    def fill(directory: Path) -> None:
        if save_trainer is not None:
            (directory / TRAINER).mkdir()
            save_trainer(directory / TRAINER)
        write_atomic(directory / STATE_FILE, json.dumps(plain(state)))

    directory = state.directory(run)
    write_directory(directory, fill)
    for path in directory.parent.iterdir():
        if path != directory:
            remove_directory(path)


def newest_state(run: Path) -> State | None:
    """Return the newest training state of a run; None if it has none.

    Raises:
        RunError: if the state cannot be read.
    """
    directories = sorted((run / STATES).glob("[0-9]*-*"))
    if not directories:
        return None
    with restoring(directories[-1]):
        return from_plain(read_json(directories[-1] / STATE_FILE), State)


def restoring(path: Path) -> AbstractContextManager[None]:
    """Return a context manager that turns exceptions in its block into a `RunError` naming the training state."""
    advice = "start a new run"
    return foreign(RunError, f"the state `{path}` cannot be restored", advice)


def prune_weights(
    run: Path,
    stage: str,
    needed: Collection[str],
) -> None:
    """Remove all kept weights of a stage but those in the directories `needed`, which are relative to the run."""
    for path in (run / CHECKPOINTS / stage).glob("kept-*"):
        if path.relative_to(run).as_posix() not in needed:
            remove_directory(path)
