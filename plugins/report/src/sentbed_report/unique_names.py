"""Unique names for files, and for the ids of a page."""

from __future__ import annotations

from collections.abc import Callable

LONGEST = 100
"""Maximum number of characters of a name of a file, without number and suffix; file systems allow 255 bytes."""


def unique_name(
    name: str,
    taken: set[str],
    reduced: Callable[[str], str] = str,
) -> str:
    """Return the name, with a number appended if it is in `taken`, and add the result to `taken`.

    Names are compared after `reduced`, which may for example make them lower case; `taken` has reduced names.
    """
    numbered = name
    times = 1
    while reduced(numbered) in taken:
        times += 1
        numbered = f"{name}-{times}"
    taken.add(reduced(numbered))
    return numbered
