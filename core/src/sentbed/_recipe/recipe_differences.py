"""Differences between the TOML data of two recipes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def differences(
    before: Any,
    after: Any,
    path: str = "",
) -> Iterator[str]:
    """Yield `PATH: BEFORE -> AFTER` for each difference between the TOML data of two recipes.

    In the path, a stage has its name if that is the same in both recipes; otherwise it has its index.
    """
    if isinstance(before, dict) and isinstance(after, dict):
        for key in {**before, **after}:
            inner_path = f"{path}.{key}" if path else key
            yield from differences(before.get(key), after.get(key), inner_path)
        return
    are_lists = isinstance(before, list) and isinstance(after, list)
    if are_lists and len(before) == len(after):
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            part = _shared_name(old, new) or index
            yield from differences(old, new, f"{path}.{part}")
    elif before != after:
        yield f"{path}: {_shown(before)} -> {_shown(after)}"


def _shared_name(before: Any, after: Any) -> str | None:
    """Return the `name` of two tables if it is the same in both; else None."""
    if not isinstance(before, dict) or not isinstance(after, dict):
        return None
    name: str | None = before.get("name")
    if name != after.get("name"):
        return None
    return name


def _shown(value: Any) -> str:
    """Return the text that stands for a value in messages."""
    if value is None:
        return "nothing"
    return repr(value)
