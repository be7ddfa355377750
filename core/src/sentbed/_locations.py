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
HUB = "hub:"
"""Scheme of a hub's id, or of a local directory with the same content."""


def absolute(location: str, base: Path) -> str:
    """Make a plain path absolute against `base`; return locations with a scheme (`pkg:` etc.) unchanged.

    After `hub:`, a directory, which starts with `.`, `/` or `~`, becomes absolute, too.
    """
    scheme, _, rest = location.partition(":")
    if scheme == "hub" and rest.startswith((".", "/", "~")):
        return f"hub:{absolute(rest, base)}"
    if scheme in ("pkg", "data", "hub"):
        return location
    return str((base / Path(location).expanduser()).resolve())


class WrittenPath(str):
    """Absolute path that is relative in the recipe, or begins with `~`.

    Recipes that a run writes have the path in its original form, so that they can be moved with their files.
    """

    __slots__ = ("form",)
    form: str
    """The path as it is in the recipe."""

    def __new__(cls, path: str, form: str) -> WrittenPath:
        """Return an absolute path with its form in the recipe."""
        written = super().__new__(cls, path)
        written.form = form
        return written

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override]  # str's has no form
        return str(self), self.form

    def seen_from(self, directory: Path) -> str:
        """Return the path relative to `directory`, beginning with `./` or `../`; with `~`, as in the recipe."""
        scheme = HUB if self.startswith(HUB) else ""
        if self.form.startswith(f"{scheme}~"):
            return self.form
        path = self.removeprefix(scheme)
        try:
            relative = Path(os.path.relpath(path, directory.resolve())).as_posix()
        except ValueError:  # on another drive
            return str(self)
        if relative == "..":
            relative = "../"
        elif not relative.startswith("../"):
            relative = f"./{relative}"
        return scheme + relative


def placed(location: str, base: Path) -> str:
    """Return the absolute location; a `WrittenPath` if it is not absolute in the recipe."""
    path = absolute(location, base)
    if path == location or Path(location.removeprefix(HUB)).is_absolute():
        return path
    return WrittenPath(path, location)


def with_absolute_paths(data: Any, directory: Path) -> Any:
    """Return TOML data, which a run has written in `directory`, with paths made absolute."""
    if isinstance(data, dict):
        return {
            key: with_absolute_paths(value, directory) for key, value in data.items()
        }
    if isinstance(data, list):
        return [with_absolute_paths(value, directory) for value in data]
    if isinstance(data, str) and data.removeprefix(HUB).startswith(("./", "../", "~/")):
        return absolute(data, directory)
    return data


def mentions(kind: Any, name: Any) -> bool:
    """Whether a type is or contains `name`: `tuple[FilePath, ...]` mentions `FilePath`."""
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
        fault = "does not exist"
        if is_device(path):
            fault = "is a pipe or a device, expected a file"
    except OSError as error:
        raise DataError(f"`{location}` cannot be a path: {error.strerror}") from error
    file = None if str(path) == location else path
    raise DataError(f"`{location}` {fault}; check the path", file)


def _resolve(location: str) -> Path:
    scheme, _, rest = location.partition(":")
    if scheme == "pkg":
        package, _, inner = rest.partition("/")
        top, *below = package.split(".")
        try:
            spec = importlib.util.find_spec(top)  # for `a.b`, it would import `a`
        except (ImportError, ValueError):  # not the name of a module
            spec = None
        places = spec.submodule_search_locations if spec else None
        for place in places or ():
            directory = Path(place).joinpath(*below)
            if directory.is_dir():
                return directory / inner
        raise DataError(
            f"`{location}` names the Python package `{package}`, which is not installed; "
            f"install it with `pip install {package.replace('_', '-')}`"
        )
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
