"""Faults of components: methods that return what they must not, and the plugins whose they are."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from typing import Any, TypeVar

from sentbed.errors import PluginError

T = TypeVar("T")

ADVICE = "test it with `sentbed_testing.check_component`, or tell its authors"
"""End of a message about a component that does what it must not."""


def distribution_of(module: str) -> tuple[str, str] | None:
    """Return name and version of the distribution whose plugin a module belongs to, or None."""
    from importlib.metadata import entry_points

    top = module.partition(".")[0]
    names = (f"{top}.", f"{top}:")
    points = [one for one in entry_points(group="sentbed") if f"{one.value}.".startswith(names)]
    return next(((one.dist.name, one.dist.version) for one in points if one.dist), None)


def release_of(module: str) -> str:
    """Return distribution and version of the plugin that a module belongs to, or the module if of none."""
    found = distribution_of(module)
    return f"`{found[0]}` {found[1]}" if found else f"`{module}`"


def fault(component: Any, method: str, wrong: str, place: str = "") -> PluginError:
    """Return the error for a component whose method did something `wrong`: whose it is, and where it stands.

    `component` may be a class, such as that of a built backbone. `place` is `FILE:LINE`, by default where the
    method begins.
    """
    cls = component if isinstance(component, type) else type(component)
    module = cls.__module__
    bases = (base.__name__ for base in cls.__mro__ if base.__module__.startswith("sentbed.protocols."))
    kind = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", next(bases, "object")).lower()
    function = getattr(cls, method, None)
    code = getattr(getattr(function, "fget", function), "__code__", None)
    file = getattr(sys.modules.get(module), "__file__", None) or module
    place = place or (file if code is None else f"{code.co_filename}:{code.co_firstlineno}")
    return PluginError(
        f"`{method}` of the {kind} `{getattr(component, 'name', cls.__qualname__)}` of "
        f"{release_of(module)} {wrong} @ {place}; {ADVICE}"
    )


def returned(found: T, expected: Any, component: Any, method: str) -> T:
    """Return what a component's method returned. Raises `PluginError` if it is not what was expected."""
    if isinstance(found, expected):
        return found
    names = " or ".join(f"`{one.__name__}`" for one in getattr(expected, "__args__", (expected,)))
    raise fault(component, method, f"returned {found!r:.80}, expected {names}")


def number(found: Any, component: Any, method: str) -> float:
    """Return what a component's method returned, as a float. Raises `PluginError` if it is no number."""
    try:
        if not isinstance(found, str | bytes):
            return float(found)
    except Exception:  # noqa: BLE001 - an object may raise anything; it is no number then
        pass
    raise fault(component, method, f"returned {found!r:.80}, expected a number")


def sentences(found: Any, component: Any, method: str) -> list[str]:
    """Return the problems that a component's method returned. Raises `PluginError` if they are none."""
    if isinstance(found, str) or not isinstance(found, Iterable):
        raise fault(component, method, f"returned {found!r:.80}, expected several sentences")
    return [returned(one, str, component, method) for one in found]
