"""Protocols for the parts of a recipe, and of the installed plugins, that a plugin may read.

The classes that implement them, such as `Recipe` and `Plugins`, are in `sentbed.tools`. A plugin that needs more
than these protocols imports the classes from there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from sentbed.protocols.components import DataSource, Loss, Optimizer, Schedule
from sentbed.protocols.engine import EncoderParts, Runtime
from sentbed.protocols.evaluation import Evaluator

if TYPE_CHECKING:
    import pluggy

Table = TypeVar("Table")


class RunParts(Protocol):
    """The table `[run]`."""

    @property
    def name(self) -> str:
        """Name of the run and of its directory."""

    @property
    def seed(self) -> int:
        """Seed of initialisation, dropout and shuffling."""


class EvaluatorUse(Protocol):
    """An evaluator and the encoder that it scores, such as `validate` or `watch` of a stage."""

    @property
    def evaluator(self) -> Evaluator:
        """The evaluator."""

    @property
    def encoder(self) -> str | None:
        """Name of the encoder; None if the recipe has only one."""

    @property
    def second(self) -> str | None:
        """Name of the encoder that encodes the second sentences of pairs; None for the same encoder."""


class EvaluateParts(EvaluatorUse, Protocol):
    """An entry of `[[evaluate]]`."""

    @property
    def at(self) -> Sequence[str]:
        """When to evaluate: `start` (before the first stage), `end` (after the last stage), or both."""


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
    def loss(self) -> Loss:
        """The loss."""

    @property
    def optimizer(self) -> Optimizer:
        """The optimiser."""

    @property
    def schedule(self) -> Schedule:
        """The schedule of the learning rate."""

    @property
    def batch_size(self) -> int:
        """Number of rows per optimiser step."""

    @property
    def epochs(self) -> int | None:
        """Number of passes over the data; None if `steps` is set."""

    @property
    def steps(self) -> int | None:
        """Number of optimiser steps; None if `epochs` is set."""

    @property
    def texts(self) -> tuple[str, ...]:
        """Columns of texts that the loss uses, in the order of the data's columns."""

    @property
    def validate(self) -> EvaluatorUse | None:
        """Evaluation on development data during the stage, which may choose the best weights."""

    @property
    def watch(self) -> Sequence[EvaluatorUse]:
        """Evaluations during the stage whose results are only shown."""


class RecipeParts(Protocol):
    """A recipe: a `sentbed.tools.Recipe`."""

    @property
    def run(self) -> RunParts:
        """The name of the run and its seed."""

    @property
    def runtime(self) -> Runtime:
        """The runtime."""

    @property
    def encoders(self) -> Mapping[str, EncoderParts]:
        """The encoders, by name."""

    @property
    def main_encoder(self) -> str:
        """Name of the encoder if there is only one, otherwise `encoder`."""

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
