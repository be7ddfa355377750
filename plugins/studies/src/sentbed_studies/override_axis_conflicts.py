"""Overrides (`--set`) of values that an axis of the study also sets: applied again, or refused.

An axis may set a whole table, such as the stages of a training, and so replace a value in it that an override
has set. The override is then applied again after the axis. If the axes give the cells different values at its
path, the override is an error: the labels of the cells would no longer be true.
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
"""Returned instead of a value if there is no such array element."""


@attrs.frozen
class Override:
    """Override of a value that the axes of a study may also set."""

    path: str
    names: Names
    """Keys of the path, with stages by name."""
    text: str
    """`PATH=VALUE`, with stages by name."""

    @property
    def removes(self) -> bool:
        """Whether it removes the key."""
        return self.text.endswith("=")

    def set_by(self, names: Names) -> bool:
        """Whether an axis that sets the path `names` replaces the value of the override."""
        if self.removes and self.names == names:
            # The key is removed so that the axis can set it.
            return False
        return self.names[: len(names)] == names


_Setter: TypeAlias = tuple[str, str, str]
"""Axis, label, and a path that the label sets."""


def with_overrides(
    document: Document, cell: Document, combination: Combination
) -> Document:
    """Return the document of a cell with the overrides that its axes replaced applied again."""
    names_of = _names_function(document)
    for override in _overrides(document):
        if not any(override.set_by(names_of(path)) for path in combination.settings):
            continue

        value = _value(cell, override.names)
        if value is _NO_ELEMENT or (override.removes and value is None):
            continue

        cell = apply_overrides(cell, [override.text])
        # What axes set inside of the overridden table is set again, too.
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
    """Yield a problem for each override that has other values in some of these cells, or that no cell has."""
    names_of = _names_function(document)
    for override in _overrides(document):
        labels: dict[str, dict[str, None]] = {}
        values = []
        example = ""
        distinct = _distinct_settings(override, combinations, names_of)
        for setters, settings in distinct.items():
            for axis, label, _ in setters:
                labels.setdefault(axis, {})[label] = None
            try:
                changed = set_values(document.plain or document, settings, "")
                value = _value(changed, override.names)
            except RecipeError:
                # A path of the axis leads nowhere, which is a problem of the cell.
                continue
            if value is _NO_ELEMENT:
                continue
            values.append(value)
            for setter in setters:
                example = example or _override_of_label(override, setter)

        if not labels or (values and all(value == values[0] for value in values)):
            continue
        axes = " and ".join(
            f"the axis `{axis}` ({', '.join(of_axis)})"
            for axis, of_axis in labels.items()
        )
        if values:
            message = (
                f"found the override `{override.path}`, but its value is that of {axes}, and not the same in "
                f"all cells; set it in the axis (`--set {example or 'study.axes...'}`), or ask for cells in "
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
    """Return the labels that set the value of an override in a cell -> their settings (path -> value)."""
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
    """Return the override that sets the value in the label of an axis; empty if it has no dotted path."""
    if override.names == setter[2:] or any("." in name for name in setter):
        return ""
    return ".".join(("study", "axes", *setter, *override.names[1:])) + "=..."


def _overrides(document: Document) -> Iterator[Override]:
    """Yield the last override of each path of a recipe, without those of `[study]`."""
    names_of = _names_function(document)
    latest = {}
    for override in document.overrides:
        path, _, text = override.partition("=")
        latest[path.strip()] = text
    for path, text in latest.items():
        names = names_of(path)
        if names[0] != "study" and "*" not in names:
            yield Override(path, names, f"{'.'.join(names)}={text}")


def _names_function(document: Document) -> Callable[[str], Names]:
    """Return the cached function from a dotted path to its keys, with stages by name before the overrides."""
    return cache(lambda path: names_of_path(document.plain or document, path))


def _value(document: Document, names: Names) -> Any:
    """Return the value at a path; None without such a key, `_NO_ELEMENT` without such an array element."""
    value: Any = document.data
    for key in document.key_path(".".join(names)):
        if isinstance(value, list):
            if isinstance(key, str) or key >= len(value):
                return _NO_ELEMENT
        elif not isinstance(value, Mapping) or key not in value:
            return None
        value = value[key]
    return value
