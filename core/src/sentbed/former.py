"""Former names: what components and their fields were called before; see `protocols.Component`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from sentbed.registry import ComponentInfo, Plugins


def find_former(plugins: Plugins, kind: str, name: str) -> ComponentInfo | None:
    """Return the component of a kind that was called `name` before, or None."""
    of_kind = (info for info in plugins.components.values() if info.kind == kind)
    return next((info for info in of_kind if name in _formerly(info.cls)), None)


def renamed_fields(cls: type[Any]) -> Mapping[str, str]:
    """Return the former names of a table's keys -> the names that they have now."""
    found = getattr(cls, "renamed", None)
    # A field may be called so, too.
    is_ours = isinstance(found, Mapping) and all(
        isinstance(one, str) for pair in found.items() for one in pair
    )
    return cast("Mapping[str, str]", found) if is_ours else {}


def _formerly(cls: type[Any]) -> tuple[str, ...]:
    found = getattr(cls, "formerly", None)
    return found if isinstance(found, tuple) and all(isinstance(name, str) for name in found) else ()


def now_called(old: str, new: str) -> str:
    """Return what `sentbed check` says of a former name."""
    return f"`{old}` is now called `{new}`; `sentbed migrate FILE` rewrites it"
