"""Facts for the manifest of a run: versions of plugins and libraries, git commit, machine."""

from __future__ import annotations

import platform
import re
import subprocess
import sys
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

from sentbed._machine_resources import physical_memory, usable_cores
from sentbed._registry.registry import Plugins

MANIFEST = "manifest.json"
"""File of a run directory that has the manifest."""


def describe(plugins: Plugins, recipe_directory: Path | None) -> dict[str, Any]:
    """Return the versions of plugins and libraries, the git commit of the recipe, and facts about the machine."""
    distributions = {"sentbed"}
    plugin_facts = []
    for plugin in plugins.plugins:
        distributions.add(plugin.distribution)
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
        "libraries": dict(_libraries(frozenset(distributions))),
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
def _libraries(distributions: frozenset[str]) -> dict[str, str]:
    """Return the version of each installed library that these distributions or their extras require."""
    names: set[str] = set()
    versions: dict[str, str] = {}
    for distribution in distributions:
        with suppress(PackageNotFoundError):
            for line in requires(distribution) or ():
                name, *_ = re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)
                names.add(name.lower())
    for name in sorted(names):
        with suppress(PackageNotFoundError):
            number: str | None = version(name)
            if number is not None:
                versions[name] = number
    return versions


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
