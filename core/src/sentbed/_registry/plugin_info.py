"""Information about plugins, components, and names that several plugins claim."""

from __future__ import annotations

import inspect
from typing import Any, Literal, TypeAlias

import attrs

from sentbed._registry.plugin_code import file_of

Status: TypeAlias = Literal["loaded", "disabled", "refused", "broken"]
"""`disabled` by the user's configuration, `refused` because made for another API, or `broken`."""


@attrs.frozen
class ComponentInfo:
    """A component class and its origin."""

    kind: str
    name: str
    cls: type[Any]
    distribution: str
    version: str
    plugin: str = ""
    """Name of the entry point."""

    @property
    def summary(self) -> str:
        """The first line of the class's docstring."""
        return (inspect.getdoc(self.cls) or "").partition("\n")[0]

    @property
    def release(self) -> str:
        """Distribution and version, as in scores and manifests."""
        return f"{self.distribution} {self.version}"

    @property
    def origin(self) -> str:
        """Distribution, version, module and file, for messages."""
        module = self.cls.__module__
        file = file_of(module)
        return f"`{self.distribution}` {self.version} ({module}{f', {file}' if file else ''})"


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
    """Other hooks that it implements."""

    @property
    def key(self) -> str:
        """DISTRIBUTION:NAME, the plugin's name in the plugin manager."""
        return f"{self.distribution}:{self.name}"

    @property
    def problem(self) -> str | None:
        """Why it could not be loaded; None if it was loaded or is disabled."""
        return self.reason if self.status in ("broken", "refused") else None


@attrs.frozen
class Offer:
    """Something other than a component that a plugin offers, such as a command, and its origin."""

    value: Any
    distribution: str
    version: str
    plugin: str
    """Name of the entry point."""


@attrs.frozen
class Clash:
    """A name that several plugins claim."""

    kind: str
    name: str
    claims: tuple[ComponentInfo, ...]
    preferred: ComponentInfo | None
    """Claim preferred by the user's configuration."""
    message: str
    """Who claims the name, and how to choose or where the choice was made."""
