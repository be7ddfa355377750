"""Notes that name the component whose code raised an error."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from sentbed._component_names import full_name
from sentbed._document.structuring import parts_in
from sentbed._toml import KeyPath
from sentbed.errors import SentbedError
from sentbed.protocols import Component, Recipe


@contextmanager
def naming_components(part: Any) -> Iterator[None]:
    """Add a note to an error in the `with` block: which component's code raised it, and its place in the recipe.

    A `SentbedError` gets no note, since its message says what is wrong and what to do.

    Args:
        part: Recipe, or part of one, whose components are used in the block. Only a recipe knows places.
    """
    try:
        yield
    except SentbedError:
        raise
    except Exception as error:
        for path, component in _raising(error.__traceback__, part):
            note = f"in {full_name(component)}"
            if isinstance(part, Recipe):
                note += str(part.problem("", path))
            error.add_note(note)
        raise


def _raising(
    trace: TracebackType | None,
    part: Any,
) -> list[tuple[KeyPath, Component]]:
    """Return the component, with its path in the recipe, whose method is innermost in a traceback.

    If there is none, return all components of the class whose code is innermost, such as that of a module within
    `build`; else all from the package.
    """
    candidates: list[tuple[KeyPath, Component]] = []
    for frame, _ in reversed(list(traceback.walk_tb(trace))):
        if not candidates:
            package = _package(str(frame.f_globals.get("__name__")))
            for path, inner in parts_in(part):
                if (
                    isinstance(inner, Component)
                    and _package(type(inner).__module__) == package
                ):
                    candidates.append((path, inner))

        for path, component in candidates:
            if component is frame.f_locals.get("self"):
                return [(path, component)]

        owners = []
        for path, component in candidates:
            if frame.f_code.co_qualname.startswith(f"{type(component).__qualname__}."):
                owners.append((path, component))
        candidates = owners or candidates
    return candidates


def _package(module: str) -> str:
    return module.partition(".")[0]
