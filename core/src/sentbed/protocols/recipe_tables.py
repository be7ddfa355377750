"""Base class of the recipe tables that plugins offer."""

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
        "run",
        "runtime",
        "schema",
        "stage",
        "tracker",
    }
)
"""Top-level keys of a recipe that belong to core. A plugin cannot offer a table with such a key."""


@attrs.frozen
class TableTraits:
    """Traits of a plugin's recipe table."""

    decides: bool = True
    """Whether scores depend on the table. If so, a run cannot be resumed after the table has changed."""
    resolved: bool = True
    """Whether the resolved recipe of a run includes the table."""
    variants: bool = False
    """Whether the table makes several recipes of one, which `RecipeTable.variants` and `variant` return."""
    no_run: str = ""
    """Why `sentbed run` refuses a recipe with the table, and which command runs it; empty if it does not."""


@attrs.frozen(eq=False)
class Variants:
    """The recipes that a table makes of one recipe, such as the cells of a study."""

    noun: str
    """Plural noun for the recipes, such as `cells`."""
    names: tuple[str, ...]
    """Names of the recipes that can be run."""
    excluded: Mapping[str, str]
    """Why each other recipe cannot be run, by name."""
    recipes: tuple[Any, ...] = ()
    """The recipes that can be run, each a `sentbed.tools.Recipe`. `sentbed check` prints their remarks."""
    remarks: tuple[str, ...] = ()
    """Remarks on the table itself, one sentence each, which `sentbed check` prints."""


class RecipeTable:
    """A top-level table of a recipe that a plugin offers. Its fields are the keys of the table.

    Subclasses are frozen attrs classes. A plugin offers them through the hook `recipe_tables`.
    """

    traits: ClassVar[TableTraits] = TableTraits()

    def problems(
        self,
        recipe: RecipeParts,
        plugins: InstalledPlugins,
        check_files: bool,
    ) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """Yield the path of a key in the table, and a message, for each problem of the table.

        If `check_files` is false, the method must not read files.
        """
        return iter(())

    @classmethod
    def variants(
        cls,
        document: Any,
        plugins: Any,
        base: Path,
    ) -> Variants:
        """Return all recipes that the table makes of the recipe `document`, structured and checked.

        Relative paths are relative to the directory `base`.

        Raises:
            RecipeError: if the recipe or its table has problems.
        """
        raise NotImplementedError(
            f"`{cls.__qualname__}` says that it has `variants`, and does not give them"
        )

    @classmethod
    def variant(
        cls,
        document: Any,
        plugins: Any,
        base: Path,
        name: str,
    ) -> Any:
        """Return one of the recipes that the table makes of the recipe `document`, by name: a `Document`.

        Raises:
            RecipeError: if there is no such recipe.
        """
        raise NotImplementedError(
            f"`{cls.__qualname__}` says that it has `variants`, and gives none by name"
        )
