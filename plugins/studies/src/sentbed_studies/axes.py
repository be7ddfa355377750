"""Axes of a study: their labels, the recipe values that the labels set, and the cells that they form."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import attrs
from sentbed.errors import Problem, RecipeError, suggest, unknown_keys
from sentbed.tools import Document, KeyPath, node_of, set_values

from sentbed_studies.study_config import StudyTable

MOST_COMBINATIONS = 100_000
"""Maximum number of combinations of labels, before `exclude` removes some."""

Entry: TypeAlias = Mapping[str, str | tuple[str, ...]]
"""Selection of cells: axis -> label or labels. A cell must have one of these labels on each of these axes."""

Names: TypeAlias = tuple[str, ...]
"""Keys of a dotted path. For an array element that has a name, such as a stage, the name replaces the index."""

_KEYS = ("path", "values", "labels", "file", "lines")
"""Keys in the table of an axis with a `path`."""

_NOT_AN_AXIS = {
    "run.seed": "seeds are no labels; write `seeds = [1, 2, 3]` under `[study]`",
    "run.name": "a name changes no score; vary what the scores depend on",
    "run.cache": "no score depends on it; take it out",
    "run.allow_overlap": "no score depends on it; take it out",
    "study": "a cell has no study; take it out",
    "": "a path is that of `--set`, such as `encoder.pooler.use`",
}
"""Path or table that an axis must not set -> reason, for the message."""


@attrs.frozen
class Axis:
    """Factor of a study, such as the pooler, whose levels are its labels."""

    name: str

    settings: Mapping[str, Mapping[str, Any]]
    """Label -> dotted path in the recipe -> value that the label sets."""

    places: Mapping[str, KeyPath]
    """Label -> key path in the document of what the label sets, for messages."""

    named_numbers: Mapping[str, float] = attrs.field(factory=dict)
    """Label -> its number in `[study.numbers]`; see `StudyTable.numbers`."""

    @property
    def labels(self) -> tuple[str, ...]:
        """All labels, in the order of the recipe."""
        return tuple(self.settings)

    @property
    def numbers(self) -> tuple[float, ...] | None:
        """Number of each label: from `[study.numbers]`, or the number that the label sets in the recipe.

        None if a label has neither.
        """
        if self.named_numbers:
            return tuple(self.named_numbers[label] for label in self.labels)

        numbers = []
        for setting in self.settings.values():
            number = _only_number(setting)
            if number is None:
                return None
            numbers.append(number)
        return tuple(numbers)

    def paths(self, document: Document) -> tuple[str, ...]:
        """Return the dotted paths that the labels set; names replace indices as in `Names`."""
        paths: dict[str, None] = {}
        for setting in self.settings.values():
            for path in setting:
                paths[".".join(names_of_path(document, path))] = None
        return tuple(paths)


def names_of_path(document: Document, path: str) -> Names:
    """Return the keys of a dotted path in a recipe; names replace indices as in `Names`."""
    value: Any = document.data
    names: Names = ()
    for key, index in zip(path.split("."), document.key_path(path), strict=True):
        try:
            value = value[index]
        except (KeyError, IndexError, TypeError):
            value = None
        if isinstance(index, int) and isinstance(value, Mapping):
            name = value.get("name")
            if isinstance(name, str) and "." not in name and not name.isdigit():
                names += (name,)
                continue
        names += (key,)
    return names


def _only_number(setting: Mapping[str, Any]) -> float | None:
    """Return the number that a label sets at all its paths; None if the values differ, or are not numbers."""
    values = list(setting.values())
    if not values or any(value != values[0] for value in values):
        return None
    if isinstance(values[0], bool) or not isinstance(values[0], int | float):
        return None
    return float(values[0])


@attrs.frozen
class Cell:
    """One label per axis. A cell is run under every seed and prompt of the study."""

    labels: Mapping[str, str]
    """Axis -> label."""

    @property
    def name(self) -> str:
        """Name of the cell in `[study.expected]` and tables: its labels joined, in the order of the axes."""
        return ", ".join(self.labels.values())


def cell_document(
    document: Document, labels: Iterable[tuple[Axis, str]]
) -> tuple[Document, list[Problem]]:
    """Return the document of a cell, and a problem for each path of an axis that does not exist in the recipe.

    `labels` are the axes with their labels, in the order in which they are applied. The position of a value that
    an axis sets is that of the axis in the recipe's file, for messages.
    """
    values: dict[str, Any] = {}
    for axis, label in labels:
        for path, value in axis.settings[label].items():
            # If an earlier axis sets the same path, only the later axis sets it, in its own turn.
            values.pop(path, None)
            values[path] = node_of(value, *document.place(axis.places[label]))
    return set_values(document.without("study"), values)


def read_axes(table: StudyTable, document: Document) -> tuple[Axis, ...]:
    """Return the axes of `[study]`. Raises `RecipeError` with all problems of the axes."""
    problems: list[Problem] = []
    axes = []
    for name, content in table.axes.items():
        place = ("study", "axes", name)
        numbers = table.numbers.get(name, {})
        try:
            settings = _settings(content)
        except ValueError as error:
            problems.append(document.problem(str(error), place))
            continue

        unnumbered = [label for label in settings if label not in numbers]
        if numbers and unnumbered:
            message = f"the label `{unnumbered[0]}` has no number; give one to each label of the axis, or to none"
            problems.append(document.problem(message, ("study", "numbers", name)))

        for message in _refused_paths(settings):
            problems.append(document.problem(message, place))

        places = {}
        for label in settings:
            places[label] = (*place, label)
            if document.value(places[label]) is None:
                places[label] = (*place, "values")
        axes.append(Axis(name, settings, places, numbers))

    if problems:
        raise RecipeError(problems)
    return tuple(axes)


def _refused_paths(settings: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield a message for each path in `settings` that no axis may set."""
    paths: dict[str, None] = {}
    for setting in settings.values():
        paths.update(dict.fromkeys(setting))
    for path in paths:
        table = path.partition(".")[0]
        reason = _NOT_AN_AXIS.get(table) or _NOT_AN_AXIS.get(path)
        if reason:
            yield f"the axis sets `{path}`: {reason}"


def _settings(content: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return label -> path -> value for the table of an axis. Raises `ValueError` if the table is wrong."""
    path = content.get("path")
    paths: list[Any] = [path]
    if isinstance(path, list) and path:
        paths = path
    if all(isinstance(path, str) for path in paths):
        return _settings_of_paths(paths, content)
    return _settings_of_labels(content)


def _settings_of_labels(content: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return label -> path -> value for an axis with a table per label. Raises `ValueError`."""
    settings = {}
    for label, setting in content.items():
        if not isinstance(setting, Mapping):
            raise ValueError(  # noqa: TRY004 - a fault of the recipe, as all others here
                f"the label `{label}` is {setting!r}, expected a table of the values that it sets, by path "
                '(`{ "encoder.pooler.use" = "mean" }`); an axis over one path has `path` and `values`'
            )
        settings[label] = dict(leaves(setting))

    if not settings:
        raise ValueError(
            "the axis has no labels; give it `path` and `values`, or a table for each label"
        )
    return settings


def _settings_of_paths(
    paths: Sequence[str],
    content: Mapping[str, Any],
) -> dict[str, dict[str, Any]]:
    """Return label -> path -> value for an axis with `path` and `values`. Raises `ValueError`."""
    unknown = [key for key in content if key not in _KEYS]
    for message in unknown_keys(unknown, _KEYS):
        raise ValueError(message)

    values: list[Any] = []
    labels: list[str] = []
    if "values" in content or "labels" in content or "file" not in content:
        values, labels = _values_and_labels(content)
    for line in _lines(content):
        values.append({"file": content["file"], "line": line})
        labels.append(str(line))

    if len(set(labels)) < len(labels):
        raise ValueError(
            f"two values have one label ({', '.join(labels)}); give `labels` that differ"
        )

    settings = {}
    for label, value in zip(labels, values, strict=True):
        settings[label] = dict.fromkeys(paths, value)
    return settings


def _lines(content: Mapping[str, Any]) -> range:
    """Return the numbers of the lines of `file` that are labels; empty without `file`. Raises `ValueError`."""
    file, lines = content.get("file"), content.get("lines")
    if file is None and lines is None:
        return range(0)
    if not isinstance(file, str) or not isinstance(lines, int) or lines < 1:
        raise ValueError(
            f"`file` is {file!r:.80} and `lines` is {lines!r:.80}; give the file of the prompts, and the number "
            "of its lines that are labels"
        )
    return range(1, lines + 1)


def _values_and_labels(content: Mapping[str, Any]) -> tuple[list[Any], list[str]]:
    """Return the `values` of an axis and their labels. Raises `ValueError`."""
    values = content.get("values")
    if values is None:
        raise ValueError(
            "the axis has a `path` and no `values`; give it an array of them"
        )
    if not isinstance(values, list) or not values:
        raise ValueError(
            f"`values` is {values!r:.80}, expected an array of at least one value"
        )

    labels = content.get("labels")
    if labels is None:
        labels = list(map(_label, values))
    if not isinstance(labels, list) or any(
        not isinstance(label, str) for label in labels
    ):
        raise ValueError("`labels` is to be an array of strings, one for each value")

    if len(labels) != len(values):
        raise ValueError(
            f"there are {len(values)} values and {len(labels)} labels; give as many of each"
        )

    return list(values), labels


def _label(value: Any) -> str:
    """Return the label of a value: the value as text, or for a table its `use`. Raises `ValueError`."""
    if isinstance(value, Mapping):
        if not isinstance(value.get("use"), str):
            raise ValueError(  # noqa: TRY004 - a fault of the recipe
                "the values are tables without `use`; give the axis `labels`, one for each value"
            )
        return str(value["use"])

    if isinstance(value, list):
        return " ".join(map(_label, value)) or "none"

    if isinstance(value, bool):
        return str(value).lower()

    return str(value)


def leaves(paths: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the dotted path and the value of each leaf of nested tables.

    TOML parses `{ encoder.pooler.use = "x" }` as nested tables. A quoted path sets a whole table:
    `{ "encoder.pooler" = { use = "x" } }`.
    """
    for path, value in paths.items():
        if "." in path or not isinstance(value, Mapping) or not value:
            yield path, value
            continue
        for rest, inner in leaves(value):
            yield f"{path}.{rest}", inner


def labels_that_are_equal(axes: Sequence[Axis]) -> Iterator[str]:
    """Yield a remark for each pair of labels of an axis that set the same values: their cells are equal."""
    for axis in axes:
        for first, second in itertools.combinations(axis.labels, 2):
            if axis.settings[first] == axis.settings[second]:
                yield (
                    f"the labels `{first}` and `{second}` of the axis `{axis.name}` set the same values, so "
                    "that their cells are equal; take one out, or change its values"
                )


def combinations(
    table: StudyTable,
    axes: Sequence[Axis],
    document: Document,
) -> tuple[Cell, ...]:
    """Return the combinations of labels that form cells. The label of the last axis changes fastest.

    Raises:
        RecipeError: if a key of `[study]` names an unknown axis or label, if two cells have the same labels,
            or if there is no cell or too many.
    """
    problems = list(_problems_of_names(table, axes, document))
    if problems:
        raise RecipeError(problems)

    names = [axis.name for axis in axes]
    labels_of_axes = [axis.labels for axis in axes]
    count = math.prod(map(len, labels_of_axes))
    if count > MOST_COMBINATIONS:
        message = f"the axes make {count:,} combinations, more than {MOST_COMBINATIONS:,}; take labels out"
        raise RecipeError([document.problem(message, ("study", "axes"))])

    cells: dict[str, Cell] = {}
    for row in itertools.product(*labels_of_axes):
        labels = dict(zip(names, row, strict=True))
        if matches_any(labels, table.exclude):
            continue

        cell = Cell(labels)
        if cell.name in cells:
            message = f"two cells have the labels `{cell.name}`; give the axes labels that differ"
            raise RecipeError([document.problem(message, ("study", "axes"))])
        cells[cell.name] = cell

    if not cells:
        message = "`exclude` leaves no cell; take an entry out"
        raise RecipeError([document.problem(message, ("study", "exclude"))])

    return tuple(cells.values())


def baseline_of(table: StudyTable, axes: Sequence[Axis]) -> dict[str, str] | None:
    """Return axis -> label of the baseline; None if the study has no baseline."""
    if table.baseline is None:
        return None
    labels = {}
    for axis in axes:
        labels[axis.name] = table.baseline.get(axis.name, axis.labels[0])
    return labels


def matches(labels: Mapping[str, str], entry: Entry) -> bool:
    """Whether a cell with these labels has one of the entry's labels on each axis of the entry."""
    return all(
        labels.get(axis) in as_tuple(alternatives)
        for axis, alternatives in entry.items()
    )


def matches_any(labels: Mapping[str, str], entries: Sequence[Entry]) -> bool:
    """Whether a cell with these labels matches one of the entries."""
    return any(matches(labels, entry) for entry in entries)


def as_tuple(labels: str | tuple[str, ...]) -> tuple[str, ...]:
    """Return the label or labels of an entry as a tuple."""
    return (labels,) if isinstance(labels, str) else labels


def _problems_of_names(
    table: StudyTable,
    axes: Sequence[Axis],
    document: Document,
) -> Iterator[Problem]:
    """Yield a problem for each key of `[study]` that names an unknown axis or label."""
    names = {axis.name: axis.labels for axis in axes}
    for name, numbers in table.numbers.items():
        numbered = {name: tuple(numbers)}
        yield from unknown_labels(numbered, axes, document, ("study", "numbers"))

    for index, entry in enumerate(table.exclude):
        yield from unknown_labels(entry, axes, document, ("study", "exclude", index))

    for index, name in enumerate(table.ranks or ()):
        if name not in names:
            yield document.problem(unknown_axis(name, names), ("study", "ranks", index))

    if table.baseline is None:
        return

    yield from unknown_labels(table.baseline, axes, document, ("study", "baseline"))
    for name, labels in names.items():
        if name not in table.baseline and len(labels) > 1:
            message = f"the baseline has no label on the axis `{name}`; name one of {', '.join(labels)}"
            yield document.problem(message, ("study", "baseline"))


def unknown_axis(name: str, names: Mapping[str, object]) -> str:
    """Return the message for an axis that is not among `names`."""
    return f"there is no axis `{name}`.{suggest(name, list(names))}"


def unknown_labels(
    entry: Entry,
    axes: Sequence[Axis],
    document: Document,
    path: KeyPath = (),
) -> Iterator[Problem]:
    """Yield a problem for each unknown axis or label in `entry`, whose key path is `path`."""
    by_name = {axis.name: axis for axis in axes}
    for name, labels in entry.items():
        place = (*path, name)
        if name not in by_name:
            yield document.problem(unknown_axis(name, by_name), place)
            continue

        axis = by_name[name]
        for label in as_tuple(labels):
            if label in axis.labels:
                continue
            hint = suggest(label, axis.labels)
            message = f"the axis `{name}` has no label `{label}`.{hint}"
            yield document.problem(message, place)
