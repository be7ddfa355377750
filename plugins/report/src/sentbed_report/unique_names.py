"""Names that differ from each other, for files and for ids of a page."""

from __future__ import annotations

from collections.abc import Callable


def unique_name(name: str, taken: set[str], reduced: Callable[[str], str] = str) -> str:
    """Return the name, with a number behind it if there is one like it, and add it to `taken`.

    `taken` holds names as `reduced` makes them, so that names which differ in nothing else are alike.
    """
    numbered = name
    times = 1
    while reduced(numbered) in taken:
        times += 1
        numbered = f"{name}-{times}"
    taken.add(reduced(numbered))
    return numbered
