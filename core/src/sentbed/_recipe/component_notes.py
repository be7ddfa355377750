"""Notes that name the component of a recipe whose code raised an error."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType

from sentbed._component_names import full_name
from sentbed._document.structuring import parts_in
from sentbed._recipe.recipe import Recipe, written_path
from sentbed.errors import SentbedError
from sentbed.protocols import Component


@contextmanager
def naming_components(recipe: Recipe) -> Iterator[None]:
    """Add a note to an error in the `with` block: which component's code raised it, and its place in the recipe.

    A `SentbedError` gets no note, since its message says what is wrong and what to do.
    """
    try:
        yield
    except SentbedError:
        raise
    except Exception as error:
        paths = {}
        for path, part in parts_in(recipe):
            if isinstance(part, Component):
                paths[id(part)] = path, part

        components = [part for _, part in paths.values()]
        for component in _raising(error.__traceback__, components):
            path, _ = paths[id(component)]
            path_in_file = written_path(recipe.document.data, path)
            place = recipe.document.problem("", path_in_file)
            error.add_note(f"in {full_name(component)}{place}")
        raise


def _raising(
    trace: TracebackType | None,
    components: Sequence[Component],
) -> list[Component]:
    """Return the component whose method, or the components whose package's code, is innermost in a traceback."""
    candidates: list[Component] = []
    for frame, _ in reversed(list(traceback.walk_tb(trace))):
        if not candidates:
            package = _package(str(frame.f_globals.get("__name__")))
            for component in components:
                if _package(type(component).__module__) == package:
                    candidates.append(component)

        method_of = frame.f_locals.get("self")
        for component in candidates:
            if component is method_of:
                return [component]
    return candidates


def _package(module: str) -> str:
    return module.partition(".")[0]
