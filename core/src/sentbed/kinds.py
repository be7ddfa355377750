"""The kinds of component: for each its hook, base class, traits, and where a recipe has it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, get_type_hints

import attrs

from sentbed import protocols

if TYPE_CHECKING:
    from sentbed.protocols import Component, ComponentTraits


@attrs.frozen
class Kind:
    """One kind of component."""

    name: str
    hook: str
    """The hook that offers it; see `hookspecs`."""
    base_name: str
    """The class in `sentbed.protocols` that its components inherit from."""
    example: str
    """Where it stands in a recipe or on the command line, with `{}` in the place of its table or name."""

    @property
    def base(self) -> type[Component]:
        """The class that its components inherit from, and the type of a field that holds one."""
        found: type[Component] = getattr(protocols, self.base_name)
        return found

    @property
    def traits(self) -> type[ComponentTraits]:
        """The class of their traits, as the base class says."""
        said: property = vars(self.base).get("traits", protocols.Component.traits)
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
        if isinstance(cls.traits, protocols.ComponentTraits):
            return cls.traits
        if cls.traits is self.base.traits:
            return self.traits()
        try:
            traits: ComponentTraits = cls().traits
        except (TypeError, ValueError):
            return None
        return traits


_ALL = (
    Kind("backbone", "backbones", "Backbone", "[encoder]\nbackbone = {}"),
    Kind("pooler", "poolers", "Pooler", "[encoder]\npooler = {}"),
    Kind("loss", "losses", "Loss", "[[stage]]\nloss = {}"),
    Kind("data", "data_sources", "DataSource", "[[stage]]\ndata = {}"),
    Kind("evaluator", "evaluators", "Evaluator", "[[evaluate]]\n{}"),
    Kind("runtime", "runtimes", "Runtime", "[runtime]\n{}"),
    Kind("optimizer", "optimizers", "Optimizer", "[[stage]]\noptimizer = {}"),
    Kind("schedule", "schedules", "Schedule", "[[stage]]\nschedule = {}"),
    Kind("tracker", "trackers", "Tracker", "[[tracker]]\n{}"),
    Kind("exporter", "exporters", "Exporter", "sentbed export ENCODER DIRECTORY --to {}"),
    Kind("importer", "importers", "Importer", "sentbed import SOURCE DIRECTORY --from {}"),
    Kind("executor", "executors", "Executor", "sentbed study RECIPE --executor {}"),
)

KINDS: Mapping[str, Kind] = MappingProxyType({kind.name: kind for kind in _ALL})
"""Name of a kind -> the kind, in the order in which users are shown them."""


@lru_cache(maxsize=1024)
def kind_of(base: Any) -> Kind | None:
    """Return the kind whose components inherit from a class, which is the type of a field."""
    name = getattr(base, "__name__", "")
    return next((kind for kind in _ALL if kind.base_name == name and kind.base is base), None)


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
