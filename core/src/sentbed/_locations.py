"""Locations of files named in recipes.

A path in a recipe is relative to the recipe; `pkg:PACKAGE/path` is a file inside an installed Python
package; `data:path` is a file under the directory that the environment variable `SENTBED_DATA` names.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any, NewType, get_args

from sentbed._files import is_device
from sentbed.errors import DataError

FilePath = NewType("FilePath", str)
"""Component fields of this type are made absolute against the recipe's directory; see `locate`."""

ModelId = NewType("ModelId", str)
"""A hub id, `pkg:PACKAGE/path`, or a local directory that starts with `.`, `/` or `~`; see `locate`."""

DATA_VARIABLE = "SENTBED_DATA"


def absolute(location: str, base: Path) -> str:
    """Make a plain path absolute against `base`; return locations with a scheme (`pkg:` etc.) unchanged.

    A directory behind `hub:`, which starts with `.`, `/` or `~`, becomes absolute, too.
    """
    scheme, _, rest = location.partition(":")
    if scheme == "hub" and rest.startswith((".", "/", "~")):
        return f"hub:{absolute(rest, base)}"
    if scheme in ("pkg", "data", "hub"):
        return location
    return str((base / Path(location).expanduser()).resolve())


def mentions(kind: Any, name: Any) -> bool:
    """Whether a type is `name`, such as `FilePath`, or has it within, as `tuple[FilePath, ...]`."""
    return kind is name or any(mentions(part, name) for part in get_args(kind))


def locate(location: str) -> Path:
    """Return the existing file or directory that a location names.

    Raises:
        DataError: if it does not exist, the package is not installed, or `SENTBED_DATA` is not set.
    """
    path = _resolve(location)
    try:
        if path.is_file() or path.is_dir():
            return path
        wrong = "is a pipe or a device, expected a file" if is_device(path) else "does not exist"
    except OSError as error:
        raise DataError(f"`{location}` cannot be a path: {error.strerror}") from error
    raise DataError(f"`{location}` {wrong}; check the path", path if str(path) != location else None)


def _resolve(location: str) -> Path:
    scheme, _, rest = location.partition(":")
    if scheme == "pkg":
        package, _, inner = rest.partition("/")
        top, *below = package.split(".")
        try:
            spec = importlib.util.find_spec(top)  # of `a.b` it would import `a`
        except (ImportError, ValueError):  # not a name
            spec = None
        places = spec.submodule_search_locations or () if spec else ()
        found = (Path(place).joinpath(*below) for place in places)
        if (directory := next((path for path in found if path.is_dir()), None)) is None:
            raise DataError(
                f"`{location}` names the Python package `{package}`, which is not installed; "
                f"install it with `pip install {package.replace('_', '-')}`"
            )
        return directory / inner
    if scheme == "data":
        if (root := data_root()) is None:
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
