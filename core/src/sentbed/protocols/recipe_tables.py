"""Top-level tables of a recipe that belong to plugins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import attrs


@attrs.frozen
class TableTraits:
    """What core has to know of a plugin's table."""

    decides: bool = True
    """Whether a run's scores depend on it: a run that is resumed must then have the same one."""
    resolved: bool = True
    """Whether the resolved recipe of a run has it."""
    variants: bool = False
    """Whether a recipe with it stands for several: `RecipeTable.variants` and `variant` are there."""
    no_run: str = ""
    """Why `sentbed run` does not run a recipe that has it, and what does: a sentence. Empty where it does."""


@attrs.frozen(eq=False)
class Variants:
    """The recipes that one recipe with such a table stands for."""

    noun: str
    """What they are called: `cells`."""
    names: tuple[str, ...]
    """Of those that can be run."""
    excluded: Mapping[str, str]
    """Name -> why it cannot work."""


@attrs.frozen(eq=False)
class Variant:
    """One of the recipes that a recipe stands for."""

    document: Any
    """The recipe as a document; see `sentbed.tools.Document`."""
    setters: Mapping[tuple[str | int, ...], tuple[str, ...]]
    """Path of each value that it sets -> the path below the table that says so."""


class RecipeTable:
    """A top-level table of a recipe that belongs to a plugin; its fields are the table's keys.

    Subclasses are frozen attrs classes, and are offered by the hook `recipe_tables`.
    """

    traits: ClassVar[TableTraits] = TableTraits()

    def problems(self, recipe: Any, plugins: Any, look: bool) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """Yield path below the table and message of what does not fit the recipe (`sentbed.tools.Recipe`).

        Without `look`, no file is to be read.
        """
        return iter(())

    @classmethod
    def variants(cls, document: Any, plugins: Any, base: Path) -> Variants:
        """Structure and check every recipe that this one stands for. Raises `RecipeError`."""
        raise NotImplementedError(f"`{cls.__qualname__}` says that it has `variants`, and does not give them")

    @classmethod
    def variant(cls, document: Any, plugins: Any, base: Path, name: str) -> Variant:
        """Return one of the recipes that this one stands for. Raises `RecipeError` where there is none."""
        raise NotImplementedError(f"`{cls.__qualname__}` says that it has `variants`, and gives none by name")
