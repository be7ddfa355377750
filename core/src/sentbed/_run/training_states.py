"""Training states on disk, from which a stopped run is resumed.

The directory `states/SS-NNNNNNNN` in the run directory has the training state after NNNNNNNN steps of stage SS.
It is written atomically, and has checksums with which damage is detected.
"""

from __future__ import annotations

import json
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
from sentbed._json import from_plain, plain
from sentbed.errors import RunError, foreign, reason_of

STATES = "states"
"""Subdirectory of a run directory that has the training states."""

STATE_FILE = "state.json"
"""File of a training state that has everything except what the trainer writes."""

TRAINER = "trainer"
"""Subdirectory of a training state that the trainer writes."""


@attrs.frozen
class Kept:
    """The weights that a stage keeps: the best so far, or those after its last step."""

    directory: str = ""
    """Directory with the saved weights, relative to the run directory; empty if no weights have been saved.

    It has a subdirectory for each encoder that the stage trains, and checksums.
    """
    step: int = 0
    """Number of steps after which the encoders had these weights."""
    score: float | None = None
    """Validation score of these weights; None without validation."""
    misses: int = 0
    """Number of later validations, none of which had a better score."""


@attrs.frozen(kw_only=True)
class State:
    """Training state: what a run needs to go on, apart from what the trainer has saved."""

    stage: int
    """Index of the stage; the number of stages if all have finished."""
    step: int = 0
    """Number of finished steps of the stage; 0 if the stage has not begun."""
    facts: Mapping[str, Any] = attrs.field(factory=dict)
    """Content of the manifest."""
    trackers: Mapping[str, Mapping[str, Any]] = attrs.field(factory=dict)
    """State of the history and of each tracker, by name."""
    kept: Mapping[str, Kept] = attrs.field(factory=dict)
    """Kept weights of each finished stage."""

    sampler: Mapping[str, Any] | None = None
    """Position of the sampler; None if the stage has not begun."""
    kept_so_far: Kept | None = None
    """Kept weights of the current stage; None if the stage has not begun."""
    evaluated: bool = True
    """Whether the evaluations of the step are done. Otherwise, a resumed run begins with them."""

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
    """Write a training state.

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
        write_sums(directory)

    write_directory(state.directory(run), fill)


def saved_states(run: Path) -> list[Path]:
    """Return the directories of the training states of a run, newest first."""
    return sorted((run / STATES).glob("[0-9]*-*"), reverse=True)


def newest_state(run: Path) -> tuple[State | None, list[str]]:
    """Return the newest training state that is not damaged, and messages about newer ones that are damaged.

    The state is None if the run has none.

    Raises:
        RunError: if there are training states, but all are damaged.
    """
    damaged: list[str] = []
    for directory in saved_states(run):
        try:
            return _read(run, directory), damaged
        except (OSError, ValueError, LookupError, TypeError) as error:
            reason = str(error) if isinstance(error, ValueError) else reason_of(error)
            damaged.append(f"the checkpoint `{directory}` is damaged: {reason}")
    if damaged:
        reasons = "; ".join(damaged)
        raise RunError(
            f"{reasons}; no other is left, start the run again with another `--out`"
        )
    return None, damaged


def _read(run: Path, directory: Path) -> State:
    """Return the training state in a directory, after verifying its files and the weights that it refers to.

    Raises:
        ValueError: if a file is missing or damaged. The message names it.
        OSError, LookupError, TypeError: if the content is not that of a training state.
    """
    verified_sums(directory)
    state = from_plain(read_json(directory / STATE_FILE), State)
    kept = list(state.kept.values())
    if state.kept_so_far is not None:
        kept.append(state.kept_so_far)
    for weights in kept:
        if weights.directory:
            verified_sums(run / weights.directory)
    return state


def restoring(path: Path) -> AbstractContextManager[None]:
    """Return a context manager that turns exceptions in its block into a `RunError` naming the training state."""
    advice = "remove it, to go on from an older one, or start a new run"
    return foreign(RunError, f"the state `{path}` cannot be restored", advice)


def prune(
    run: Path,
    last: Path,
    keep: int,
) -> None:
    """Remove all training states except `last` and the `keep` - 1 states before it.

    States that are newer than `last` are removed as well. They are damaged: otherwise, the run would have been
    resumed from them.
    """
    states = saved_states(run)
    index = states.index(last)
    for state in states[:index] + states[index + keep :]:
        remove_directory(state)
    # Processes that were killed while they wrote a state have left temporary directories.
    for temporary in (run / STATES).glob(".*"):
        remove_directory(temporary)
