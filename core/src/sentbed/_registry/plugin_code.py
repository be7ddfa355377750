"""Facts read from a plugin's code: the API it was made for, where it failed, what it would offer.

For a plugin that is not loaded they are read from the source: a disabled plugin must not run.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import traceback
from collections.abc import Iterable, Iterator
from importlib import metadata
from importlib.util import find_spec
from itertools import accumulate
from pathlib import Path

from sentbed._version import API_VERSION, __version__

API_NAME = "sentbed_api"
"""Name in a plugin's module for the API version it was made for."""


def declared_api(value: str, plugin: object) -> object:
    """Return `sentbed_api` of a loaded plugin, its entry point's module or a parent package, or None."""
    modules = reversed(list(accumulate(_module(value).split("."), "{}.{}".format)))
    for thing in (plugin, *map(sys.modules.get, modules)):
        found = getattr(thing, API_NAME, None)
        if found is not None:
            return found
    return None


def written_api(value: str) -> str | None:
    """Return `sentbed_api` as written in the source, for a plugin whose import fails; None if absent."""
    return next((api for body in _bodies(value) for api in _assigned(body, API_NAME)), None)


def api_refusal(api: object, distribution: str) -> str | None:
    """Return why a plugin made for this API cannot be used, and a remedy; None if it can."""
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
    """Return a clause naming the sentbed version that a distribution requires; "" if this one is suitable."""
    from packaging.requirements import Requirement

    try:
        lines = map(Requirement, metadata.requires(distribution) or ())
        wanted = [one for one in lines if one.name.lower() == "sentbed"]
        wanted = [one for one in wanted if one.marker is None or one.marker.evaluate({"extra": ""})]
    except (metadata.PackageNotFoundError, ValueError):  # what it asks for cannot be read
        return ""
    if all(one.specifier.contains(__version__, prereleases=True) for one in wanted):
        return ""
    asked = ", ".join(str(one.specifier) for one in wanted)
    return (
        f"; it asks for sentbed{asked}, and this is sentbed {__version__}: install the sentbed that it asks "
        f"for, or another release of `{distribution}`"
    )


def place_of(error: BaseException, value: str) -> str | None:
    """Return `file:line` of the innermost frame in the plugin's code, or of a syntax error; else its file."""
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
    """Return `file:line` of a class or function, or None if its source is not available."""
    try:
        return f"{inspect.getsourcefile(thing)}:{inspect.getsourcelines(thing)[1]}"  # type: ignore[arg-type]
    except (OSError, TypeError):
        return None


def file_of(module: str) -> str | None:
    """Return the file of a loaded module, or None."""
    return getattr(sys.modules.get(module), "__file__", None)


def would_offer(value: str, hook: str, name: str) -> bool:
    """Whether the source of a plugin's module implements a hook and has a class, or a key, named `name`."""
    nodes = [node for statement in next(_bodies(value), ()) for node in ast.walk(statement)]
    hooks: set[object] = {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
    keywords = (node for node in nodes if isinstance(node, ast.keyword) and node.arg == "specname")
    hooks |= {node.value.value for node in keywords if isinstance(node.value, ast.Constant)}
    classes = (node for node in nodes if isinstance(node, ast.ClassDef))
    keys = (key for node in nodes if isinstance(node, ast.Dict) for key in node.keys)
    lazy = any(isinstance(key, ast.Constant) and key.value == name for key in keys)
    return hook in hooks and (lazy or any(name in _assigned(node.body, "name") for node in classes))


def _module(value: str) -> str:
    return value.partition(":")[0].strip()


def _bodies(value: str) -> Iterator[list[ast.stmt]]:
    """Yield the statements of a plugin's module, then of its parent packages, without importing them."""
    first, *inner = _module(value).split(".")
    try:
        spec = find_spec(first)
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        return
    places = [Path(place) for place in spec.submodule_search_locations or ()]
    modules = [place.joinpath(*inner[:depth]) for depth in range(len(inner), 0, -1) for place in places]
    files = [file for module in modules for file in (module / "__init__.py", module.with_suffix(".py"))]
    for file in (*files, Path(spec.origin or "")):
        if file.is_file():
            try:
                yield ast.parse(file.read_bytes()).body
            except (OSError, SyntaxError, ValueError):  # reported when the module is imported
                yield []


def _assigned(body: Iterable[ast.stmt], name: str) -> Iterator[str]:
    """Yield each string constant that a statement assigns to `name`."""
    for node in body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            named = any(isinstance(target, ast.Name) and target.id == name for target in targets)
            if named and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
                yield node.value.value
