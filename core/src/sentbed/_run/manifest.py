"""The manifest of a run: versions of plugins and libraries, git commit, machine, and facts of the run."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from functools import cache
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from sentbed._files import read_json, write_atomic
from sentbed._machine_resources import physical_memory, usable_cores
from sentbed._registry.registry import Plugins
from sentbed.errors import RunError

MANIFEST = "manifest.json"
"""File of a run directory that has the manifest."""


def write_manifest(
    directory: Path,
    name: str,
    status: str,
    facts: dict[str, Any],
) -> None:
    """Write the manifest of a run: its name, its status, and the facts so far."""
    content = {"name": name, "status": status, **facts}
    text = json.dumps(content, indent=2, default=str)
    write_atomic(directory / MANIFEST, text + "\n")


def read_manifest(directory: Path) -> dict[str, Any]:
    """Return the manifest of a run. Raises `RunError` if there is none."""
    try:
        return dict(read_json(directory / MANIFEST))
    except OSError as error:
        raise RunError(
            f"`{directory}` is not a run directory (no `{MANIFEST}` in it that can be read); name one"
        ) from error


def describe(plugins: Plugins, recipe_directory: Path | None) -> dict[str, Any]:
    """Return the versions of plugins and libraries, the git commit of the recipe, and facts about the machine."""
    plugin_facts = []
    for plugin in plugins.plugins:
        plugin_facts.append(
            {
                "name": plugin.name,
                "distribution": plugin.distribution,
                "version": plugin.version,
                "status": plugin.status,
                "reason": plugin.reason,
            }
        )
    memory = physical_memory()
    memory_gib = round(memory / 2**30, 1) if memory else None
    return {
        "plugins": plugin_facts,
        "libraries": _libraries(),
        "python": platform.python_version(),
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "git": _git(recipe_directory or Path.cwd()),
        "machine": {
            "system": platform.platform(),
            "processor": platform.processor() or platform.machine(),
            "cores": usable_cores(),
            "memory_gib": memory_gib,
        },
    }


@cache
def _libraries() -> dict[str, str]:
    """Return the version of each installed distribution, by its name in lower case."""
    versions: dict[str, str] = {}
    for distribution in distributions():
        name = distribution.metadata["Name"]
        # What an interrupted installation has left may have no name.
        if name:
            # Of two, the first on the path is imported: a library may bring others of its own.
            versions.setdefault(name.lower(), distribution.version)
    return dict(sorted(versions.items()))


def _git(directory: Path) -> str | None:
    """Return the commit that is checked out in a directory, with `-dirty` if the work tree has changes.

    None if the directory is in no repository, or git is not installed.
    """
    command = ["git", "-C", str(directory), "describe", "--always", "--dirty"]
    try:
        process = subprocess.run(
            [*command, "--abbrev=40", "--exclude=*"],
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return process.stdout.strip()
