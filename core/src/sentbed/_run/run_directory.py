"""Directory of a run: made, locked and tidied."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from itertools import count
from pathlib import Path

from sentbed._files import TEMPORARY, locked, remove_directory
from sentbed._run.manifest import MANIFEST
from sentbed._run.training_states import STATES, Kept, prune_weights
from sentbed.errors import RunError

ENCODER = "encoder"
"""Subdirectory of a run directory that has the encoders after training."""

LOCK = ".lock"
"""File of a run directory that a process locks while it works on the run."""


def new_directory(directory: Path) -> Path:
    """Create a run directory; it may exist if it is empty. Raises `RunError` if it is not empty."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        names = sorted(p.name for p in directory.iterdir() if p.name != LOCK)
    except OSError as error:
        raise RunError(
            f"cannot make the run directory `{directory}`: {error.strerror or error}; choose another `--out`"
        ) from error
    if MANIFEST in names:
        raise RunError(
            f"`{directory}` already holds a run; choose another `--out`, or move it away; if the run has not "
            "finished, go on with it with `--resume`"
        )
    if names:
        raise RunError(
            f"`{directory}` already holds `{names[0]}`; choose another `--out`, or move it away"
        )
    return directory


def free_name(name: str) -> Path:
    """Return `runs/NAME-TIME`, or `runs/NAME-TIME-2` and so on if it exists."""
    first = Path("runs") / f"{name}-{datetime.now():%Y%m%d-%H%M%S}"
    path = first
    for number in count(2):
        if not path.exists():
            break
        path = first.with_name(f"{first.name}-{number}")
    return path


def saved_encoders(run: Path, names: Collection[str]) -> dict[str, Path]:
    """Return the directory in which a run saves each encoder.

    It is `encoder`, or `encoder/NAME` if there are several encoders.
    """
    directory = run / ENCODER
    if len(names) == 1:
        return dict.fromkeys(names, directory)
    return {name: directory / name for name in names}


@contextmanager
def alone(directory: Path) -> Iterator[None]:
    """Lock a run directory during a `with` block, so that no other process works on the run.

    Raises:
        RunError: if another process has locked it.
    """
    with locked(directory / LOCK) as acquired:
        if not acquired:
            raise RunError(
                f"another process is at work on the run in `{directory}`; let it end first"
            )
        yield


def tidy(
    directory: Path,
    kept: Mapping[str, Kept],
    keeps_state: bool,
) -> None:
    """Remove what a finished run does not need: training state, weights that are not `kept`, temporary files.

    The training state is removed last, so that tidying can be repeated if it is interrupted. With `keeps_state`,
    it stays, for the runs that go on from it.
    """
    for stage, weights in kept.items():
        prune_weights(directory, stage, {weights.directory})
    for path in list(directory.rglob(f".*{TEMPORARY}")):
        remove_directory(path)
    if not keeps_state:
        remove_directory(directory / STATES)
