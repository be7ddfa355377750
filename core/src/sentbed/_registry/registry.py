"""Plugin registry: finds plugins, collects their components and reports their faults.

`pluggy.load_setuptools_entrypoints` skips a second distribution that reuses a name and accepts misspelt
hooks, so we iterate over the entry points here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

import attrs
import pluggy

from sentbed import hookspecs
from sentbed._registry.distribution_catalog import owner_of
from sentbed._registry.plugin_compatibility import (
    API_NAME,
    api_refusal,
    declared_api,
    unmet_sentbed,
)
from sentbed._registry.plugin_info import Clash, ComponentInfo, Offer, PluginInfo
from sentbed._registry.plugin_offer_rules import COMMAND, TABLE, offer_fault
from sentbed._registry.plugin_source_code import (
    assigned_text,
    defined_at,
    place_of,
    would_offer,
)
from sentbed._registry.slow_imports import watched
from sentbed._registry.user_config import Settings, fits, read_settings
from sentbed.errors import PluginError, reason_of, shortened, suggest
from sentbed.kinds import KINDS

GROUP = "sentbed"

OFFERED = {kind.hook: kind.name for kind in KINDS.values()}
"""Hooks through which plugins offer components -> their kind."""

NAMED = {"commands": COMMAND, "recipe_tables": TABLE}
"""Hook through which plugins offer named things other than components -> what it offers."""

OFFERS = (*NAMED, "known_data", "findings", "vector_store")
"""All hooks through which plugins offer something other than components."""

LIFECYCLE: tuple[str, ...] = tuple(
    name
    for name, value in vars(hookspecs).items()
    if hasattr(value, "sentbed_spec") and name not in {*OFFERED, *OFFERS}
)
"""Hooks that a run calls, in order."""


ABSENCE: Mapping[str, str] = {
    "broken": "could not be loaded: ",
    "refused": "is refused: ",
    "disabled": "is ",
}
"""Status of a plugin that is not loaded -> how a message goes on before the reason."""


@attrs.frozen(eq=False)
class Plugins:
    """The installed plugins and everything they offer."""

    manager: pluggy.PluginManager
    plugins: tuple[PluginInfo, ...]
    components: Mapping[tuple[str, str], ComponentInfo]
    """(Kind, name) -> component. A name that several plugins claim is left out unless one is preferred."""
    clashes: Mapping[tuple[str, str], Clash] = attrs.field(factory=dict)
    """(Kind, name) -> claims of several plugins to a component, a `command` or a `recipe table`."""
    warnings: tuple[str, ...] = ()
    """Warnings about entries of the user's configuration that match no plugin or component."""
    commands: Mapping[str, Offer] = attrs.field(factory=dict)
    """Subcommands of `sentbed`, each a `click.Command`, without names that several plugins claim."""
    tables: Mapping[str, Offer] = attrs.field(factory=dict)
    """Top-level tables of a recipe, each a `RecipeTable`, without names that several plugins claim."""

    def names(self, kind: str) -> list[str]:
        """Return the sorted names of the components of a kind."""
        return sorted(name for of_kind, name in self.components if of_kind == kind)

    def importable(self, kind: str) -> list[ComponentInfo]:
        """Return the components of a kind without those whose import fails, which `find` reports."""
        components = []
        for name in self.names(kind):
            with suppress(PluginError):
                components.append(self.find(kind, name))
        return components

    def origin(self, cls: type[Any]) -> ComponentInfo | None:
        """Return the information about a component class, or None if no plugin offers it."""
        offers: list[Offer] = list(self.components.values())
        for clash in self.clashes.values():
            offers += clash.claims
        for offer in offers:
            if isinstance(offer, ComponentInfo) and offer.offers(cls):
                return offer
        return None

    def find(self, kind: str, name: str) -> ComponentInfo:
        """Return the component of this kind and name.

        Raises:
            PluginError: if there is none or several, or it cannot be imported; names owner or closest name.
        """
        component = self.components.get((kind, name))
        if component is not None:
            # Import it here, where all callers expect a `PluginError`.
            _ = component.cls
            return component
        if (kind, name) in self.clashes:
            raise PluginError(self.clashes[kind, name].message)
        absent = [plugin for plugin in self.plugins if plugin.status != "loaded"]
        owner = owner_of("components", f"{kind}/{name}")
        hook = KINDS[kind].hook
        for plugin in absent:
            if plugin.distribution == owner or would_offer(plugin.value, hook, name):
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
        # It is unknown whether a plugin that is not loaded would offer it.
        hint = ""
        if absent:
            hint = f" ({len(absent)} not loaded: see `sentbed plugins`)"
        names = self.names(kind)
        if not names:
            raise PluginError(
                f"there is no {kind} `{name}`: no installed plugin offers any {kind}{hint}"
            )
        raise PluginError(f"there is no {kind} `{name}`.{suggest(name, names)}{hint}")


def load_plugins(
    points: Iterable[EntryPoint] | None = None,
    settings: Settings | None = None,
    commands_only: bool = False,
) -> Plugins:
    """Load every plugin of the entry-point group `sentbed` into a new plugin manager.

    Plugins that cannot be loaded are listed with the reason, and names that several plugins claim are listed
    as clashes; either stops only recipes that use them. `settings` defaults to the user's configuration. With
    `commands_only`, only the plugins' commands are collected, so that `sentbed --help` is instant.

    Raises:
        PluginError: if the user's configuration is invalid.
    """
    settings = read_settings() if settings is None else settings
    manager = pluggy.PluginManager("sentbed")
    manager.add_hookspecs(hookspecs)
    infos: list[PluginInfo] = []
    claims: dict[tuple[str, str], list[Offer]] = {}
    hooks = {"commands": COMMAND} if commands_only else OFFERED | NAMED
    if points is None:
        points = entry_points(group=GROUP)
    installed = [(_origin(point), point) for point in points]
    for origin, point in sorted(installed, key=lambda pair: (pair[0], pair[1].name)):
        info = PluginInfo(point.name, *origin, point.value)
        with watched(info.label):
            info, offers = _load(manager, point, info, settings, hooks)
        infos.append(info)
        for offer in offers:
            claims.setdefault((offer.kind, offer.name), []).append(offer)
    _order(manager, infos, settings)
    clashes = {}
    for key, several in claims.items():
        if len(several) > 1:
            clashes[key] = _clash(several, settings)
    if clashes and commands_only:
        # A broken plugin claims nothing, and only loading all of its offers shows whether it is broken.
        return load_plugins(points, settings)
    warnings = _warnings(settings, infos, claims)
    components: dict[tuple[str, str], ComponentInfo] = {}
    named: dict[str, dict[str, Offer]] = {COMMAND: {}, TABLE: {}}
    for (kind, name), several in claims.items():
        clash = clashes.get((kind, name))
        winner = several[0] if clash is None else clash.preferred
        if isinstance(winner, ComponentInfo):
            components[kind, name] = winner
        elif winner is not None:
            named[kind][name] = winner
    return Plugins(
        manager,
        tuple(infos),
        components,
        clashes,
        warnings,
        named[COMMAND],
        named[TABLE],
    )


def _order(
    manager: pluggy.PluginManager, infos: Sequence[PluginInfo], settings: Settings
) -> None:
    """Register plugins again so that hooks are called in the order of the user's configuration."""
    for name in reversed(tuple(settings.order)):
        # pluggy calls the plugin registered last first.
        for info in reversed(infos):
            is_named = fits(name, info.distribution, info.name)
            if is_named and manager.has_plugin(info.key):
                manager.register(manager.unregister(name=info.key), name=info.key)


def _load(
    manager: pluggy.PluginManager,
    point: EntryPoint,
    info: PluginInfo,
    settings: Settings,
    kinds_of_hooks: Mapping[str, str],
) -> tuple[PluginInfo, list[Offer]]:
    """Register a plugin; return its info and what it offers."""
    if (reason := settings.refusal(info.distribution, info.name)) is not None:
        return attrs.evolve(info, status="disabled", reason=reason), []
    registered = False
    try:
        plugin = point.load()
        api = declared_api(info.value, plugin)
        if api is not None:
            info = attrs.evolve(info, api=str(api))
        if (reason := api_refusal(api, info.distribution)) is not None:
            return attrs.evolve(info, status="refused", reason=reason), []
        if inspect.isclass(plugin):
            plugin = plugin()
        _require_new(manager, plugin, info)
        # Set before the call: if it raises, pluggy has recorded the plugin already.
        registered = True
        manager.register(plugin, name=info.key)
        offers = _offers(manager, plugin, info, kinds_of_hooks)
        hooks = {caller.name for caller in manager.get_hookcallers(plugin) or ()}
        _require_unhidden(plugin, hooks)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - a plugin's fault, `sys.exit` too, must not stop the others
        if registered and manager.has_plugin(info.key):
            manager.unregister(name=info.key)
        return _failed(info, error), []
    offered_kinds = {offer.kind for offer in offers}
    kinds = tuple(kind for kind in KINDS if kind in offered_kinds)
    return attrs.evolve(
        info, kinds=kinds, hooks=tuple(sorted(hooks - OFFERED.keys()))
    ), offers


def _require_unhidden(plugin: object, hooks: Iterable[str]) -> None:
    """Refuse a package that has a submodule with the name of a hook, which would hide the hook."""
    for name in hooks:
        is_module = inspect.ismodule(getattr(plugin, name, None))
        for directory in getattr(plugin, "__path__", ()):
            is_module = is_module or Path(directory, f"{name}.py").is_file()
        if is_module:
            raise PluginError(
                f"its module `{name}` hides its hook of that name; rename the module"
            )


def _require_new(
    manager: pluggy.PluginManager, plugin: object, info: PluginInfo
) -> None:
    if manager.has_plugin(info.key):
        raise PluginError(
            f"`{info.distribution}` has another plugin of this name; give each entry point a name of its own"
        )
    if manager.is_registered(plugin):
        raise PluginError(
            f"it is the same as the plugin `{manager.get_name(plugin)}`; one entry point for it is enough"
        )


def _failed(info: PluginInfo, error: BaseException) -> PluginInfo:
    written = info.api or assigned_text(info.value, API_NAME)
    if (reason := api_refusal(written, info.distribution)) is not None:
        return attrs.evolve(info, status="refused", reason=reason, api=written)
    if isinstance(error, _FaultError):
        place = error.place
    else:
        place = place_of(error, info.value)
    reason = shortened(reason_of(error)) + unmet_sentbed(info.distribution)
    return attrs.evolve(info, status="broken", reason=reason, place=place)


def _clash(claims: Sequence[Offer], settings: Settings) -> Clash:
    kind, name = claims[0].kind, claims[0].name
    origins = " and by ".join(claim.origin for claim in claims)
    components = [claim for claim in claims if isinstance(claim, ComponentInfo)]
    if not components:
        message = f"the {kind} `{name}` is offered by {origins}; uninstall or disable one of them"
        return Clash(kind, name, tuple(claims), None, message)
    preferred, place = settings.prefer.get(f"{kind}/{name}", ("", ""))
    fitting = [
        claim
        for claim in components
        if fits(preferred, claim.distribution, claim.plugin)
    ]
    if len(fitting) == 1:
        message = f"the {kind} `{name}` is offered by {origins}; {place} prefers `{preferred}`"
        return Clash(kind, name, tuple(claims), fitting[0], message)
    first, *others = claims
    choice = first.distribution
    if any(other.distribution == choice for other in others):
        choice += f":{first.plugin}"
    message = (
        f"the {kind} `{name}` is offered by {origins}; choose one in `[plugins]` of `{settings.file}`: "
        f'`prefer = {{ "{kind}/{name}" = "{choice}" }}`, or disable or uninstall the other'
    )
    return Clash(kind, name, tuple(claims), None, message)


def _warnings(
    settings: Settings,
    infos: Sequence[PluginInfo],
    claims: Mapping[tuple[str, str], Sequence[Offer]],
) -> tuple[str, ...]:
    """Return warnings about configured plugins that are not installed, or lack the preferred component."""
    names = sorted(
        {info.name for info in infos} | {info.distribution for info in infos}
    )
    warnings = []
    for what, name, place in settings.named():
        if not any(fits(name, info.distribution, info.name) for info in infos):
            hint = suggest(name, names).partition(" Choose")[0]
            warnings.append(
                f"`{what}` of {place} names `{name}`, which is not an installed plugin.{hint}"
            )
    for part, (name, place) in settings.prefer.items():
        kind, _, component = part.partition("/")
        preferred = [info for info in infos if fits(name, info.distribution, info.name)]
        offers = claims.get((kind, component), ())
        is_offered = any(
            fits(name, offer.distribution, offer.plugin) for offer in offers
        )
        if is_offered or not preferred:
            continue
        reason = "which it does not offer"
        for info in preferred:
            if info.status != "loaded":
                reason = f"and `{info.name}` is {info.status}"
                break
        warnings.append(
            f"{place} prefers `{name}` for the {kind} `{component}`, {reason}"
        )
    return tuple(warnings)


def _origin(point: EntryPoint) -> tuple[str, str]:
    try:
        metadata = point.dist.metadata  # type: ignore[union-attr]  # read anew for each of its names
        return str(metadata["Name"] or "unknown"), str(metadata["Version"] or "0")
    except Exception:  # noqa: BLE001 - an installation that has lost its metadata must not stop the others
        return "unknown", "0"


class _FaultError(PluginError):
    """Raised if what a plugin offers is invalid; has the position in its code."""

    def __init__(self, message: str, at: object) -> None:
        super().__init__(message)
        self.place = defined_at(at)


def _offers(
    manager: pluggy.PluginManager,
    plugin: object,
    info: PluginInfo,
    kinds_of_hooks: Mapping[str, str],
) -> list[Offer]:
    """Return what a plugin offers through the hooks in `kinds_of_hooks` (hook -> kind)."""
    for caller in manager.get_hookcallers(plugin) or ():
        # pluggy accepts misspelt hooks silently until `check_pending`, which reports only the first.
        if not caller.has_spec():
            message = f"there is no hook `{caller.name}`."
            message += suggest(caller.name, [*OFFERED, *OFFERS, *LIFECYCLE])
            raise _FaultError(message, next(_functions(caller, plugin), None))
    offers: dict[tuple[str, str], Offer] = {}
    for hook, kind in kinds_of_hooks.items():
        for function in _functions(getattr(manager.hook, hook), plugin):
            for name, offered in _pairs(function(), hook, function):
                fault = offer_fault(kind, name, offered)
                if fault is None and (kind, name) in offers:
                    fault = f"it offers the {kind} `{name}` twice; give each a name of its own"
                if fault is not None:
                    place = offered if inspect.isclass(offered) else function
                    raise _FaultError(fault, place)
                make = ComponentInfo if kind in KINDS else Offer
                offers[kind, name] = make(
                    kind, name, offered, info.distribution, info.version, info.name
                )
    return list(offers.values())


def _pairs(offers: Any, hook: str, function: object) -> Iterable[tuple[str, Any]]:
    """Return the names and objects in the result of a hook."""
    if isinstance(offers, Mapping):
        return offers.items()
    if hook in NAMED or not isinstance(offers, Iterable) or isinstance(offers, str):
        expected = "names with a `Lazy` each"
        if hook not in NAMED:
            expected += ", or a list of classes"
        raise _FaultError(
            f"its hook `{hook}` returned {offers!r}, expected {expected}", function
        )
    return [(str(getattr(cls, "name", "")), cls) for cls in offers]


def _functions(
    caller: pluggy.HookCaller, plugin: object
) -> Iterator[Callable[..., Any]]:
    """Yield a plugin's implementations of a hook, whatever their names."""
    for implementation in caller.get_hookimpls():
        if implementation.plugin is plugin:
            yield implementation.function
