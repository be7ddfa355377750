"""The kinds of components, such as pooler or loss: hook, base class, and place in a recipe."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import attrs

from sentbed import protocols

if TYPE_CHECKING:
    from sentbed.protocols import Component


@attrs.frozen
class Kind:
    """A kind of component."""

    name: str
    hook: str
    """Hook through which plugins offer components of this kind; see `hookspecs`."""
    base_name: str
    """Name of the components' base class in `sentbed.protocols`."""
    example: str
    """Where a component stands in a recipe or on the command line; `{}` stands for its table or its name."""
    by_name: bool = False
    """Whether a recipe may give a component by its name alone, instead of a table with `use`."""
    default: str | None = None
    """Name of the component that a table without `use` describes; None if each table must have one."""

    @property
    def base(self) -> type[Component]:
        """Base class of the components; also the type of a field that has a component of this kind."""
        base: type[Component] = getattr(protocols, self.base_name)
        return base

    @property
    def on_command_line(self) -> bool:
        """Whether the components' fields are options of a command, not keys of a recipe."""
        return self.example.startswith("sentbed ")


_ALL = (
    Kind("backbone", "backbones", "Backbone", "[encoder]\nbackbone = {}"),
    Kind(
        "intervention",
        "interventions",
        "Intervention",
        "[encoder.backbone]\nintervention = {}",
    ),
    Kind("pooler", "poolers", "Pooler", "[encoder]\npooler = {}"),
    Kind(
        "prompt",
        "prompts",
        "Prompt",
        "[encoder]\nprompt = {}",
        default="template",
    ),
    Kind(
        "transform", "transforms", "Transform", "[encoder]\nhead = {{ transform = {} }}"
    ),
    Kind(
        "similarity",
        "similarities",
        "Similarity",
        "[encoder]\nsimilarity = {}",
        by_name=True,
    ),
    Kind("loss", "losses", "Loss", "[[stage]]\nloss = {}"),
    Kind("data", "data_sources", "DataSource", "[[stage]]\ndata = {}"),
    Kind("evaluator", "evaluators", "Evaluator", "[[evaluate]]\n{}"),
    Kind("runtime", "runtimes", "Runtime", "[runtime]\n{}"),
    Kind("optimizer", "optimizers", "Optimizer", "[[stage]]\noptimizer = {}"),
    Kind("schedule", "schedules", "Schedule", "[[stage]]\nschedule = {}"),
    Kind("tracker", "trackers", "Tracker", "[[tracker]]\n{}"),
    Kind(
        "exporter", "exporters", "Exporter", "sentbed export ENCODER DIRECTORY --to {}"
    ),
    Kind(
        "importer", "importers", "Importer", "sentbed import SOURCE DIRECTORY --from {}"
    ),
    Kind("executor", "executors", "Executor", "sentbed study RECIPE --executor {}"),
)

KINDS: Mapping[str, Kind] = MappingProxyType({kind.name: kind for kind in _ALL})
"""All kinds by name, in the order in which they are shown to users."""


@lru_cache(maxsize=1024)
def kind_of(base: Any) -> Kind | None:
    """Return the kind whose components have this base class, or None. Any type of a field may be given."""
    name = getattr(base, "__name__", "")
    for kind in _ALL:
        if kind.base_name == name and kind.base is base:
            return kind
    return None
