"""Finds plugins, asks them for their components, and says plainly what is wrong with them.

`pluggy.load_setuptools_entrypoints` skips a second distribution that reuses a name and accepts misspelt
hooks, so the entry points are walked here.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType
from typing import Any

import attrs
import pluggy

from sentbed import hookspecs
from sentbed.errors import PluginError, suggest

GROUP = "sentbed"

KINDS: Mapping[str, str] = MappingProxyType(
    {
        "backbone": "backbones",
        "pooler": "poolers",
        "loss": "losses",
        "data": "data_sources",
        "evaluator": "evaluators",
        "runtime": "runtimes",
        "optimizer": "optimizers",
        "schedule": "schedules",
        "tracker": "trackers",
        "exporter": "exporters",
        "importer": "importers",
    }
)
"""Kind of component -> the hook that offers it."""

METHODS: Mapping[str, str] = MappingProxyType(
    {"data": "open", "evaluator": "evaluate", "schedule": "factor", "exporter": "write", "importer": "read"}
)
"""The method that a component of a kind must have, where it is not `build`."""

OURS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "sentbed-backbones": frozenset({"backbone/bert", "backbone/t5", "backbone/opt", "backbone/causal"}),
        "sentbed-poolers": frozenset(
            {
                "pooler/first",
                "pooler/cls-mlp",
                "pooler/mean",
                "pooler/mean-first-last",
                "pooler/last",
                "pooler/decoder",
                "pooler/mask",
                "pooler/prompt",
                "pooler/prompt-eol",
            }
        ),
        "sentbed-losses": frozenset(
            {"loss/info-nce", "loss/queue", "loss/momentum", "loss/classification", "loss/nli-softmax"}
        ),
        "sentbed-data": frozenset(
            {
                "data/pairs",
                "data/triplets",
                "data/dropout",
                "data/sample",
                "data/nsp",
                "data/synonyms",
                "data/crop",
                "data/delete",
                "data/parallel",
                "data/nli",
                "data/qa",
                "data/mix",
            }
        ),
        "sentbed-interop": frozenset(
            {
                "exporter/sentence-transformers",
                "exporter/hub",
                "exporter/onnx",
                "importer/sentence-transformers",
                "importer/simcse",
                "importer/peft",
            }
        ),
        "sentbed-trackers": frozenset({"tracker/tensorboard", "tracker/mlflow"}),
        "sentbed-evaluators": frozenset(
            {
                "evaluator/senteval-sts",
                "evaluator/senteval-transfer",
                "evaluator/senteval-probing",
                "evaluator/sentglue",
                "evaluator/sentbench",
                "evaluator/sts",
                "evaluator/geometry",
                "evaluator/retrieval",
                "evaluator/bitext",
                "evaluator/mteb",
                "evaluator/throughput",
            }
        ),
        "sentbed-hardware": frozenset(
            {
                "runtime/cpu",
                "runtime/cuda",
                "runtime/tpu",
                "optimizer/adamw",
                "optimizer/adafactor",
                "schedule/constant",
                "schedule/linear",
                "schedule/linear-after-hold",
                "schedule/cosine",
            }
        ),
    }
)
"""What the distributions of this project offer, to name the one to install; a test keeps it true."""


@attrs.frozen
class ComponentInfo:
    """A component class and where it came from."""

    kind: str
    name: str
    cls: type[Any]
    distribution: str
    version: str

    @property
    def summary(self) -> str:
        """The first line of the class's docstring."""
        return (inspect.getdoc(self.cls) or "").partition("\n")[0]


@attrs.frozen
class PluginInfo:
    """A plugin as installed; `problem` says why it could not be loaded."""

    name: str
    distribution: str
    version: str
    problem: str | None = None


@attrs.frozen
class Plugins:
    """The plugins that are installed, and everything that they offer."""

    manager: pluggy.PluginManager
    plugins: tuple[PluginInfo, ...]
    components: Mapping[tuple[str, str], ComponentInfo]

    def names(self, kind: str) -> list[str]:
        """Return the sorted names of the components of a kind."""
        return sorted(name for of_kind, name in self.components if of_kind == kind)

    def find(self, kind: str, name: str) -> ComponentInfo:
        """Return the component of this kind and name.

        Raises:
            PluginError: where there is none; names the distribution to install or the closest name.
        """
        found = self.components.get((kind, name))
        if found is not None:
            return found
        owner = next((owner for owner, parts in OURS.items() if f"{kind}/{name}" in parts), None)
        if owner is not None:
            broken = next((p for p in self.plugins if p.distribution == owner and p.problem), None)
            if broken is not None:
                raise PluginError(
                    f"the {kind} `{name}` belongs to `{owner}`, which could not be loaded: {broken.problem}"
                )
            raise PluginError(
                f"the {kind} `{name}` belongs to `{owner}`, which is not installed; "
                f"install it with `pip install {owner}`"
            )
        broken_names = ", ".join(f"`{p.distribution}`" for p in self.plugins if p.problem)
        hint = f" (not loaded, see `sentbed plugins`: {broken_names})" if broken_names else ""
        names = self.names(kind)
        if not names:
            raise PluginError(f"there is no {kind} `{name}`: no installed plugin offers any {kind}{hint}")
        raise PluginError(f"there is no {kind} `{name}`.{suggest(name, names)}{hint}")


def load_plugins(points: Iterable[EntryPoint] | None = None) -> Plugins:
    """Load every plugin of the entry-point group `sentbed` into a new plugin manager.

    A plugin that cannot be loaded is kept in the list with its reason and stops only the recipes that use it.

    Raises:
        PluginError: where two distributions claim one component name, naming both.
    """
    manager = pluggy.PluginManager("sentbed")
    manager.add_hookspecs(hookspecs)
    infos: list[PluginInfo] = []
    components: dict[tuple[str, str], ComponentInfo] = {}
    found = entry_points(group=GROUP) if points is None else points
    for point in sorted(found, key=lambda p: (_origin(p), p.name)):
        distribution, version = _origin(point)
        key = f"{distribution}:{point.name}"
        try:
            plugin = point.load()
            if inspect.isclass(plugin):
                plugin = plugin()
            manager.register(plugin, name=key)
            offered = _components(manager, plugin, distribution, version)
        except Exception as error:  # noqa: BLE001 - a plugin's fault is reported, and must not stop the others
            if manager.has_plugin(key):
                manager.unregister(name=key)
            infos.append(PluginInfo(point.name, distribution, version, f"{type(error).__name__}: {error}"))
            continue
        for component in offered:
            other = components.setdefault((component.kind, component.name), component)
            if other is not component:
                raise PluginError(
                    f"the {component.kind} `{component.name}` is offered by `{other.distribution}` and by "
                    f"`{distribution}`; uninstall one of them"
                )
        infos.append(PluginInfo(point.name, distribution, version))
    return Plugins(manager, tuple(infos), components)


def _origin(point: EntryPoint) -> tuple[str, str]:
    return (point.dist.name, point.dist.version) if point.dist else ("unknown", "0")


def _components(
    manager: pluggy.PluginManager, plugin: object, distribution: str, version: str
) -> list[ComponentInfo]:
    for caller in manager.get_hookcallers(plugin) or ():
        # pluggy takes a misspelt hook in silence until `check_pending`, which would name only the first.
        if not caller.has_spec():
            hooks = [name for name, value in vars(hookspecs).items() if hasattr(value, "sentbed_spec")]
            raise PluginError(f"there is no hook `{caller.name}`.{suggest(caller.name, hooks)}")
    result = []
    for kind, hook in KINDS.items():
        implementation = getattr(plugin, hook, None)
        if implementation is None or manager.parse_hookimpl_opts(plugin, hook) is None:
            continue
        for cls in implementation():
            _conforms(kind, cls)
            result.append(ComponentInfo(kind, cls.name, cls, distribution, version))
    return result


ATTRIBUTES: Mapping[str, str] = MappingProxyType({"loss": "needs", "data": "columns", "optimizer": "lr"})
"""What else the class of a component of a kind must say; see `protocols`."""


def _conforms(kind: str, cls: Any) -> None:
    method = METHODS.get(kind, "build")
    label = getattr(cls, "__qualname__", repr(cls))
    if not (inspect.isclass(cls) and attrs.has(cls) and isinstance(getattr(cls, "name", None), str)):
        raise PluginError(f"the {kind} `{label}` must be an attrs class with `name: ClassVar[str]`")
    if cls.__setattr__ is object.__setattr__:
        raise PluginError(f"the {kind} `{label}` must be frozen: decorate it with `@attrs.frozen`")
    if not callable(getattr(cls, method, None)):
        raise PluginError(f"the {kind} `{label}` has no method `{method}`")
    attribute = ATTRIBUTES.get(kind)
    if attribute and not (hasattr(cls, attribute) or attribute in attrs.fields_dict(cls)):
        raise PluginError(f"the {kind} `{label}` has no `{attribute}`")
    if not inspect.getdoc(cls):
        raise PluginError(f"the {kind} `{label}` has no docstring; its first line is what users are shown")
