"""Resuming a stopped run from its newest training state."""

from __future__ import annotations

from pathlib import Path

from sentbed._registry.registry import Plugins, load_plugins
from sentbed._run.run_directory import read_manifest
from sentbed._run.runner import RunResult, go_on
from sentbed.errors import RunError
from sentbed.protocols import Recipe


def resume(
    directory: str | Path,
    recipe: Recipe,
    plugins: Plugins | None = None,
) -> RunResult:
    """Resume a stopped run from its newest training state that is not damaged.

    The result is that of an uninterrupted run. If the runtime is deterministic, it is the same bit for bit. A run
    that has no training state yet starts again.

    Args:
        directory: Directory of the run.
        recipe: The recipe that the run was started with. If it is another one, the run goes on with it, and
            warns.
        plugins: Installed plugins; they are loaded by default.

    Raises:
        RunError: if there is nothing to resume.
        Further errors: as for `run`.
    """
    directory = Path(directory)
    if read_manifest(directory)["status"] == "finished":
        raise RunError(
            f"the run in `{directory}` has finished; there is nothing to resume"
        )
    return go_on(recipe, directory, plugins or load_plugins())
