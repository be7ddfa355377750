"""What a plugin may read of a recipe and of the installed plugins.

The classes themselves, `Recipe` and `Plugins`, are in `sentbed.tools`. A plugin that needs more than these
protocols is a tool, and takes them from there.
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
    """`[run]`."""

    @property
    def name(self) -> str:
        """Name of the run and of its directory."""

    @property
    def seed(self) -> int:
        """Seed of initialisation, dropout and shuffling."""


class EvaluatorUse(Protocol):
    """`validate` or `watch` of a stage: an evaluator and the encoder that it scores."""

    @property
    def evaluator(self) -> Evaluator:
        """The evaluator."""

    @property
    def encoder(self) -> str | None:
        """Name of the encoder; None for the only one."""

    @property
    def second(self) -> str | None:
        """Name of the encoder of second sentences; None for the same one."""


class EvaluateParts(EvaluatorUse, Protocol):
    """`[[evaluate]]`."""

    @property
    def at(self) -> Sequence[str]:
        """`start`, `end` or both: before the first stage, after the last one."""


class ExpectedParts(Protocol):
    """An entry of `[expected]`."""

    @property
    def value(self) -> float:
        """The number that the run should reproduce."""

    @property
    def tolerance(self) -> float | None:
        """Largest absolute difference that counts as reproduced; None if the number is only shown."""

    @property
    def source(self) -> str:
        """Publication of the number."""


class StageParts(Protocol):
    """`[[stage]]`: one training phase."""

    @property
    def name(self) -> str:
        """Name of the stage."""

    @property
    def data(self) -> DataSource:
        """Source of its training texts."""

    @property
    def loss(self) -> Loss:
        """Its loss."""

    @property
    def optimizer(self) -> Optimizer:
        """Its optimiser."""

    @property
    def schedule(self) -> Schedule:
        """Its learning rate schedule."""

    @property
    def batch_size(self) -> int:
        """Rows per optimiser step."""

    @property
    def epochs(self) -> int | None:
        """Passes over the data; None if `steps` is set."""

    @property
    def steps(self) -> int | None:
        """Optimiser steps; None if `epochs` is set."""

    @property
    def texts(self) -> tuple[str, ...]:
        """Columns of texts that the loss uses, in the order of the data."""

    @property
    def validate(self) -> EvaluatorUse | None:
        """Evaluation on development data that may choose weights."""

    @property
    def watch(self) -> Sequence[EvaluatorUse]:
        """Evaluations that are only shown."""


class RecipeParts(Protocol):
    """A recipe; a `sentbed.tools.Recipe`."""

    @property
    def run(self) -> RunParts:
        """`[run]`."""

    @property
    def runtime(self) -> Runtime:
        """`[runtime]`."""

    @property
    def encoders(self) -> Mapping[str, EncoderParts]:
        """Name -> encoder."""

    @property
    def main_encoder(self) -> str:
        """Name of the only encoder, or `encoder` if there are several."""

    @property
    def stage(self) -> Sequence[StageParts]:
        """The stages, in order."""

    @property
    def evaluate(self) -> Sequence[EvaluateParts]:
        """The evaluations, in order."""

    @property
    def expected(self) -> Mapping[str, ExpectedParts]:
        """Key -> number that the run should reproduce."""

    def trained(self, stage: Any) -> tuple[str, ...]:
        """Return the names of the encoders that one of the stages trains."""

    def table(self, cls: type[Table]) -> Table | None:
        """Return the plugin table of class `cls`, or None if the recipe has none."""


class InstalledPlugins(Protocol):
    """The installed plugins; a `sentbed.tools.Plugins`."""

    @property
    def manager(self) -> pluggy.PluginManager:
        """The plugin manager, with a plugin's hooks as `manager.hook`."""

    def names(self, kind: str) -> list[str]:
        """Return the sorted names of a kind's components, such as those of `pooler`."""

    def find(self, kind: str, name: str) -> Any:
        """Return the component of this kind and name, whose class is `cls`. Raises `PluginError`."""
