"""Creates a run that continues from the end of another run, so that cells share their first stages."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import attrs
from sentbed.errors import RunError
from sentbed.helpers import write_atomic, write_directory
from sentbed.protocols import Recipe
from sentbed.tools import (
    CHECKPOINTS,
    MANIFEST,
    RESOLVED,
    newest_state,
    resolved_toml,
    write_state,
)


def branch(
    source: Path,
    directory: Path,
    recipe: Recipe,
    stages: int,
    files: Mapping[str, str],
) -> None:
    """Create a run directory from which `resume` continues where the run in `source` ended.

    The directory is written atomically.

    Args:
        source: Directory of a finished run of `train_first_stages`.
        directory: Run directory to create.
        recipe: Recipe of the new run, whose first stages are the stages of the run in `source`.
        stages: Number of stages that the run in `source` has trained.
        files: Name -> text of further files to write into `directory`.

    Raises:
        RunError: if `source` has no intact training state from the end of these stages, or if the disk is full.
    """
    state = newest_state(source)
    if state is None or (state.stage, state.step) != (stages, 0):
        raise RunError(
            f"the run in `{source}` has left no state to go on from; remove it, and it is done again"
        )

    text = resolved_toml(recipe)
    shared_seconds = dict(state.facts.get("shared_seconds", {}))
    # The history of the run in `source` has the seconds of the run from which that one went on.
    before = sum(shared_seconds.values())
    shared_seconds[source.name] = state.history.seconds - before
    facts = {
        **state.facts,
        "went_on_from": source.name,
        "shared_seconds": shared_seconds,
    }
    # The run in `source` has another recipe on purpose.
    del facts["recipe"]
    branched = attrs.evolve(state, facts=facts)

    copied_names = {CHECKPOINTS}
    for tracker in state.trackers.values():
        copied_names.update(tracker.get("files", ()))

    manifest = {"name": recipe.run.name, "status": "interrupted"}
    written_files = {RESOLVED: text, **files, MANIFEST: json.dumps(manifest) + "\n"}

    def fill(target: Path) -> None:
        # These names come from a file and may contain `..`, so they only select entries of `source`.
        for part in source.iterdir():
            if part.name not in copied_names:
                continue
            if part.is_dir():
                shutil.copytree(part, target / part.name, copy_function=_link)
            else:
                shutil.copy2(part, target / part.name)

        write_state(target, branched)
        for name, text_of_file in written_files.items():
            write_atomic(target / name, text_of_file)

    write_directory(directory, fill)


def _link(source: str, target: str) -> None:
    """Hard-link a file that is no longer written to; copy it if the file system has no hard links."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
