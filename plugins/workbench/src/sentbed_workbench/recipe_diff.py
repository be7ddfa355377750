"""Differences between two recipes, with the origin of each value, for `sentbed diff`.

Recipes are compared in full: with the recipes that they extend, the settings of the command line, and
defaults. The elements of an array of tables, such as stages, are matched by name or, if they have none, by
index. If their order does not matter, as for evaluations, equal elements are matched first, and then elements
with the same component.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs
from sentbed.tools import (
    MAIN_ENCODER,
    UNDECISIVE,
    KeyPath,
    Plugins,
    read_document,
    unstructure,
)

from sentbed_workbench.value_origins import (
    DEFAULT,
    Explanation,
    explain,
    is_array_of_tables,
    leaves,
    recipe_of,
    spelled,
    variants_key,
    written,
)

NO_SCORE = (
    *UNDECISIVE,
    "run.cache",
    "run.name",
    "study.baseline",
    "study.expected",
)
"""Paths of tables and values that cannot affect a score. The names of stages cannot either."""

_WIDTH = 100
"""Number of characters above which a table is not shown in full."""


@attrs.frozen
class Side:
    """A value or a table in one of the recipes."""

    path: KeyPath
    """Path of the value in this recipe."""
    value: Any
    origin: str
    """Origin of the value: file and line, `--set`, or `default`."""


@attrs.frozen
class Difference:
    """A value or a table in which two recipes differ."""

    table: str
    """Table under which the difference is shown, such as `run`, `stage.nli` or `encoders.zh`."""
    key: str
    """Path below the table; empty if only one of the recipes has the table."""
    a: Side | None
    """Value in the first recipe; None if it has none."""
    b: Side | None
    """Value in the second recipe; None if it has none."""

    @property
    def path(self) -> str:
        """Path of the difference, with names instead of indices."""
        return _joined(self.table, self.key)

    @property
    def decides(self) -> bool:
        """Whether a score may depend on the difference."""
        if self.table.startswith("stage.") and self.key == "name":
            return False
        return not any(f"{self.path}.".startswith(f"{path}.") for path in NO_SCORE)


def read(
    places: tuple[str, str],
    overrides: Sequence[str],
    plugins: Plugins,
    cells: Sequence[str] = (),
) -> tuple[Explanation, Explanation]:
    """Read two recipes, or the recipes of run directories; see `value_origins.explain`.

    `cells` are names of cells, the recipes that a study makes of one. If one cell is named, it is taken from each
    recipe that has a study. If two are named, the first is a cell of the first recipe, and the second is a cell
    of the second recipe.

    Raises:
        RecipeError: if a recipe is invalid, or has no such cell.
    """
    a, b = map(recipe_of, places)
    cell_of_a: str | None = None
    cell_of_b: str | None = None
    if cells:
        cell_of_a, cell_of_b = cells[0], cells[-1]
    if len(cells) == 1:
        a_has_study = variants_key(read_document(a, overrides), plugins) is not None
        b_has_study = variants_key(read_document(b, overrides), plugins) is not None
        if b_has_study and not a_has_study:
            cell_of_a = None
        if a_has_study and not b_has_study:
            cell_of_b = None

    first = explain(a, overrides, plugins, cell_of_a)
    second = explain(b, overrides, plugins, cell_of_b)
    return first, second


def compare(a: Explanation, b: Explanation) -> list[Difference]:
    """Return the differences between two recipes, in the order of a recipe."""
    tables = unstructure(a.recipe), unstructure(b.recipe)
    return list(_Comparison(a, b).tables(*tables, ((), ()), ()))


@attrs.frozen
class _Comparison:
    """Comparison of two recipes.

    In its methods, `at` has the paths of the compared values in the two recipes. `shown` is the path that is
    shown for them, in which the elements of arrays have names instead of indices.
    """

    a: Explanation
    b: Explanation

    def tables(
        self,
        a: Mapping[str, Any],
        b: Mapping[str, Any],
        at: tuple[KeyPath, KeyPath],
        shown: KeyPath,
    ) -> Iterator[Difference]:
        """Yield the differences between two tables."""
        other_component = "use" in a and "use" in b and a["use"] != b["use"]
        for key in {**a, **b}:
            path_in_a, path_in_b = (*at[0], key), (*at[1], key)
            if key in a and key in b:
                paths = (path_in_a, path_in_b)
                yield from self.values(a[key], b[key], paths, (*shown, key))
                continue

            if key in a:
                side = self.side(self.a, a[key], path_in_a)
            else:
                side = self.side(self.b, b[key], path_in_b)
            # If the components differ, the defaults of one of them are no further difference.
            if not (other_component and side.origin == DEFAULT):
                yield _only(side, key in a, (*shown, key))

    def values(
        self,
        a: Any,
        b: Any,
        at: tuple[KeyPath, KeyPath],
        shown: KeyPath,
    ) -> Iterator[Difference]:
        """Yield the differences between two values."""
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            yield from self.tables(a, b, at, shown)
        elif is_array_of_tables(a) and is_array_of_tables(b) and (a or b):
            yield from self.arrays(a, b, at, shown)
        elif a != b:
            sides = self.side(self.a, a, at[0]), self.side(self.b, b, at[1])
            yield Difference(*_split(shown), *sides)

    def arrays(
        self,
        a: Sequence[Any],
        b: Sequence[Any],
        at: tuple[KeyPath, KeyPath],
        shown: KeyPath,
    ) -> Iterator[Difference]:
        """Yield the differences between two arrays of tables."""
        have_names = all(isinstance(item.get("name"), str) for item in (*a, *b))
        pairs = _pairs(a, b, have_names, shown)
        if have_names and list(pairs.values()) != sorted(pairs.values()):
            names_in_a = [item["name"] for item in a]
            names_in_b = [item["name"] for item in b]
            side_a = self.side(self.a, names_in_a, at[0])
            side_b = self.side(self.b, names_in_b, at[1])
            yield Difference(_joined(*_split(shown)), "order", side_a, side_b)

        for i, element in enumerate(a):
            path = (*shown, element.get("name", i))
            if i in pairs:
                j = pairs[i]
                paths = ((*at[0], i), (*at[1], j))
                yield from self.tables(element, b[j], paths, path)
            else:
                yield _only(self.side(self.a, element, (*at[0], i)), True, path)

        for i, element in enumerate(b):
            if i not in pairs.values():
                path = (*shown, element.get("name", i))
                yield _only(self.side(self.b, element, (*at[1], i)), False, path)

    def side(
        self,
        explanation: Explanation,
        value: Any,
        path: KeyPath,
    ) -> Side:
        """Return a value of a recipe with its origin. A table is reduced to the values that are not defaults."""
        has_single_encoder = MAIN_ENCODER in explanation.recipe.document.data
        if has_single_encoder and path[:2] == ("encoders", MAIN_ENCODER):
            # The recipe has the table `[encoder]`.
            path = path[1:]
        origin = explanation.origin(path)
        if isinstance(value, Mapping):
            origins: dict[KeyPath, str] = {}
            for at, _ in leaves(value, path):
                value_origin = explanation.origin(at)
                if value_origin != DEFAULT:
                    origins[at] = value_origin

            # The origin of a table is the origin of its first value that is not a default.
            origin = next(iter(origins.values()), DEFAULT)
            value = _without_defaults(value, path, origins.keys()) or value
        return Side(path, value, origin)


def _only(
    side: Side,
    first: bool,
    shown: KeyPath,
) -> Difference:
    """Return the difference for a value that only one recipe has: the first if `first`, else the second."""
    table, key = _split(shown)
    if first:
        return Difference(table, key, side, None)
    return Difference(table, key, None, side)


def _without_defaults(
    value: Any,
    at: KeyPath,
    set_paths: Collection[KeyPath],
) -> Any:
    """Return a table, whose path is `at`, with only the values whose paths are in `set_paths`."""
    if not isinstance(value, Mapping):
        return value
    without_defaults = {}
    for key, item in value.items():
        path = (*at, key)
        inner = [set_path for set_path in set_paths if set_path[: len(path)] == path]
        if inner:
            without_defaults[key] = _without_defaults(item, path, inner)
    return without_defaults


def _pairs(
    a: Sequence[Any],
    b: Sequence[Any],
    have_names: bool,
    shown: KeyPath,
) -> dict[int, int]:
    """Match the elements of two arrays of tables. Return the index in `b` of each matched index in `a`."""
    rules: list[Callable[[int, Any], Any]] = [lambda number, _: number]
    is_unordered = shown in (("evaluate",), ("tracker",))
    is_watch = shown[0] == "stage" and shown[2:] == ("watch",)
    if is_unordered or is_watch:
        rules = [lambda _, item: item, lambda _, item: item.get("use")]
    elif have_names:
        rules.insert(0, lambda _, item: item["name"])

    pairs: dict[int, int] = {}
    for key in rules:
        for i, j in itertools.product(range(len(a)), range(len(b))):
            if i in pairs or j in pairs.values():
                continue
            if key(i, a[i]) == key(j, b[j]):
                pairs[i] = j

    return dict(sorted(pairs.items()))


def _split(path: KeyPath) -> tuple[str, str]:
    """Split a path into the table under which it is shown, and the path below this table."""
    if path[:2] == ("encoders", MAIN_ENCODER):
        path = path[1:]
    depth = 1
    if path[0] in ("stage", "evaluate", "tracker", "encoders"):
        depth = 2
    return spelled(path[:depth]), spelled(path[depth:])


def _joined(table: str, key: str) -> str:
    """Join a table and a key to a path. Either may be empty."""
    return ".".join(filter(None, (table, key)))


def scores_may_differ(differences: Iterable[Difference]) -> bool:
    """Whether a score may depend on one of these differences."""
    return any(difference.decides for difference in differences)


def text(differences: Sequence[Difference], names: tuple[str, str]) -> Iterator[str]:
    """Yield the differences as lines."""
    if differences:
        yield f"--- {names[0]}"
        yield f"+++ {names[1]}"

    for table, group in itertools.groupby(
        differences, key=lambda difference: difference.table
    ):
        yield ""
        yield f"[{table}]"
        for difference in group:
            yield difference.key or "the whole table"
            yield f"  - {_side_text(difference.a)}"
            yield f"  + {_side_text(difference.b)}"

    if scores_may_differ(differences):
        return
    if differences:
        yield ""
    yield "no difference in what is computed"


def _side_text(side: Side | None) -> str:
    """Return a value and its origin as text."""
    if side is None:
        return "not set"
    return f"{_shown(side.value)}   # {side.origin}"


def _shown(value: Any) -> str:
    """Return a value as TOML. For a long table, return only the number of its values."""
    if not isinstance(value, Mapping):
        return written(value)
    items = [f"{spelled((key,))} = {_shown(item)}" for key, item in value.items()]
    inline = "{ " + ", ".join(items) + " }"
    if len(inline) <= _WIDTH:
        return inline
    return f"a table of {len(list(leaves(value)))} values"


def record(differences: Sequence[Difference], names: tuple[str, str]) -> dict[str, Any]:
    """Return the differences as values that JSON can represent."""
    records = []
    for difference in differences:
        records.append(
            {
                "path": difference.path,
                "a": _side_record(difference.a),
                "b": _side_record(difference.b),
                "decides": difference.decides,
            }
        )

    return {
        "a": names[0],
        "b": names[1],
        "same_scores": not scores_may_differ(differences),
        "differences": records,
    }


def _side_record(side: Side | None) -> dict[str, Any] | None:
    """Return a value and its origin as a table for JSON."""
    if side is None:
        return None
    return {"path": spelled(side.path), "value": side.value, "origin": side.origin}
