"""The plugin registry: loads plugins, collects the components they offer, and reports their faults.

We iterate over the entry points ourselves: `pluggy.load_setuptools_entrypoints` skips a plugin whose name another
distribution has used before, and accepts misspelt hooks.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

import attrs
import pluggy

from sentbed import hookspecs
from sentbed._registry.distribution_catalog import owner_of
from sentbed._registry.plugin_info import ComponentInfo, Offer, PluginInfo
from sentbed._registry.plugin_offer_rules import COMMAND, TABLE, offer_fault
from sentbed._registry.plugin_source_code import (
    defined_at,
    place_of,
)
from sentbed.errors import PluginError, reason_of, shortened, suggest
from sentbed.kinds import KINDS

GROUP = "sentbed"

DISABLE_VARIABLE = "SENTBED_PLUGINS_DISABLE"
"""Environment variable with the names of distributions, separated by commas, whose plugins are not loaded."""

COMPONENT_HOOKS = {kind.hook: kind.name for kind in KINDS.values()}
"""Kind of the components that each hook for components offers: `{"poolers": "pooler", ...}`."""

COMMAND_AND_TABLE_HOOKS = {"commands": COMMAND, "recipe_tables": TABLE}
"""For the hooks that offer commands and recipe tables: what messages call a single offer of the hook."""

OTHER_OFFER_HOOKS = (*COMMAND_AND_TABLE_HOOKS, "known_data", "vector_store")
"""All hooks through which plugins offer something other than components."""

LIFECYCLE_HOOKS: tuple[str, ...] = tuple(
    name
    for name, value in vars(hookspecs).items()
    if hasattr(value, "sentbed_spec")
    and name not in {*COMPONENT_HOOKS, *OTHER_OFFER_HOOKS}
)
"""Hooks that the runner calls during a run, in the order of `hookspecs`."""

ABSENCE: Mapping[str, str] = {
    "broken": "could not be loaded: ",
    "disabled": "is ",
}
"""For each status of a plugin that is not loaded: the words of a message before the reason for the status."""


class _PluginManager(pluggy.PluginManager):
    """A plugin manager that examines only names that can be implementations of hooks.

    pluggy examines all names of a plugin, which took most of the time of loading plugins.
    """

    def parse_hookimpl_opts(self, plugin: object, name: str) -> Any:
        """Return the options of a hook implementation; None if the name is not one."""
        if name.startswith("__"):
            return None
        if inspect.ismodule(plugin):
            value = vars(plugin).get(name)
            # Other objects may import a library, or fail, when an attribute of theirs is asked for.
            if not (inspect.isroutine(value) and hasattr(value, "sentbed_impl")):
                return None
        return super().parse_hookimpl_opts(plugin, name)


@attrs.frozen(eq=False)
class Plugins:
    """The installed plugins and everything they offer.

    If several plugins claim the name of a component, command or table, `components`, `commands` and `tables` have
    none of them.
    """

    manager: pluggy.PluginManager
    plugins: tuple[PluginInfo, ...]
    """All installed plugins, including those that are not loaded."""

    components: Mapping[tuple[str, str], ComponentInfo]
    """Components by kind and name."""
    clashes: Mapping[tuple[str, str], Sequence[Offer]] = attrs.field(factory=dict)
    """Offers of each name that several plugins claim.

    The key is the kind (of the component, `command` or `recipe table`) and the name.
    """

    commands: Mapping[str, Offer] = attrs.field(factory=dict)
    """Subcommands of `sentbed` by name; each is a `click.Command`."""
    tables: Mapping[str, Offer] = attrs.field(factory=dict)
    """Top-level tables of a recipe by key; each is a subclass of `RecipeTable`."""

    def names(self, kind: str) -> list[str]:
        """Return the sorted names of the components of a kind."""
        return sorted(name for of_kind, name in self.components if of_kind == kind)

    def importable(self, kind: str) -> list[ComponentInfo]:
        """Return the components of a kind, except those whose import fails."""
        components = []
        for name in self.names(kind):
            with suppress(PluginError):
                components.append(self.find(kind, name))
        return components

    def origin(self, cls: type[Any]) -> ComponentInfo | None:
        """Return the component with this class, or None if no plugin offers the class."""
        candidates: list[Offer] = list(self.components.values())
        for claims in self.clashes.values():
            candidates += claims
        for candidate in candidates:
            if isinstance(candidate, ComponentInfo) and candidate.offers(cls):
                return candidate
        return None

    def clash(self, kind: str, name: str) -> str | None:
        """Return a message with the plugins that claim the same name; None if at most one claims it."""
        claims = self.clashes.get((kind, name))
        if claims is None:
            return None
        origins = " and by ".join(claim.origin for claim in claims)
        return f"the {kind} `{name}` is offered by {origins}; uninstall or disable all but one"

    def find(self, kind: str, name: str) -> ComponentInfo:
        """Return the component of this kind and name.

        Raises:
            PluginError: if there is no such component, several plugins claim the name, or the class cannot be
                imported. The message names the distribution to install, or the closest name.
        """
        component = self.components.get((kind, name))
        if component is not None:
            # Import the class here, where all callers expect a `PluginError`.
            _ = component.cls
            return component
        if (clash := self.clash(kind, name)) is not None:
            raise PluginError(clash)

        absent = [plugin for plugin in self.plugins if plugin.status != "loaded"]
        owner = owner_of("components", f"{kind}/{name}")
        for plugin in absent:
            if plugin.distribution == owner:
                raise PluginError(
                    f"the {kind} `{name}` belongs to `{plugin.distribution}`, which "
                    f"{ABSENCE[plugin.status]}{plugin.reason}"
                )

        installed = {plugin.distribution for plugin in self.plugins}
        if owner is not None and owner not in installed:
            raise PluginError(
                f"the {kind} `{name}` belongs to `{owner}`, which is not installed; "
                f"install it with `pip install {owner}`"
            )

        # A plugin that is not loaded may offer the component.
        hint = ""
        for plugin in absent:
            reason = " ".join(str(plugin.reason).split())
            hint += f" The plugin `{plugin.name}` of `{plugin.distribution}` {ABSENCE[plugin.status]}{reason}."
        names = self.names(kind)
        if not names:
            raise PluginError(
                f"there is no {kind} `{name}`: no installed plugin offers any {kind}.{hint}"
            )
        elsewhere = {}
        for component in self.importable(kind):
            for other_name in component.cls.other_names:
                elsewhere[other_name.lower()] = component.name
        suggestion = suggest(name, names, elsewhere)
        raise PluginError(f"there is no {kind} `{name}`.{suggestion}{hint}")


def load_plugins(
    points: Iterable[EntryPoint] | None = None,
    commands_only: bool = False,
) -> Plugins:
    """Load every plugin into a new plugin manager, and collect what the plugins offer.

    A plugin that cannot be loaded is listed with the reason. A name that several plugins claim is listed as a
    clash. Only recipes that use such a plugin or name are refused.

    Args:
        points: Entry points of the plugins; by default those of the group `sentbed`.
        commands_only: Whether to collect only the plugins' commands, so that `sentbed --help` is instant.
    """
    if points is None:
        points = entry_points(group=GROUP)
    kinds_of_hooks = COMPONENT_HOOKS | COMMAND_AND_TABLE_HOOKS
    if commands_only:
        kinds_of_hooks = {"commands": COMMAND}
    manager = _PluginManager("sentbed")
    manager.add_hookspecs(hookspecs)

    infos: list[PluginInfo] = []
    claims: dict[tuple[str, str], list[Offer]] = {}
    installed = [(_name_and_version(point), point) for point in points]
    for origin, point in sorted(installed, key=lambda pair: (pair[0], pair[1].name)):
        info = PluginInfo(point.name, *origin, point.value)
        info, offers = _load(manager, point, info, kinds_of_hooks)
        infos.append(info)
        for offer in offers:
            claims.setdefault((offer.kind, offer.name), []).append(offer)

    components: dict[tuple[str, str], ComponentInfo] = {}
    commands_and_tables: dict[str, dict[str, Offer]] = {COMMAND: {}, TABLE: {}}
    clashes: dict[tuple[str, str], list[Offer]] = {}
    for (kind, name), offers in claims.items():
        first, *others = offers
        if others:
            clashes[kind, name] = offers
        elif isinstance(first, ComponentInfo):
            components[kind, name] = first
        else:
            commands_and_tables[kind][name] = first

    return Plugins(
        manager,
        tuple(infos),
        components,
        clashes,
        commands_and_tables[COMMAND],
        commands_and_tables[TABLE],
    )


def _load(
    manager: pluggy.PluginManager,
    point: EntryPoint,
    info: PluginInfo,
    kinds_of_hooks: Mapping[str, str],
) -> tuple[PluginInfo, list[Offer]]:
    """Import and register a plugin; return the information about it, and what it offers.

    A plugin that is disabled or broken is not registered and offers nothing. `kinds_of_hooks` has the
    hooks whose offers are collected, and the kind of what each of them offers.
    """
    disabled = os.environ.get(DISABLE_VARIABLE, "").split(",")
    if info.distribution in map(str.strip, disabled):
        reason = f"disabled by the environment variable `{DISABLE_VARIABLE}`; take it out there"
        return attrs.evolve(info, status="disabled", reason=reason), []

    registered = False
    try:
        plugin = point.load()
        if inspect.isclass(plugin):
            plugin = plugin()

        _require_unregistered(manager, plugin, info)
        # Set before the call: even if `register` raises, pluggy has recorded the plugin.
        registered = True
        manager.register(plugin, name=info.key)
        callers = manager.get_hookcallers(plugin) or []
        offers = _offers(callers, plugin, info, kinds_of_hooks)
        hooks = {caller.name for caller in callers}
        _require_unhidden(plugin, hooks)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - a plugin's fault, even `SystemExit`, must not stop the others
        if registered and manager.has_plugin(info.key):
            manager.unregister(name=info.key)
        return _with_failure(info, error), []

    offered_kinds = {offer.kind for offer in offers}
    kinds = tuple(kind for kind in KINDS if kind in offered_kinds)
    other_hooks = tuple(sorted(hooks - COMPONENT_HOOKS.keys()))
    return attrs.evolve(info, kinds=kinds, hooks=other_hooks), offers


def _require_unhidden(plugin: object, hooks: Iterable[str]) -> None:
    """Raise `PluginError` if a plugin's package has a submodule with the name of a hook, which hides the hook."""
    files: set[str] = set()
    for directory in getattr(plugin, "__path__", ()):
        # A place in a zip file cannot be listed, for example.
        with suppress(OSError):
            files |= {path.name for path in Path(directory).iterdir()}
    for name in hooks:
        if f"{name}.py" in files or inspect.ismodule(getattr(plugin, name, None)):
            raise PluginError(
                f"its module `{name}` hides its hook of that name; rename the module"
            )


def _require_unregistered(
    manager: pluggy.PluginManager,
    plugin: object,
    info: PluginInfo,
) -> None:
    """Raise `PluginError` if a plugin with this name, or this object, is already registered."""
    if manager.has_plugin(info.key):
        raise PluginError(
            f"`{info.distribution}` has another plugin of this name; give each entry point a name of its own"
        )
    if manager.is_registered(plugin):
        raise PluginError(
            f"it is the same as the plugin `{manager.get_name(plugin)}`; one entry point for it is enough"
        )


def _with_failure(info: PluginInfo, error: BaseException) -> PluginInfo:
    """Return the information about a plugin that raised an error while loading."""
    if isinstance(error, _FaultError):
        place = error.place
    else:
        place = place_of(error, info.value)
    reason = shortened(reason_of(error))
    return attrs.evolve(info, status="broken", reason=reason, place=place)


def _name_and_version(point: EntryPoint) -> tuple[str, str]:
    """Return the name and version of the distribution that has an entry point."""
    try:
        # Read once, since `dist.metadata` parses the file at each access.
        metadata = point.dist.metadata  # type: ignore[union-attr]
        return str(metadata["Name"] or "unknown"), str(metadata["Version"] or "0")
    except Exception:  # noqa: BLE001 - an installation that has lost its metadata must not stop the others
        return "unknown", "0"


class _FaultError(PluginError):
    """Raised if what a plugin offers breaks a rule.

    `place` is the `file:line` of the faulty class or function.
    """

    def __init__(self, message: str, definition: object) -> None:
        super().__init__(message)
        self.place = defined_at(definition)


def _offers(
    callers: Sequence[pluggy.HookCaller],
    plugin: object,
    info: PluginInfo,
    kinds_of_hooks: Mapping[str, str],
) -> list[Offer]:
    """Return what a plugin offers through the hooks in `kinds_of_hooks`, a mapping from hooks to kinds of offers.

    `callers` are the callers of the hooks that the plugin implements.

    Raises:
        _FaultError: if the plugin implements a hook that does not exist, or an offer breaks a rule.
    """
    for caller in callers:
        # pluggy accepts misspelt hooks until `check_pending` is called, which reports only the first of them.
        if not caller.has_spec():
            message = f"there is no hook `{caller.name}`."
            message += suggest(
                caller.name, [*COMPONENT_HOOKS, *OTHER_OFFER_HOOKS, *LIFECYCLE_HOOKS]
            )
            raise _FaultError(message, next(_functions(caller, plugin), None))

    offers: dict[tuple[str, str], Offer] = {}
    callers_by_hook = {caller.name: caller for caller in callers}
    for hook, kind in kinds_of_hooks.items():
        if hook not in callers_by_hook:
            continue
        for function in _functions(callers_by_hook[hook], plugin):
            for name, offered in _names_and_offers(function(), hook, function):
                fault = offer_fault(kind, name, offered)
                if fault is None and (kind, name) in offers:
                    fault = f"it offers the {kind} `{name}` twice; give each a name of its own"
                if fault is not None:
                    definition = offered if inspect.isclass(offered) else function
                    raise _FaultError(fault, definition)

                offer_class = ComponentInfo if kind in KINDS else Offer
                offers[kind, name] = offer_class(
                    kind, name, offered, info.distribution, info.version, info.name
                )
    return list(offers.values())


def _names_and_offers(
    result: Any,
    hook: str,
    function: object,
) -> Iterable[tuple[str, Any]]:
    """Return the name of each offer in the result of a hook, and the offer. Raises `_FaultError`."""
    if isinstance(result, Mapping):
        return result.items()
    if (
        hook in COMMAND_AND_TABLE_HOOKS
        or not isinstance(result, Iterable)
        or isinstance(result, str)
    ):
        expected = "a mapping from names to `Lazy`"
        if hook not in COMMAND_AND_TABLE_HOOKS:
            expected += ", or a list of classes"
        raise _FaultError(
            f"its hook `{hook}` returned {result!r}, expected {expected}", function
        )
    return [(str(getattr(cls, "name", "")), cls) for cls in result]


def _functions(
    caller: pluggy.HookCaller, plugin: object
) -> Iterator[Callable[..., Any]]:
    """Yield the functions with which a plugin implements a hook; their names may differ from the hook's."""
    for implementation in caller.get_hookimpls():
        if implementation.plugin is plugin:
            yield implementation.function
