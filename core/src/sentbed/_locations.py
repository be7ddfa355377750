"""Locations of files and directories that recipes name.

A location is a path relative to the recipe's directory, `pkg:PACKAGE/path` for a file in an installed Python
package, or `data:path` for a file below the directory that the environment variable `SENTBED_DATA` names. For a
dataset, it may also be `hub:ID`.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NewType, get_args

from sentbed.errors import DataError

FilePath = NewType("FilePath", str)
"""Type of a component's field with the location of a file. A relative path in a recipe becomes absolute."""

ModelId = NewType("ModelId", str)
"""Type of a component's field with a model: a hub id, `pkg:PACKAGE/path`, or a directory.

A directory begins with `.`, `/` or `~`; a relative path in a recipe becomes absolute.
"""

DATA_VARIABLE = "SENTBED_DATA"

HUB = "hub:"
"""Prefix of the location of a dataset: its id on the hub (`hub:OWNER/NAME`), or a directory (`hub:./NAME`)."""


def absolute(location: str, base: Path) -> str:
    """Return a location with its path made absolute; a relative path is relative to the directory `base`.

    Locations that begin with `pkg:` or `data:` are returned unchanged, and so is a hub id after `hub:`. A
    directory after `hub:` (it begins with `.`, `/` or `~`) becomes absolute.
    """
    scheme, _, rest = location.partition(":")
    if scheme == "hub" and rest.startswith((".", "/", "~")):
        return f"hub:{absolute(rest, base)}"
    if scheme in ("pkg", "data", "hub"):
        return location
    return str((base / Path(location).expanduser()).resolve())


def mentions(kind: Any, name: Any) -> bool:
    """Whether a type is `name` or has it as an argument: `tuple[FilePath, ...]` mentions `FilePath`."""
    return kind is name or any(mentions(part, name) for part in get_args(kind))


def locate(location: str) -> Path:
    """Return the existing file or directory that a location names.

    Raises:
        DataError: if it does not exist, the package is not installed, or `SENTBED_DATA` is not set.
    """
    path = _resolve(location)
    if path.is_file() or path.is_dir():
        return path
    file = None if str(path) == location else path
    raise DataError(f"`{location}` does not exist; check the path", file)


def _resolve(location: str) -> Path:
    """Return the path of a location; it need not exist."""
    scheme, _, rest = location.partition(":")
    if scheme == "pkg":
        package, _, inner = rest.partition("/")
        top, *below = package.split(".")
        try:
            # `find_spec` gets only the first part of the name: for `a.b`, it would import `a`.
            spec = importlib.util.find_spec(top)
        except (ImportError, ValueError):  # the name of no module
            spec = None
        places: Iterable[str] = ()
        if spec is not None:
            places = spec.submodule_search_locations or ()
        for place in places:
            directory = Path(place).joinpath(*below)
            if directory.is_dir():
                return directory / inner
        raise DataError(
            f"`{location}` names the Python package `{package}`, which is not installed here; "
            f"correct the name, or install it with `pip install {top.replace('_', '-')}`"
        )

    if scheme == "data":
        root = data_root()
        if root is None:
            raise DataError(
                f"`{location}` is relative to `{DATA_VARIABLE}`, which is not set; "
                f"set it to the directory that holds the data"
            )
        return root / rest
    return Path(location).expanduser()


def data_root() -> Path | None:
    """Return the directory that `SENTBED_DATA` names, or None if it is not set."""
    value = os.environ.get(DATA_VARIABLE)
    return Path(value).expanduser() if value else None
