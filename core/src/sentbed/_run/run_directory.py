"""Directory of a run: made, locked, replaced and tidied."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any

from sentbed._files import TEMPORARY, locked, read_json, remove_directory
from sentbed._run import training_states as states
from sentbed._run.best_weights import prune_weights
from sentbed._run.manifest import MANIFEST
from sentbed._run.training_states import Kept
from sentbed.errors import RunError

ENCODER = "encoder"
"""Subdirectory of a run directory that has the encoders after training."""

LOCK = ".lock"
"""File of a run directory that a process locks while it works on the run."""

UNFINISHED = ("running", "failed", "interrupted")
"""Statuses of a run that another run may replace, unless the run is locked."""


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
            f"`{directory}` already holds a run; choose another `--out`, move it away, or, if the run has "
            "not finished, take its place with `--replace`"
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


def remove_unfinished(directory: Path) -> None:
    """Remove the run in a directory, if there is one that has not finished, so that another run can replace it.

    Raises:
        RunError: if the run has finished, is in progress, or has a damaged manifest.
    """
    if not (directory / MANIFEST).is_file():
        return
    with alone(directory):
        status = str(read_manifest(directory)["status"])
        if status not in UNFINISHED:
            raise RunError(
                f"the run in `{directory}` is {status:.80}, and only one that has not finished is replaced; "
                "choose another `--out`, or move it away"
            )
        for path in directory.iterdir():
            if path.name not in (LOCK, MANIFEST):
                remove_directory(path)
        # The manifest is removed last, so that the removal can be repeated if it is interrupted.
        (directory / MANIFEST).unlink()


def read_manifest(directory: Path) -> dict[str, Any]:
    """Return the manifest of a run, which has a `status`. Raises `RunError` if it is missing or damaged."""
    file = directory / MANIFEST
    try:
        manifest = read_json(file)
        manifest["status"]
    except OSError as error:
        raise RunError(
            f"`{directory}` is not a run directory (no `{MANIFEST}` in it that can be read); name one"
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise RunError(f"`{file}` is not what a run writes; move it away") from error
    return dict(manifest)


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
    """Remove the training states of a finished run, and temporary files of killed processes.

    The newest training state, which refers to the `kept` weights, is removed last, so that tidying can be
    repeated if it is interrupted. With `keeps_state`, it stays, for the runs that go on from it.
    """
    for newest in states.saved_states(directory)[:1]:
        states.prune(directory, newest, 1)
    for stage, weights in kept.items():
        prune_weights(directory, stage, weights)

    for path in list(directory.rglob(f".*{TEMPORARY}")):
        remove_directory(path)

    if not keeps_state:
        remove_directory(directory / states.STATES)
