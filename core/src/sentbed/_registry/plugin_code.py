"""What a plugin's code says of itself: the API that it is made for, where it failed, what it would offer.

What is asked of a plugin that is not loaded is read from its source: one that is disabled must not run.
"""

from __future__ import annotations

import inspect
import re
import sys
import traceback
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from itertools import accumulate
from pathlib import Path

from sentbed._version import API_VERSION, __version__
from sentbed.errors import SentbedError

API_NAME = "sentbed_api"
"""What a plugin's module calls the API that it is made for."""

_WRITTEN = re.compile(rf"^{API_NAME}\b[^=\n]*=\s*[\"']([^\"'\n]*)[\"']", re.MULTILINE)


def declared_api(value: str, plugin: object) -> object:
    """Return what a loaded plugin, or its entry point's module, says in `sentbed_api`; None if nothing."""
    modules = reversed(list(accumulate(_module(value).split("."), "{}.{}".format)))
    for thing in (plugin, *map(sys.modules.get, modules)):
        found = getattr(thing, API_NAME, None)
        if found is not None:
            return found
    return None


def written_api(value: str) -> str | None:
    """Return what `declared_api` would, from the source: of a plugin whose import fails."""
    found = (_WRITTEN.search(text) for text in _texts(_module_files(value)))
    return next((match[1] for match in found if match), None)


def api_refusal(api: object, distribution: str) -> str | None:
    """Return why a plugin made for this API cannot be used, and what to do; None where it can."""
    if api is None:
        return None
    found = re.fullmatch(r"([0-9]{1,6})\.([0-9]{1,6})", api) if isinstance(api, str) else None
    if found is None:
        return (
            f"its `{API_NAME}` is {api!r}, which is no version; it must be MAJOR.MINOR as a string, "
            f'such as "{API_VERSION}"'
        )
    wanted = tuple(map(int, found.groups()))
    ours = tuple(map(int, API_VERSION.split(".")))
    if wanted[0] == ours[0] and wanted <= ours:
        return None
    release = f"get a release of `{distribution}` for API {ours[0]}"
    remedy = f"upgrade sentbed (`pip install --upgrade sentbed`), or {release}" if wanted > ours else release
    return f"it is made for API {api} of sentbed, and sentbed {__version__} has API {API_VERSION}; {remedy}"


def unmet_sentbed(distribution: str) -> str:
    """Return a clause that says which other sentbed a distribution asks for; "" where this one will do."""
    from sentbed._findings import requirements

    try:
        wanted = [one for one in requirements(distribution) if one.name.lower() == "sentbed"]
    except ValueError:  # what it asks for cannot be read
        return ""
    if all(one.specifier.contains(__version__, prereleases=True) for one in wanted):
        return ""
    asked = ", ".join(str(one.specifier) for one in wanted)
    return (
        f"; it asks for sentbed{asked}, and this is sentbed {__version__}: install the sentbed that it asks "
        f"for, or another release of `{distribution}`"
    )


def reason_of(error: BaseException) -> str:
    """Return an error of a plugin in words."""
    try:
        said = str(error)
    except Exception:  # noqa: BLE001 - an error of a plugin may fail at anything, its own words included
        said = ""
    if isinstance(error, SentbedError) and said:
        return said
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def place_of(error: BaseException, value: str) -> str | None:
    """Return `file:line` of the innermost frame in the plugin's own code, or of what is no Python."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    top = _module(value).partition(".")[0]
    found = [
        f"{frame.f_code.co_filename}:{line}"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if str(frame.f_globals.get("__name__")).partition(".")[0] == top != "sentbed"
    ]
    return found[-1] if found else file_of(_module(value))


def defined_at(thing: object) -> str | None:
    """Return `file:line` of a class or function."""
    try:
        return f"{inspect.getsourcefile(thing)}:{inspect.getsourcelines(thing)[1]}"  # type: ignore[arg-type]
    except (OSError, TypeError):
        return None


def file_of(module: str) -> str | None:
    """Return the file of a module that is loaded."""
    return getattr(sys.modules.get(module), "__file__", None)


def would_offer(value: str, hook: str, name: str) -> bool:
    """Whether the source of a plugin implements a hook, and has a component of this name."""
    texts = list(_sources(value))
    hooked = re.compile(rf"^\s*def {hook}\(|\bspecname\s*=\s*[\"']{hook}[\"']", re.MULTILINE)
    named = re.compile(rf"^\s+name\b[^=\n]*=\s*[\"']{re.escape(name)}[\"']", re.MULTILINE)
    return any(map(hooked.search, texts)) and any(map(named.search, texts))


def _module(value: str) -> str:
    return value.partition(":")[0].strip()


def _outermost(value: str) -> tuple[Path, list[Path]]:
    """Return the file of a plugin's outermost module, which is not imported for it, and its directories."""
    try:
        spec = find_spec(_module(value).partition(".")[0])
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        return Path(), []
    return Path(spec.origin or ""), [Path(place) for place in spec.submodule_search_locations or ()]


def _module_files(value: str) -> Iterator[Path]:
    """Yield where the source of a plugin's module may be, then that of the packages around it."""
    file, places = _outermost(value)
    inner = _module(value).split(".")[1:]
    for depth in range(len(inner), 0, -1):
        for place in places:
            module = place.joinpath(*inner[:depth])
            yield from (module / "__init__.py", module.parent / f"{module.name}.py")
    yield file


def _sources(value: str) -> Iterator[str]:
    """Yield the source of every file of a plugin's outermost package."""
    file, places = _outermost(value)
    files = sorted(found for place in places for found in place.rglob("*.py"))
    return _texts(files or [file])


def _texts(files: Iterable[Path]) -> Iterator[str]:
    for file in files:
        try:
            yield file.read_text("utf-8", errors="replace")
        except OSError:
            continue
