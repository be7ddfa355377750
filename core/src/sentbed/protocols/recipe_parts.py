"""Protocols for the parts of a recipe, and of the installed plugins, that a plugin may read.

The classes that implement them, such as `Recipe` and `Plugins`, are in `sentbed.tools`. A plugin that needs more
than these protocols imports the classes from there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from sentbed.protocols.components import DataSource
from sentbed.protocols.evaluation import Evaluator

if TYPE_CHECKING:
    import pluggy

Table = TypeVar("Table")


class EvaluateParts(Protocol):
    """An entry of `[[evaluate]]`, or `validate` of a stage."""

    @property
    def evaluator(self) -> Evaluator:
        """The evaluator."""


class ExpectedParts(Protocol):
    """An entry of `[expected]`."""

    @property
    def value(self) -> float:
        """The number that the run should reproduce."""

    @property
    def tolerance(self) -> float | None:
        """Largest absolute difference with which the number counts as reproduced; None if it is only shown."""

    @property
    def source(self) -> str:
        """Publication that has the number."""


class StageParts(Protocol):
    """An entry of `[[stage]]`: one training phase."""

    @property
    def name(self) -> str:
        """Name of the stage."""

    @property
    def data(self) -> DataSource:
        """Source of the training data."""

    @property
    def validate(self) -> EvaluateParts | None:
        """Evaluation during the stage that may choose the best weights."""


class RecipeParts(Protocol):
    """What components and hooks see of a recipe, a `sentbed.tools.Recipe`."""

    @property
    def stage(self) -> Sequence[StageParts]:
        """The stages, in order."""

    @property
    def evaluate(self) -> Sequence[EvaluateParts]:
        """The evaluations, in order."""

    @property
    def expected(self) -> Mapping[str, ExpectedParts]:
        """Numbers that the run should reproduce, by their keys in `[expected]`."""

    def trained(self, stage: Any) -> tuple[str, ...]:
        """Return the names of the encoders that a stage of the recipe trains."""

    def table(self, cls: type[Table]) -> Table | None:
        """Return the recipe's table of this class (a `RecipeTable`), or None if the recipe does not have it."""


class InstalledPlugins(Protocol):
    """The installed plugins: a `sentbed.tools.Plugins`."""

    @property
    def manager(self) -> pluggy.PluginManager:
        """The plugin manager of pluggy; `manager.hook` calls the hooks of all plugins."""

    def names(self, kind: str) -> list[str]:
        """Return the sorted names of all components of a kind, such as `pooler`."""

    def load(self, kind: str, name: str) -> Any:
        """Return the class of the component of this kind and name.

        Raises:
            PluginError: if there is no such component, or it cannot be imported.
        """
