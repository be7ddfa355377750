"""The kinds of component: for each its hook, base class, traits, and where a recipe has it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Protocol, get_type_hints

import attrs

from sentbed import protocols
from sentbed.protocols import Component, ComponentTraits


@attrs.frozen
class Kind:
    """One kind of component."""

    name: str
    hook: str
    """The hook that offers it; see `hookspecs`."""
    base: type[Component]
    """The class that its components inherit from; as the type of a field, it is a component of this kind."""
    example: str
    """Where it stands in a recipe or on the command line, with `{}` in the place of its table or name."""

    @property
    def traits(self) -> type[ComponentTraits]:
        """The class of their traits, as the base class says."""
        said: property = vars(self.base).get("traits", Component.traits)
        found: type[ComponentTraits] = get_type_hints(said.fget)["return"]
        return found

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


_ALL = (
    Kind("backbone", "backbones", protocols.Backbone, "[encoder]\nbackbone = {}"),
    Kind("pooler", "poolers", protocols.Pooler, "[encoder]\npooler = {}"),
    Kind("loss", "losses", protocols.Loss, "[[stage]]\nloss = {}"),
    Kind("data", "data_sources", protocols.DataSource, "[[stage]]\ndata = {}"),
    Kind("evaluator", "evaluators", protocols.Evaluator, "[[evaluate]]\n{}"),
    Kind("runtime", "runtimes", protocols.Runtime, "[runtime]\n{}"),
    Kind("optimizer", "optimizers", protocols.Optimizer, "[[stage]]\noptimizer = {}"),
    Kind("schedule", "schedules", protocols.Schedule, "[[stage]]\nschedule = {}"),
    Kind("tracker", "trackers", protocols.Tracker, "[[tracker]]\n{}"),
    Kind("exporter", "exporters", protocols.Exporter, "sentbed export ENCODER DIRECTORY --to {}"),
    Kind("importer", "importers", protocols.Importer, "sentbed import SOURCE DIRECTORY --from {}"),
    Kind("executor", "executors", protocols.Executor, "sentbed study RECIPE --executor {}"),
)

KINDS: Mapping[str, Kind] = MappingProxyType({kind.name: kind for kind in _ALL})
"""Name of a kind -> the kind, in the order in which users are shown them."""

KIND_OF: Mapping[Any, Kind] = MappingProxyType({kind.base: kind for kind in _ALL})
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
