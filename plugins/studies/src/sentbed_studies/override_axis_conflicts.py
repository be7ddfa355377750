"""Overrides in the cells of a study: each reaches all cells that have its place, or is refused.

An axis may set a whole table, such as the stages of a training, and so replace a value that an override has
set in it. The override is then applied again, behind the axis. It is refused where the axes give the cells
different values there: their labels would no longer be true.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

import attrs
from sentbed.errors import Problem, RecipeError
from sentbed.tools import Document, apply_overrides, set_values

from sentbed_studies.axes import Combination, Names, names_of_path

_GONE = object()
"""Stands in for a value: there is no such array element."""


@attrs.frozen
class Override:
    """Override of a value that the axes of a study may set, too."""

    path: str
    names: Names
    text: str
    """`PATH=VALUE`, with names for numbers."""

    @property
    def removes(self) -> bool:
        """Whether it takes the key out."""
        return self.text.endswith("=")

    def set_by(self, names: Names) -> bool:
        """Whether a setting at `names` replaces its value, alone or with the table that holds it."""
        inside = self.names[: len(names)] == names
        # A key may be taken out for the axis to set it.
        return inside and not (self.removes and self.names == names)


_Setter: TypeAlias = tuple[str, str, str]
"""Axis, its label, and a path that this sets."""


def with_overrides(
    document: Document, cell: Document, combination: Combination
) -> Document:
    """Return the document of a cell with the overrides of the study's document that its axes replaced."""
    names_of = _namer(document)
    for override in _overrides(document):
        if not any(override.set_by(names_of(path)) for path in combination.settings):
            continue

        value = _value(cell, override.names)
        if value is _GONE or (override.removes and value is None):
            continue

        cell = apply_overrides(cell, [override.text])
        inside = {}
        for path, value in combination.settings.items():
            names = names_of(path)
            if (
                names != override.names
                and names[: len(override.names)] == override.names
            ):
                inside[path] = value
        cell = set_values(cell, inside, "the axes' path")
    return cell


def refused_overrides(
    document: Document, combinations: Sequence[Combination]
) -> Iterator[Problem]:
    """Yield a problem for each override whose value the axes decide in these cells, or that reaches none."""
    names_of = _namer(document)
    for override in _overrides(document):
        labels: dict[str, dict[str, None]] = {}
        values = []
        within = ""
        for setters, settings in _distinct_settings(
            override, combinations, names_of
        ).items():
            try:
                changed = set_values(document.plain or document, settings, "")
                value = _value(changed, override.names)
            except RecipeError:
                # The axis' path leads nowhere, which is a problem of the cell.
                value = _GONE
            if value is not _GONE:
                values.append(value)
            for setter in setters:
                axis, label, _ = setter
                labels.setdefault(axis, {})[label] = None
                if value is not _GONE and not within:
                    within = _within_axis(override, setter)

        if not labels or (values and all(value == values[0] for value in values)):
            continue
        axes = " and ".join(
            f"the axis `{axis}` ({', '.join(of_axis)})"
            for axis, of_axis in labels.items()
        )
        if values:
            message = (
                f"found the override `{override.path}`, but its value is that of {axes}, and not the same in "
                f"all cells; set it in the axis (`--set {within or 'study.axes...'}`), or ask for cells in "
                "which it is (`--only AXIS=LABEL`)"
            )
        else:
            message = (
                f"found the override `{override.path}`, but no cell that is asked for has such a value: "
                f"{axes} takes it out; remove the override, or ask for other cells"
            )
        yield Problem(message, override.path)


def _distinct_settings(
    override: Override,
    combinations: Sequence[Combination],
    names_of: Callable[[str], Names],
) -> dict[tuple[_Setter, ...], dict[str, Any]]:
    """Return what axes set in a cell at the place of an override (path -> value), by the labels that do."""
    distinct = {}
    for combination in combinations:
        setters = []
        settings = {}
        for path, value in combination.settings.items():
            if override.set_by(names_of(path)):
                axis = combination.axes[path]
                setters.append((axis, combination.labels[axis], path))
                settings[path] = value
        distinct[tuple(setters)] = settings
    return distinct


def _within_axis(override: Override, setter: _Setter) -> str:
    """Return the override of the value in a label of an axis; empty if no dotted path leads there."""
    if override.names == setter[2:] or any("." in name for name in setter):
        return ""
    return ".".join(("study", "axes", *setter, *override.names[1:])) + "=..."


def _overrides(document: Document) -> Iterator[Override]:
    names_of = _namer(document)
    latest = {}
    for override in document.overrides:
        path, _, text = override.partition("=")
        latest[path.strip()] = text
    for path, text in latest.items():
        names = names_of(path)
        if names[0] != "study" and "*" not in names:
            yield Override(path, names, f"{'.'.join(names)}={text}")


def _namer(document: Document) -> Callable[[str], Names]:
    """Return the function from a dotted path to its names, as they are before the overrides."""
    return cache(lambda path: names_of_path(document.plain or document, path))


def _value(document: Document, names: Names) -> Any:
    """Return the value at a path; None without such a key, `_GONE` without such an array element."""
    place: Any = document.data
    for key in document.key_path(".".join(names)):
        if isinstance(place, list):
            if isinstance(key, str) or key >= len(place):
                return _GONE
        elif not isinstance(place, Mapping) or key not in place:
            return None
        place = place[key]
    return place
