"""Facts for the manifest of a run: versions of plugins and libraries, git commit, machine."""

from __future__ import annotations

import platform
import re
import subprocess
import sys
from collections.abc import Mapping
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


def _git(directory: Path) -> Mapping[str, Any] | None:
    """Return the commit that is checked out in a directory, and whether its work tree is clean.

    `clean` is None if `git status` fails or takes too long. The result is None if the directory is in no
    repository, or git is not installed.
    """

    def output_of(*arguments: str) -> str | None:
        try:
            process = subprocess.run(
                ["git", "-C", str(directory), *arguments],
                capture_output=True,
                text=True,
                timeout=10,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        if process.returncode != 0:
            return None
        return process.stdout.strip()

    commit = output_of("rev-parse", "HEAD")
    if commit is None:
        return None
    status = output_of("status", "--porcelain", "--untracked-files=no")
    clean = None
    if status is not None:
        clean = status == ""
    return {"commit": commit, "clean": clean}
