"""Classes that describe plugins and what they offer."""

from __future__ import annotations

import inspect
import sys
from functools import cache
from importlib import import_module
from typing import Any, Literal, TypeAlias

import attrs

from sentbed._registry.plugin_offer_rules import fault_of
from sentbed._registry.plugin_source_code import file_of, place_of
from sentbed.errors import PluginError, reason_of
from sentbed.protocols.recipe_tables import Lazy

Status: TypeAlias = Literal["loaded", "disabled", "broken"]
"""Status of a plugin.

`disabled`: the user excludes it. `broken`: it cannot be imported, or breaks a rule for plugins.
"""


@attrs.frozen
class Offer:
    """A component, command or recipe table that a plugin offers."""

    kind: str
    """Kind of the component (a name in `KINDS`), `command`, or `recipe table`."""
    name: str
    offered: Any
    """The component's class, the command or the table's class, or a `Lazy` from which it is imported."""

    distribution: str
    version: str
    plugin: str = ""
    """Name of the plugin's entry point."""

    @property
    def value(self) -> Any:
        """The class or command; a `Lazy` is imported.

        Raises:
            PluginError: if the import fails, or the class or command breaks a rule of its kind.
        """
        if isinstance(self.offered, Lazy):
            return _imported(self)
        return self.offered

    @property
    def summary(self) -> str:
        """First line of the class's docstring, or the summary of a `Lazy`."""
        if isinstance(self.offered, Lazy):
            return self.offered.summary
        return (inspect.getdoc(self.offered) or "").partition("\n")[0]

    @property
    def module(self) -> str:
        """Name of the module that defines the class or command. The module need not have been imported."""
        if isinstance(self.offered, Lazy):
            return self.offered.target.partition(":")[0]
        return str(self.offered.__module__)

    @property
    def label(self) -> str:
        """Kind, name, distribution and version, for messages."""
        return f"the {self.kind} `{self.name}` of `{self.distribution}` {self.version}"

    @property
    def origin(self) -> str:
        """Distribution, version, module and file, for messages."""
        places = self.module
        if file := file_of(self.module):
            places += f", {file}"
        return f"`{self.distribution}` {self.version} ({places})"


@cache
def _imported(offer: Offer) -> Any:
    """Return the class or command that a `Lazy` names. Raises `PluginError`."""
    target = offer.offered.target
    module, _, name = target.partition(":")
    what = offer.label
    remedy = "mend, disable or uninstall the plugin"
    try:
        value = getattr(import_module(module), name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a module may raise anything, even `SystemExit`
        reason = f"cannot be imported from `{target}`: {reason_of(error)}"
        if place := place_of(error, module):
            reason += f" @ {place}"
        raise PluginError(f"{what} {reason}; {remedy}") from error

    if (fault := fault_of(offer.kind, offer.name, value)) is not None:
        raise PluginError(f"{what}, `{target}`: {fault}; {remedy}")
    return value


@attrs.frozen
class ComponentInfo(Offer):
    """A component that a plugin offers."""

    @property
    def cls(self) -> type[Any]:
        """The component's class; a `Lazy` is imported.

        Raises:
            PluginError: if the import fails, or the class breaks a rule of its kind.
        """
        cls: type[Any] = self.value
        return cls

    def offers(self, cls: type[Any]) -> bool:
        """Whether this class is the component's class; nothing is imported."""
        if not isinstance(self.offered, Lazy):
            return self.offered is cls
        name = self.offered.target.partition(":")[2]
        return getattr(sys.modules.get(self.module), name, None) is cls

    @property
    def release(self) -> str:
        """Distribution and version, as scores and manifests give them: `sentbed-losses 0.3`."""
        return f"{self.distribution} {self.version}"


@attrs.frozen
class PluginInfo:
    """An installed plugin."""

    name: str
    """Name of the entry point."""
    distribution: str
    version: str
    value: str = ""
    """Value of the entry point, such as `package.module`."""

    status: Status = "loaded"
    reason: str | None = None
    """Why the plugin is not loaded, with a remedy; None if it is loaded."""
    place: str | None = None
    """`file:line` of the error, if the plugin is broken."""

    kinds: tuple[str, ...] = ()
    """Kinds of its components."""
    hooks: tuple[str, ...] = ()
    """Hooks that it implements, except those that offer components."""

    @property
    def key(self) -> str:
        """Name of the plugin in the plugin manager: DISTRIBUTION:NAME."""
        return f"{self.distribution}:{self.name}"

    @property
    def label(self) -> str:
        """Name, distribution and version of the plugin, for messages."""
        return f"the plugin `{self.name}` of `{self.distribution}` {self.version}"

    @property
    def problem(self) -> str | None:
        """Why the plugin could not be loaded; None if it is loaded or disabled."""
        if self.status == "broken":
            return self.reason
        return None
