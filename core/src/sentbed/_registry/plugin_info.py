"""What is known of a plugin, of a component, and of a name that several plugins claim."""

from __future__ import annotations

import inspect
from typing import Any, Literal, TypeAlias

import attrs

from sentbed._registry.plugin_code import file_of

Status: TypeAlias = Literal["loaded", "disabled", "refused", "broken"]
"""`disabled` by the user's configuration, `refused` as made for another API, `broken` otherwise."""


@attrs.frozen
class ComponentInfo:
    """A component class and where it came from."""

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
        """Distribution and version, as scores and manifests have them."""
        return f"{self.distribution} {self.version}"

    @property
    def origin(self) -> str:
        """Distribution, version, module and file, for messages."""
        module = self.cls.__module__
        file = file_of(module)
        return f"`{self.distribution}` {self.version} ({module}{f', {file}' if file else ''})"


@attrs.frozen
class PluginInfo:
    """A plugin as installed."""

    name: str
    distribution: str
    version: str
    value: str = ""
    """What its entry point names."""
    status: Status = "loaded"
    reason: str | None = None
    """Why it is not loaded, and what to do."""
    place: str | None = None
    """`file:line` of its code where it is broken."""
    api: str | None = None
    """The API that it says it is made for."""
    kinds: tuple[str, ...] = ()
    """The kinds of its components."""
    hooks: tuple[str, ...] = ()
    """The other hooks that it implements."""

    @property
    def key(self) -> str:
        """DISTRIBUTION:NAME, under which the plugin manager has it."""
        return f"{self.distribution}:{self.name}"

    @property
    def problem(self) -> str | None:
        """Why it could not be loaded; None where it was, or was not to be."""
        return self.reason if self.status in ("broken", "refused") else None


@attrs.frozen
class Offer:
    """What a plugin offers that is no component, such as a command, and whose it is."""

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
    """The one that the user's configuration prefers."""
    message: str
    """Who claims it, and how to choose or where it is chosen."""
