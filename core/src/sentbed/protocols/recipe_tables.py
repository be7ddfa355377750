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
"""Top-level keys of a recipe that belong to core; plugins cannot offer tables with these names."""


@attrs.frozen
class Lazy:
    """A component, command or recipe table that is imported when it is first used."""

    target: str
    """`package.module:name`."""
    summary: str
    """One line for `sentbed plugins` and `--help`; for a component, the first line of its docstring."""


@attrs.frozen
class TableTraits:
    """Traits of a plugin's recipe table."""

    decides: bool = True
    """Whether a run's scores depend on it, so that a run cannot be resumed after it has changed."""
    resolved: bool = True
    """Whether a run's resolved recipe includes it."""
    variants: bool = False
    """Whether it turns a recipe into several; `RecipeTable.variants` and `variant` are then implemented."""
    no_run: str = ""
    """Why `sentbed run` does not run a recipe with it, and which command does; empty if it does."""


@attrs.frozen(eq=False)
class Variants:
    """The recipes into which a table expands a recipe, such as the cells of a study."""

    noun: str
    """Plural noun for them, such as `cells`."""
    names: tuple[str, ...]
    """Names of those that can be run."""
    excluded: Mapping[str, str]
    """Name -> reason, for those that cannot be run."""
    recipes: tuple[Any, ...] = ()
    """The recipes that can be run (`sentbed.tools.Recipe`), whose components `sentbed check` asks for remarks."""
    remarks: tuple[str, ...] = ()
    """Remarks on the table itself, one sentence each, which `sentbed check` prints."""


@attrs.frozen(eq=False)
class Variant:
    """One of the recipes into which a recipe expands."""

    document: Any
    """The recipe as a document; see `sentbed.tools.Document`."""
    setters: Mapping[tuple[str | int, ...], tuple[str, ...]]
    """Path of each value that differs from the base recipe -> path in the table that sets it."""


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
        """Structure and check every recipe into which this one expands. Raises `RecipeError`."""
        raise NotImplementedError(
            f"`{cls.__qualname__}` says that it has `variants`, and does not give them"
        )

    @classmethod
    def variant(cls, document: Any, plugins: Any, base: Path, name: str) -> Variant:
        """Return the variant called `name`. Raises `RecipeError` if there is none."""
        raise NotImplementedError(
            f"`{cls.__qualname__}` says that it has `variants`, and gives none by name"
        )
