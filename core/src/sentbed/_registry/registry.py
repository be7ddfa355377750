"""The plugin registry: loads plugins, and finds what they offer.

We iterate over the entry points ourselves: `pluggy.load_setuptools_entrypoints` ends at the first plugin that
cannot be loaded.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Literal, TypeAlias

import attrs
import pluggy

from sentbed import hookspecs
from sentbed._registry.distribution_catalog import owner_of
from sentbed._registry.offers import (
    COMMAND,
    CORE_COMMANDS,
    TABLE,
    Offer,
    failure,
    name_fault,
)
from sentbed.errors import PluginError, suggest
from sentbed.kinds import KINDS

GROUP = "sentbed"

DISABLE_VARIABLE = "SENTBED_PLUGINS_DISABLE"
"""Environment variable with the names of distributions, separated by commas, whose plugins are not loaded."""

OFFER_HOOKS: Mapping[str, str] = {
    **{kind.hook: kind.name for kind in KINDS.values()},
    "commands": COMMAND,
    "recipe_tables": TABLE,
}
"""Kind of what each hook offers: `{"poolers": "pooler", ...}`."""

HOOKS: tuple[str, ...] = tuple(
    name for name, value in vars(hookspecs).items() if hasattr(value, "sentbed_spec")
)
"""All hooks, in the order of `hookspecs`."""

LIFECYCLE_HOOKS = HOOKS[HOOKS.index("run_started") :]
"""Hooks that the runner calls during a run."""

Status: TypeAlias = Literal["loaded", "disabled", "broken"]
"""Status of a plugin: `disabled` by the user, or `broken` if it cannot be imported or what it offers is wrong."""


@attrs.frozen
class Plugin:
    """An installed plugin."""

    name: str
    """Name of the entry point."""
    distribution: str
    version: str
    module: str
    """Module that the entry point names."""

    status: Status = "loaded"
    reason: str | None = None
    """Why the plugin is not loaded; None if it is."""

    offers: tuple[Offer, ...] = ()
    hooks: tuple[str, ...] = ()
    """Hooks that it implements."""

    @property
    def key(self) -> str:
        """Name of the plugin in the plugin manager: DISTRIBUTION:NAME."""
        return f"{self.distribution}:{self.name}"


@attrs.frozen(eq=False)
class Plugins:
    """The installed plugins and everything they offer."""

    manager: pluggy.PluginManager
    plugins: tuple[Plugin, ...]
    """All installed plugins, including those that are not loaded."""
    offers: Mapping[tuple[str, str], list[Offer]]
    """All offers of each kind and name; several if several plugins claim the name."""

    def names(self, kind: str) -> list[str]:
        """Return the sorted names of the offers of a kind, except those that several plugins claim."""
        names = []
        for (kind_of_offer, name), offers in self.offers.items():
            if kind_of_offer == kind and len(offers) == 1:
                names.append(name)
        return sorted(names)

    def find(self, kind: str, name: str) -> Offer:
        """Return the offer of this kind and name.

        If several plugins claim the name, the distribution of one of them stands before it: `sentbed-mine:mean`.

        Raises:
            PluginError: if there is no such offer, or there are several.
        """
        distribution, _, plain_name = name.rpartition(":")
        offers = self.offers.get((kind, plain_name), [])
        if distribution:
            offers = [offer for offer in offers if offer.distribution == distribution]
        if not offers:
            raise PluginError(self._absence(kind, name))
        if len(offers) > 1:
            releases = " and by ".join(f"`{offer.release}`" for offer in offers)
            raise PluginError(
                f"the {kind} `{name}` is offered by {releases}; "
                f"write `{offers[0].distribution}:{name}`, or uninstall all but one"
            )
        return offers[0]

    def load(self, kind: str, name: str) -> Any:
        """Return the class or command of this kind and name. It is imported at the first call.

        Raises:
            PluginError: if there is no such offer, there are several, or it cannot be imported.
        """
        return self.find(kind, name).load()

    def origin(self, cls: type[Any]) -> Offer | None:
        """Return the offer of the class of a component or a recipe table, or None if no plugin offers it."""
        name = getattr(cls, "name", None)
        for (kind, name_of_offer), offers in self.offers.items():
            # The class of a table does not have its key.
            is_table = name is None and kind == TABLE
            if name_of_offer != name and not is_table:
                continue
            for offer in offers:
                with suppress(PluginError):
                    if offer.load() is cls:
                        return offer
        return None

    def _absence(self, kind: str, name: str) -> str:
        """Return why there is no offer of this kind and name, and what to do."""
        owner = owner_of(kind, name.rpartition(":")[2])
        if owner is not None and all(
            plugin.distribution != owner for plugin in self.plugins
        ):
            return f"the {kind} `{name}` belongs to `{owner}`, which is not installed: `pip install {owner}`"

        message = f"there is no {kind} `{name}`."
        choices = self.names(kind)
        if kind == COMMAND:
            choices += CORE_COMMANDS
        names_elsewhere = {}
        if kind in KINDS:
            for choice in choices:
                with suppress(PluginError):
                    for other_name in self.load(kind, choice).other_names:
                        names_elsewhere[other_name.lower()] = choice
        message += suggest(name, choices, names_elsewhere)

        # A plugin that is not loaded may offer it.
        for plugin in self.plugins:
            if plugin.status != "loaded":
                message += (
                    f" The plugin `{plugin.key}` is {plugin.status}: {plugin.reason}."
                )
        return message


def load_plugins(points: Iterable[EntryPoint] | None = None) -> Plugins:
    """Load every plugin into a new plugin manager, and collect what the plugins offer.

    A plugin that cannot be loaded is listed with the reason. Only recipes that use it are refused.

    Args:
        points: Entry points of the plugins; by default those of the group `sentbed`.
    """
    if points is None:
        points = entry_points(group=GROUP)
    manager = pluggy.PluginManager("sentbed")
    manager.add_hookspecs(hookspecs)

    plugins = [_load(manager, point) for point in sorted(points, key=_key)]
    offers: dict[tuple[str, str], list[Offer]] = {}
    for plugin in plugins:
        for offer in plugin.offers:
            offers.setdefault((offer.kind, offer.name), []).append(offer)
    return Plugins(manager, tuple(plugins), offers)


def _load(manager: pluggy.PluginManager, point: EntryPoint) -> Plugin:
    """Import and register a plugin. One that is disabled or broken is not registered, and offers nothing."""
    distribution, name = _key(point)
    version = point.dist.version if point.dist else "0"
    plugin = Plugin(name, distribution, version, point.module)

    disabled = os.environ.get(DISABLE_VARIABLE, "").split(",")
    if distribution in map(str.strip, disabled):
        reason = f"take it out of the environment variable `{DISABLE_VARIABLE}`"
        return attrs.evolve(plugin, status="disabled", reason=reason)

    value = None
    try:
        value = point.load()
        if inspect.isclass(value):
            value = value()
        manager.register(value, plugin.key)
        callers = manager.get_hookcallers(value) or []
        offers = tuple(_offers(callers, value, plugin))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a plugin's fault must not stop the others
        # pluggy records a plugin even if it refuses one of its hooks.
        if value is not None and manager.get_plugin(plugin.key) is value:
            manager.unregister(value)
        return attrs.evolve(plugin, status="broken", reason=failure(error))
    hooks = tuple(caller.name for caller in callers)
    return attrs.evolve(plugin, offers=offers, hooks=hooks)


def _key(point: EntryPoint) -> tuple[str, str]:
    """Return the name of the distribution of an entry point, and the name of the entry point."""
    distribution = point.dist.name if point.dist else "unknown"
    return distribution, point.name


def _offers(
    callers: Iterable[pluggy.HookCaller],
    value: object,
    plugin: Plugin,
) -> Iterator[Offer]:
    """Yield what a plugin offers. Raises `PluginError` if one of its hooks, or an offer, is wrong."""
    for caller in callers:
        if not caller.has_spec():
            raise PluginError(
                f"there is no hook `{caller.name}`.{suggest(caller.name, HOOKS)}"
            )
        kind = OFFER_HOOKS.get(caller.name)
        if kind is None:
            continue
        for implementation in caller.get_hookimpls():
            if implementation.plugin is not value:
                continue
            for name, target in _targets(implementation.function(), caller.name):
                offer = Offer(kind, name, target, plugin.distribution, plugin.version)
                if fault := name_fault(kind, name):
                    raise PluginError(fault)
                if not isinstance(target, str):
                    offer.load()
                yield offer


def _targets(result: Any, hook: str) -> Iterable[tuple[str, Any]]:
    """Return name and target of each offer in the result of a hook."""
    if isinstance(result, Mapping):
        return result.items()
    if isinstance(result, list | tuple):
        return [(str(getattr(cls, "name", cls)), cls) for cls in result]
    raise PluginError(
        f"its hook `{hook}` returned {result!r:.200}, expected a list of classes, or a mapping such as "
        '`{"mean": "my_plugin.mean:Mean"}`'
    )
