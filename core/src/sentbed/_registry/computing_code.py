"""Versions of the code that computes scores. A study computes a score again if they have changed."""

from __future__ import annotations

import json
import platform
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sentbed._document.structuring import parts_in
from sentbed._files import sha256
from sentbed._json import key_of
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
    is included if it is installed. A working copy has the hash of its code besides its version.
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
            code[name] += f" {code_of_package(_package(installed))}"
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


def _package(installed: Distribution) -> str:
    """Return the name of a distribution's package."""
    for point in installed.entry_points.select(group=GROUP):
        return point.module.partition(".")[0]
    return installed.name.replace("-", "_")


@cache
def code_of_package(module: str) -> str | None:
    """Return a hash of all files of a module's top-level package, as they are at the first call in this process.

    If it is in no package, return the hash of its own file, or None if it has none: a class was typed in.
    """
    hashes = {}
    for name, file in _files_of_package(module).items():
        hashes[name] = sha256(file)
    if not hashes:
        return None
    return key_of(hashes)


def _files_of_package(module: str) -> dict[str, Path]:
    """Return the files of a module's top-level package, by their paths in it; else the module's own file."""
    spec = None
    with suppress(ValueError):  # `__main__` has no specification
        spec = find_spec(module.partition(".")[0])

    if spec is not None and spec.submodule_search_locations is not None:
        files = {}
        for directory in spec.submodule_search_locations:
            for file in sorted(Path(directory).rglob("*")):
                if file.is_file() and "__pycache__" not in file.parts:
                    files[file.relative_to(directory).as_posix()] = file
        return files

    own_file = getattr(sys.modules.get(module), "__file__", None)
    if spec is not None and spec.has_location:
        own_file = spec.origin
    if own_file is None:
        return {}
    return {Path(own_file).name: Path(own_file)}
