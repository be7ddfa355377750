"""Conflicts between overrides (`--set`) and axes that set the same value.

An axis may set a whole table, such as the stages of a training, and so replace a value in the table that an
override has set. The override is then applied again after the axis. But if the axes give the cells different
values at the path of the override, the override is refused: the cells would no longer differ as their labels say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

import attrs
from sentbed.errors import Problem, RecipeError
from sentbed.tools import Document, apply_overrides, set_values

from sentbed_studies.axes import Combination, Names, names_of_path

_NO_ELEMENT = object()
"""Stands for the value of an array element that does not exist."""


@attrs.frozen
class Override:
    """Override of a value that the axes of a study may also set."""

    path: str
    names: Names
    """Keys of the path. A stage is given by its name instead of its index."""
    text: str
    """The override as `PATH=VALUE`. A stage is given by its name instead of its index."""

    @property
    def removes(self) -> bool:
        """Whether the override removes the key (`PATH=`)."""
        return self.text.endswith("=")

    def set_by(self, names: Names) -> bool:
        """Whether an axis that sets the path `names` replaces the value of the override."""
        if self.removes and self.names == names:
            # The user removes the key so that the axis can set it.
            return False
        return self.names[: len(names)] == names


_Setter: TypeAlias = tuple[str, str, str]
"""Axis, label, and a path that the label sets."""


def with_overrides(
    document: Document,
    cell: Document,
    combination: Combination,
) -> Document:
    """Return the document of a cell in which the overrides that its axes had replaced are applied again."""
    names_of = _names_function(document)
    for override in _overrides(document):
        if not any(override.set_by(names_of(path)) for path in combination.settings):
            continue

        value = _value(cell, override.names)
        if value is _NO_ELEMENT or (override.removes and value is None):
            continue

        # The override stands among those of the document already.
        changed = apply_overrides(cell, [override.text])
        cell = attrs.evolve(changed, overrides=cell.overrides)
        # If the override sets a table, values that axes set inside this table are set again after it.
        inside = {}
        for path, value in combination.settings.items():
            names = names_of(path)
            is_inside = names[: len(override.names)] == override.names
            if is_inside and names != override.names:
                inside[path] = value
        cell = set_values(cell, inside, "the axes' path")
    return cell


def refused_overrides(
    document: Document, combinations: Sequence[Combination]
) -> Iterator[Problem]:
    """Yield a problem for each override whose value the axes do not set to the same value in all these cells.

    Also yield a problem for each override of an array element that the axes remove in all these cells.
    """
    names_of = _names_function(document)
    for override in _overrides(document):
        distinct = _distinct_settings(override, combinations, names_of)
        message = _conflict(override, distinct, document)
        if message:
            yield Problem(message, override.path)


def _conflict(
    override: Override,
    distinct: Mapping[tuple[_Setter, ...], Mapping[str, Any]],
    document: Document,
) -> str:
    """Return the message for an override that conflicts with axes; empty if it does not conflict.

    `distinct` is the result of `_distinct_settings`.
    """
    labels_of_axis: dict[str, dict[str, None]] = {}
    values = []
    example = ""
    for setters, settings in distinct.items():
        for axis, label, _ in setters:
            labels_of_axis.setdefault(axis, {})[label] = None
        try:
            changed = set_values(document.plain or document, settings, "")
            value = _value(changed, override.names)
        except RecipeError:
            # A path of the axis does not exist, which is reported as a problem of the cell.
            continue
        if value is _NO_ELEMENT:
            continue
        values.append(value)
        for setter in setters:
            example = example or _override_of_label(override, setter)

    if not labels_of_axis:
        return ""

    names = []
    for axis, labels in labels_of_axis.items():
        names.append(f"the axis `{axis}` ({', '.join(labels)})")
    axes = " and ".join(names)
    if not values:
        return (
            f"found the override `{override.path}`, but no cell that is asked for has such a value: "
            f"{axes} takes it out; remove the override, or ask for other cells"
        )

    if all(value == values[0] for value in values):
        return ""
    return (
        f"found the override `{override.path}`, but its value is that of {axes}, and not the same in all "
        f"cells; set it in the axis (`--set {example or 'study.axes...'}`), or ask for cells in which it is "
        "(`--only AXIS=LABEL`)"
    )


def _distinct_settings(
    override: Override,
    combinations: Sequence[Combination],
    names_of: Callable[[str], Names],
) -> dict[tuple[_Setter, ...], dict[str, Any]]:
    """Return the different ways in which the axes of the cells set the value of an override.

    A way is given by the labels of a cell that set the value, and mapped to what they set (path -> value). It is
    empty for cells whose axes do not set the value.
    """
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


def _override_of_label(override: Override, setter: _Setter) -> str:
    """Return an override that sets the value in an axis's label instead; empty if no dotted path can name it."""
    if override.names == setter[2:] or any("." in name for name in setter):
        return ""
    return ".".join(("study", "axes", *setter, *override.names[1:])) + "=..."


def _overrides(document: Document) -> Iterator[Override]:
    """Yield the last override of each path of a recipe, except for paths in `[study]`."""
    names_of = _names_function(document)
    value_of_path = {}
    for override in document.overrides:
        path, _, value = override.partition("=")
        value_of_path[path.strip()] = value

    for path, value in value_of_path.items():
        names = names_of(path)
        if names[0] != "study":
            yield Override(path, names, f"{'.'.join(names)}={value}")


def _names_function(document: Document) -> Callable[[str], Names]:
    """Return a cached function from a dotted path to its keys (`axes.Names`).

    Stages have their names from before any override.
    """
    return cache(lambda path: names_of_path(document.plain or document, path))


def _value(document: Document, names: Names) -> Any:
    """Return the value at a path; None if a key does not exist, `_NO_ELEMENT` if an array element does not."""
    value: Any = document.data
    for key in document.key_path(".".join(names)):
        if isinstance(value, list):
            if isinstance(key, str) or key >= len(value):
                return _NO_ELEMENT
        elif not isinstance(value, Mapping) or key not in value:
            return None
        value = value[key]
    return value
