"""The kinds of component: for each its hook, base class, traits, and where a recipe has it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Protocol

import attrs

from sentbed import protocols
from sentbed.protocols import ComponentTraits


@attrs.frozen
class Kind:
    """One kind of component."""

    name: str
    hook: str
    """The hook that offers it; see `hookspecs`."""
    base: type[protocols.Component]
    """The class that its components inherit from; as the type of a field, it is a component of this kind."""
    example: str
    """Where it stands in a recipe or on the command line, with `{}` in the place of its table or name."""
    traits: type[ComponentTraits] = ComponentTraits

    @property
    def required(self) -> tuple[str, ...]:
        """The names of the methods and properties that a component must define."""
        return tuple(sorted(self.base.__abstractmethods__))

    @property
    def on_command_line(self) -> bool:
        """Whether its fields are options of a command, not keys of a recipe."""
        return self.example.startswith("sentbed ")

    def traits_of(self, cls: type[Any]) -> ComponentTraits | None:
        """Return what a component says whose fields have their defaults; None where some have none."""
        if isinstance(cls.traits, ComponentTraits):
            return cls.traits
        if cls.traits is self.base.traits:
            return self.traits()
        try:
            traits: ComponentTraits = cls().traits
        except (TypeError, ValueError):
            return None
        return traits


KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        kind.name: kind
        for kind in (
            Kind(
                "backbone",
                "backbones",
                protocols.Backbone,
                "[encoder]\nbackbone = {}",
                protocols.BackboneTraits,
            ),
            Kind("pooler", "poolers", protocols.Pooler, "[encoder]\npooler = {}", protocols.PoolerTraits),
            Kind("loss", "losses", protocols.Loss, "[[stage]]\nloss = {}", protocols.LossTraits),
            Kind("data", "data_sources", protocols.DataSource, "[[stage]]\ndata = {}", protocols.DataTraits),
            Kind(
                "evaluator",
                "evaluators",
                protocols.Evaluator,
                "[[evaluate]]\n{}",
                protocols.EvaluatorTraits,
            ),
            Kind("runtime", "runtimes", protocols.Runtime, "[runtime]\n{}", protocols.RuntimeTraits),
            Kind("optimizer", "optimizers", protocols.Optimizer, "[[stage]]\noptimizer = {}"),
            Kind("schedule", "schedules", protocols.Schedule, "[[stage]]\nschedule = {}"),
            Kind("tracker", "trackers", protocols.Tracker, "[[tracker]]\n{}"),
            Kind("exporter", "exporters", protocols.Exporter, "sentbed export ENCODER DIRECTORY --to {}"),
            Kind("importer", "importers", protocols.Importer, "sentbed import SOURCE DIRECTORY --from {}"),
            Kind("executor", "executors", protocols.Executor, "sentbed study RECIPE --executor {}"),
        )
    }
)
"""Name of a kind -> the kind, in the order in which users are shown them."""

KIND_OF: Mapping[Any, Kind] = MappingProxyType({kind.base: kind for kind in KINDS.values()})
"""Base class of a component, as the type of a field -> its kind."""


class Found(Protocol):
    """A component's class, as `Components` finds it."""

    @property
    def cls(self) -> type[Any]:
        """The class."""


class Components(Protocol):
    """The components that are installed; `sentbed.tools.Plugins` is one."""

    def names(self, kind: str) -> list[str]:
        """Return the sorted names of the components of a kind."""

    def find(self, kind: str, name: str) -> Found:
        """Return the component of this kind and name. Raises `PluginError`."""
