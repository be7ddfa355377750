"""Versions of the code that computes scores. A study computes a score again if they have changed."""

from __future__ import annotations

import hashlib
import json
import platform
import re
import subprocess
from collections.abc import Iterable, Iterator
from functools import lru_cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sentbed._document.structuring import parts_in
from sentbed._registry.registry import GROUP, Plugins
from sentbed.protocols import Component, RecipeTable

CORE = "sentbed"
"""Name of core's distribution and of its package."""

LIBRARIES_WITHOUT_EFFECT = frozenset(
    {
        "attrs",
        "cattrs",
        "click",
        "filelock",
        "huggingface-hub",
        "jinja2",
        "matplotlib",
        "pluggy",
        "rich",
        "tomli",
        "tomli-w",
        "tqdm",
        "typing-extensions",
    }
)
"""Required libraries whose versions do not affect scores.

They read recipes, write pages, or fetch files; the content of these files is compared anyway.
"""


def components_of(part: Any) -> Iterator[type]:
    """Yield the class of each component and of each plugin's table in a part of a recipe."""
    for _, table in parts_in(part):
        if isinstance(table, Component | RecipeTable):
            yield type(table)


def computing_code(classes: Iterable[type], plugins: Plugins) -> dict[str, str]:
    """Return the version of each distribution that computes scores, by its name.

    These are core, the distributions of the component `classes`, and what they require. An optional requirement
    is included if it is installed. A working copy has its state in git besides its version.
    """
    waiting = [CORE]
    for cls in classes:
        offer = plugins.origin(cls)
        if offer is not None:
            waiting.append(offer.distribution)

    code = {"python": ".".join(platform.python_version_tuple()[:2])}
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in code or name in LIBRARIES_WITHOUT_EFFECT:
            continue
        try:
            installed = distribution(name)
        except PackageNotFoundError:
            continue

        code[name] = installed.version
        if _is_working_copy(installed):
            code[name] += f" {_state_in_git(_package_directory(installed))}"
        # The requirements of libraries are theirs. Core's extras are plugins, which a recipe uses or does not.
        requirements = list(_requirements(installed, with_extras=name != CORE))
        if name == CORE or CORE in requirements:
            waiting += requirements
    return code


def _requirements(installed: Distribution, with_extras: bool) -> Iterator[str]:
    """Yield the name of each distribution that a distribution requires."""
    for line in installed.requires or ():
        is_optional = "extra ==" in line
        if with_extras or not is_optional:
            yield re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0]


def _is_working_copy(installed: Distribution) -> bool:
    """Whether a distribution was installed as editable (PEP 610)."""
    origin = json.loads(installed.read_text("direct_url.json") or "{}")
    return bool(origin.get("dir_info", {}).get("editable"))


def _package_directory(installed: Distribution) -> Path | None:
    """Return the directory of a distribution's package, which is not imported; None if it has none."""
    package = installed.name.replace("-", "_")
    for point in installed.entry_points.select(group=GROUP):
        package = point.module.partition(".")[0]
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent


@lru_cache
def _state_in_git(directory: Path | None) -> str:
    """Return the id of a directory's tree in git, and a hash of what has changed since; else why not."""
    if directory is None:
        return "without a package"
    try:
        tree = _git(directory, "rev-parse", "HEAD:./").strip()
        changes = _git(directory, "status", "--porcelain", ".")
        changes += _git(directory, "diff", "HEAD", ".")
    except (OSError, subprocess.CalledProcessError):
        return "not in git"
    if not changes:
        return tree
    return f"{tree} changed {hashlib.sha256(changes.encode()).hexdigest()}"


def _git(directory: Path, *arguments: str) -> str:
    """Return the output of git in a directory."""
    command = ["git", "-C", str(directory), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
