"""The code that computes scores: versions of distributions, and hashes of the code that may change.

A study computes a score again if this code has changed. The code of sentbed's distributions, and of any
distribution installed from a working copy, is hashed with all its files. A library is identified by its version.
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
import sys
from collections.abc import Iterable, Iterator
from functools import lru_cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import find_spec
from itertools import accumulate
from pathlib import Path
from typing import Any

import attrs

from sentbed._document.structuring import parts_in
from sentbed._registry.registry import GROUP, Plugins
from sentbed.protocols import Component, RecipeTable

CORE = "sentbed"
"""Name of core's distribution and of its package."""

DECIDES_NO_SCORE = (
    "__main__.py",
    "_cli",
    "_document",
    "_lazy_exports.py",
    "_locations.py",
    "_machine_resources.py",
    "_recipe/checks.py",
    "_recipe/component_compatibility.py",
    "_recipe/load.py",
    "_recipe/remarks.py",
    "_registry",
    "_run/history.py",
    "_run/manifest.py",
    "_run/report_json.py",
    "_run/resume.py",
    "_run/trackers.py",
    "_signals.py",
    "_start_time.py",
    "citations.bib",
    "errors.py",
    "helpers.py",
    "hookspecs.py",
    "kinds.py",
    "protocols/report_data.py",
    "tools.py",
)
"""Modules of core that do not affect scores. They read the recipe, which is compared anyway, or show results."""

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
    """Return, for each distribution that computes scores, its version and a hash of the code that may change.

    Core, the distributions of the component `classes`, and every required distribution whose code may change have
    both, as in `0.3 9f86...`. Other required libraries have only a version. An optional library is included if it
    is installed.
    """
    code = {"python": ".".join(platform.python_version_tuple()[:2])}
    waiting = [CORE]
    for cls in dict.fromkeys(classes):
        origin = plugins.origin(cls)
        name = "" if origin is None else normalised(origin.distribution)
        if _installed(name) is not None:
            waiting.append(name)
        else:
            # The class is from a test, a notebook, or a distribution without metadata.
            package = cls.__module__.partition(".")[0]
            code[package] = f"here {files_digest(package_files(cls))}"

    while waiting:
        name = waiting.pop()
        installed = _installed(name)
        if name in code or installed is None:
            continue
        digests = [files_digest(_files_of(module)) for module in installed.modules]
        code[name] = " ".join([installed.version, *digests])

        for requirement, optional in installed.requirements:
            required = _installed(requirement)
            if optional and name == CORE:
                # Core's extras are plugins and a model. They are included if a recipe uses them.
                continue
            if required is None or requirement in LIBRARIES_WITHOUT_EFFECT:
                continue
            if not required.has_changing_code:
                code[requirement] = required.version
            elif not optional:
                waiting.append(requirement)
    return code


def normalised(distribution: str) -> str:
    """Return the name of a distribution as PEP 503 normalises it."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


def files_digest(files: Iterable[Path]) -> str:
    """Return a hash of the names and contents of files; "" without files. It is cached until a file changes."""
    states = []
    for file in sorted(files):
        state = file.stat()
        states.append((file, state.st_size, state.st_mtime_ns, state.st_ctime_ns))
    return _digest(tuple(states))


@lru_cache(maxsize=256)
def _digest(states: tuple[tuple[Path, int, int, int], ...]) -> str:
    """Return the hash for files with this size, time of modification and time of change."""
    if not states:
        return ""
    digest = hashlib.sha256()
    for file, *_ in states:
        content = file.read_bytes()
        digest.update(f"{file.name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def package_files(cls: type) -> set[Path]:
    """Return all files of the outermost package that has a class; without a package, the file of its module."""
    for name in accumulate(cls.__module__.split("."), "{}.{}".format):
        module = sys.modules.get(name)
        file = getattr(module, "__file__", None)
        # A namespace package has no file. It is passed over, since it may contain unrelated code.
        if file and hasattr(module, "__path__"):
            return _files_below(Path(file).parent)
    return {Path(file)} if file else set()


def _files_of(module: str) -> set[Path]:
    """Return the files of a top-level module or package without importing it.

    Of core, only the files that affect scores are returned.
    """
    try:
        spec = find_spec(module)
    except (ImportError, ValueError):
        return set()
    if spec is None or spec.origin is None:
        return set()
    if not spec.submodule_search_locations:
        return {Path(spec.origin)}
    directory = Path(spec.origin).parent
    files = _files_below(directory)
    if module == CORE:
        without = tuple(str(directory / part) for part in DECIDES_NO_SCORE)
        files = {file for file in files if not str(file).startswith(without)}
    return files


def _files_below(directory: Path) -> set[Path]:
    """Return all files below a directory, except compiled Python."""
    files = set()
    for file in directory.rglob("*"):
        if "__pycache__" in file.parts or file.suffix == ".pyc":
            continue
        if file.is_file():
            files.add(file)
    return files


@attrs.frozen
class _Installed:
    """Metadata of an installed distribution."""

    version: str

    modules: tuple[str, ...]
    """Top-level modules of its plugins; without plugins, the module with the distribution's name."""

    requirements: tuple[tuple[str, bool], ...]
    """Name of each distribution that it requires, and whether an extra requires it."""

    has_changing_code: bool
    """Whether its code may change while its version does not: it is core, requires core, or is a working copy."""


@lru_cache(maxsize=512)
def _installed(name: str) -> _Installed | None:
    """Return the metadata of a distribution, or None if it is not installed. The result is cached."""
    try:
        installed = distribution(name)
    except (PackageNotFoundError, ValueError):
        return None

    modules = set()
    for point in installed.entry_points:
        if point.group == GROUP:
            modules.add(point.module.partition(".")[0])
    if not modules:
        modules = {name.replace("-", "_")}

    has_changing_code = name == CORE or _is_working_copy(installed)
    requirements = []
    for line in installed.requires or ():
        requirement = normalised(re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0])
        is_optional = "extra" in line.partition(";")[2]
        requirements.append((requirement, is_optional))
        has_changing_code = has_changing_code or requirement == CORE

    return _Installed(
        installed.version,
        tuple(sorted(modules)),
        tuple(requirements),
        has_changing_code,
    )


def _is_working_copy(installed: Distribution) -> bool:
    """Whether a distribution was installed as editable (PEP 610)."""
    try:
        origin = json.loads(installed.read_text("direct_url.json") or "{}")
        return bool(origin.get("dir_info", {}).get("editable"))
    except (ValueError, AttributeError):
        return False
