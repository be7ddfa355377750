"""Errors for components whose methods return wrong values; each error names the component's plugin."""

from __future__ import annotations

import re
import sys
from typing import Any, TypeVar

from sentbed.errors import PluginError

T = TypeVar("T")

ADVICE = "test it with `sentbed_testing`, or tell its authors"
"""Advice at the end of a message about a faulty component."""


def distribution_of(module: str) -> tuple[str, str] | None:
    """Return the name and version of the distribution that has this module; None if it is not a plugin's."""
    from importlib.metadata import entry_points

    top = module.partition(".")[0]
    for point in entry_points(group="sentbed"):
        if point.dist and re.split("[.:]", point.value)[0] == top:
            return point.dist.name, point.dist.version
    return None


def release_of(module: str) -> str:
    """Return the distribution and version of a plugin's module, for messages.

    If the module is not a plugin's, return its name.
    """
    release = distribution_of(module)
    if release is None:
        return f"`{module}`"
    name, version = release
    return f"`{name}` {version}"


def fault(
    component: Any,
    method: str,
    wrong: str,
    place: str = "",
) -> PluginError:
    """Return an error that says which method of which component is faulty, and which plugin has the component.

    Args:
        component: The component, an object that it has built (such as a `TextEncoder`), or a class.
        method: Name of the method.
        wrong: What the method did, as the predicate of a sentence: `returned 3, expected a string`.
        place: `FILE:LINE` of the fault; by default, the line where the method begins.
    """
    cls = component if isinstance(component, type) else type(component)
    module = cls.__module__
    name = getattr(component, "name", cls.__qualname__)
    kind = "object"
    for base in cls.__mro__:
        if base.__module__.startswith("sentbed.protocols."):
            kind = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", base.__name__).lower()
            break
    place = place or _place_of_method(cls, method)
    return PluginError(
        f"`{method}` of the {kind} `{name}` of {release_of(module)} {wrong} @ {place}; {ADVICE}"
    )


def _place_of_method(cls: type, method: str) -> str:
    """Return `FILE:LINE` of a method; if it has no Python code, the file (or else the module) of its class."""
    function = getattr(cls, method, None)
    code = getattr(getattr(function, "fget", function), "__code__", None)
    if code is not None:
        return f"{code.co_filename}:{code.co_firstlineno}"
    return getattr(sys.modules.get(cls.__module__), "__file__", None) or cls.__module__
