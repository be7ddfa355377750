"""What plugins offer by name: top-level tables of recipes, and places in modules (`Lazy`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import attrs

if TYPE_CHECKING:
    from sentbed.protocols.recipe_parts import InstalledPlugins, RecipeParts

CORE_TABLES = frozenset(
    {
        "checkpoint",
        "encoder",
        "encoders",
        "evaluate",
        "expected",
        "extends",
        "requires",
        "run",
        "runtime",
        "schema",
        "stage",
        "tracker",
    }
)
"""Top-level keys of a recipe that belong to core; no plugin offers a table of such a name."""


@attrs.frozen
class Lazy:
    """A component, command or recipe table that is imported when it is first used."""

    target: str
    """`package.module:name`."""
    summary: str
    """One line for `sentbed plugins` and `--help`; of a component, the first line of its docstring."""


@attrs.frozen
class TableTraits:
    """Traits of a plugin's recipe table."""

    decides: bool = True
    """Whether a run's scores depend on it: it must then be unchanged when a run is resumed."""
    resolved: bool = True
    """Whether a run's resolved recipe includes it."""
    variants: bool = False
    """Whether it turns a recipe into several; `RecipeTable.variants` and `variant` are then implemented."""
    no_run: str = ""
    """Sentence on why `sentbed run` does not run a recipe with it, and what does; empty if it runs."""


@attrs.frozen(eq=False)
class Variants:
    """Recipes that a recipe with such a table expands to."""

    noun: str
    """Plural noun for them, such as `cells`."""
    names: tuple[str, ...]
    """Names of those that can be run."""
    excluded: Mapping[str, str]
    """Name -> reason, for those that cannot work."""
    recipes: tuple[Any, ...] = ()
    """The recipes that can be run, structured; `sentbed check` asks their components for remarks."""
    remarks: tuple[str, ...] = ()
    """What to know of the table itself, one sentence each; `sentbed check` prints it."""


@attrs.frozen(eq=False)
class Variant:
    """One of the recipes that a recipe expands to."""

    document: Any
    """The recipe as a document; see `sentbed.tools.Document`."""
    setters: Mapping[tuple[str | int, ...], tuple[str, ...]]
    """Path of each value that it sets -> path below the table that sets it."""


class RecipeTable:
    """A top-level table of a recipe that belongs to a plugin; its fields are the table's keys.

    Subclasses are frozen attrs classes, offered through the hook `recipe_tables`.
    """

    traits: ClassVar[TableTraits] = TableTraits()

    def problems(
        self, recipe: RecipeParts, plugins: InstalledPlugins, look: bool
    ) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """Yield (path below the table, message) for each problem with the recipe.

        Without `look`, no file may be read.
        """
        return iter(())

    @classmethod
    def variants(cls, document: Any, plugins: Any, base: Path) -> Variants:
        """Structure and check every recipe that this one expands to. Raises `RecipeError`."""
        raise NotImplementedError(
            f"`{cls.__qualname__}` says that it has `variants`, and does not give them"
        )

    @classmethod
    def variant(cls, document: Any, plugins: Any, base: Path, name: str) -> Variant:
        """Return the variant called `name`. Raises `RecipeError` if there is none."""
        raise NotImplementedError(
            f"`{cls.__qualname__}` says that it has `variants`, and gives none by name"
        )
