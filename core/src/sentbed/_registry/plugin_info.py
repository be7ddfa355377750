"""Information about plugins, what they offer, and names that several plugins claim."""

from __future__ import annotations

import inspect
import sys
from functools import cache
from importlib import import_module
from typing import Any, Literal, TypeAlias

import attrs

from sentbed._registry.plugin_offer_rules import fault_of
from sentbed._registry.plugin_source_code import file_of, place_of
from sentbed._registry.slow_imports import slow_messages, watched
from sentbed.errors import PluginError, reason_of
from sentbed.protocols.recipe_tables import Lazy

Status: TypeAlias = Literal["loaded", "disabled", "refused", "broken"]
"""`disabled` by the user's configuration, `refused` because made for another API, or `broken`."""


@attrs.frozen
class Offer:
    """A component, command or recipe table that a plugin offers, and its origin."""

    kind: str
    """Kind of the component, or `command`, or `recipe table`."""
    name: str
    offered: Any
    """The thing itself, or a `Lazy` that names it."""
    distribution: str
    version: str
    plugin: str = ""
    """Name of the entry point."""

    @property
    def value(self) -> Any:
        """What is offered, imported if it is a `Lazy`.

        Raises:
            PluginError: if it cannot be imported, or is not what its kind requires.
        """
        if isinstance(self.offered, Lazy):
            return _imported(self)
        return self.offered

    @property
    def summary(self) -> str:
        """First line of the docstring, or the summary of a `Lazy`."""
        if isinstance(self.offered, Lazy):
            return self.offered.summary
        return (inspect.getdoc(self.offered) or "").partition("\n")[0]

    @property
    def module(self) -> str:
        """Name of the module that defines what is offered, which need not have been imported."""
        if isinstance(self.offered, Lazy):
            return self.offered.target.partition(":")[0]
        return str(self.offered.__module__)

    @property
    def origin(self) -> str:
        """Distribution, version, module and file, for messages."""
        places = self.module
        if file := file_of(self.module):
            places += f", {file}"
        return f"`{self.distribution}` {self.version} ({places})"


@cache
def _imported(offer: Offer) -> Any:
    target = offer.offered.target
    module, _, name = target.partition(":")
    what = f"the {offer.kind} `{offer.name}` of `{offer.distribution}` {offer.version}"
    remedy = "mend, disable or uninstall the plugin"
    try:
        with watched(what):
            value = getattr(import_module(module), name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a module may raise anything, `sys.exit` too
        reason = f"cannot be imported from `{target}`: {reason_of(error)}"
        if place := place_of(error, module):
            reason += f" @ {place}"
        raise PluginError(f"{what} {reason}; {remedy}") from error
    if (fault := fault_of(offer.kind, offer.name, value)) is not None:
        raise PluginError(f"{what}, `{target}`: {fault}; {remedy}")
    return value


@attrs.frozen
class ComponentInfo(Offer):
    """A component and its origin."""

    @property
    def cls(self) -> type[Any]:
        """The class, imported if it is a `Lazy`. Raises `PluginError` like `value`."""
        cls: type[Any] = self.value
        return cls

    def offers(self, cls: type[Any]) -> bool:
        """Whether this class is the component; nothing is imported."""
        if not isinstance(self.offered, Lazy):
            return self.offered is cls
        name = self.offered.target.partition(":")[2]
        return getattr(sys.modules.get(self.module), name, None) is cls

    @property
    def release(self) -> str:
        """Distribution and version, as in scores and manifests."""
        return f"{self.distribution} {self.version}"


@attrs.frozen
class PluginInfo:
    """An installed plugin."""

    name: str
    distribution: str
    version: str
    value: str = ""
    """Value of the entry point, such as `package.module`."""
    status: Status = "loaded"
    reason: str | None = None
    """Why it is not loaded, and the remedy."""
    place: str | None = None
    """`file:line` of the error, if the plugin is broken."""
    api: str | None = None
    """API version that it declares."""
    kinds: tuple[str, ...] = ()
    """Kinds of its components."""
    hooks: tuple[str, ...] = ()
    """Hooks that it implements, except those that offer components."""

    @property
    def key(self) -> str:
        """DISTRIBUTION:NAME, the plugin's name in the plugin manager."""
        return f"{self.distribution}:{self.name}"

    @property
    def label(self) -> str:
        """Its name with distribution and version, for messages."""
        return f"the plugin `{self.name}` of `{self.distribution}` {self.version}"

    @property
    def slow(self) -> str | None:
        """Message on a slow import, with a remedy; None if it was quick."""
        return slow_messages.get(self.label)

    @property
    def problem(self) -> str | None:
        """Why it could not be loaded; None if it was loaded or is disabled."""
        return self.reason if self.status in ("broken", "refused") else None


@attrs.frozen
class Clash:
    """A name that several plugins claim."""

    kind: str
    """Kind as in `Offer`."""
    name: str
    claims: tuple[Offer, ...]
    preferred: ComponentInfo | None
    """Claim that the user's configuration prefers, or None; always None for a command or a recipe table."""
    message: str
    """The plugins that claim the name, and how to choose or where the choice was made."""
