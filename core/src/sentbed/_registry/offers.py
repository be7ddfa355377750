"""What plugins offer: components, commands and recipe tables."""

from __future__ import annotations

import inspect
import re
import traceback
from importlib import import_module
from typing import Any

import attrs

from sentbed.errors import PluginError, reason_of
from sentbed.kinds import KINDS

COMMAND, TABLE = "command", "recipe table"

CORE_COMMANDS = frozenset({"check", "plugins", "run"})
"""Names of core's commands. A plugin cannot offer a command with such a name."""

CORE_TABLES = frozenset(
    {
        "checkpoint",
        "encoder",
        "encoders",
        "evaluate",
        "expected",
        "extends",
        "run",
        "runtime",
        "schema",
        "stage",
        "tracker",
    }
)
"""Top-level keys of a recipe that belong to core. A plugin cannot offer a table with such a key."""


@attrs.frozen
class Offer:
    """A component, command or recipe table that a plugin offers."""

    kind: str
    """Kind of the component (a name in `KINDS`), `command`, or `recipe table`."""
    name: str
    target: Any
    """The class or command, or where to import it from: `package.module:name`."""

    distribution: str
    version: str

    @property
    def release(self) -> str:
        """Distribution and version, as scores and manifests give them: `sentbed-losses 0.3`."""
        return f"{self.distribution} {self.version}"

    def load(self) -> Any:
        """Return the class or command. If the target is a string, it is imported at the first call.

        Raises:
            PluginError: if it cannot be imported, or is not what its kind has to be.
        """
        label = f"the {self.kind} `{self.name}` of `{self.release}`"
        value = self.target
        if isinstance(value, str):
            module, _, name = value.partition(":")
            try:
                value = getattr(import_module(module), name)
            except (Exception, SystemExit) as error:
                raise PluginError(
                    f"{label} cannot be imported from `{value}`: {failure(error)}; "
                    "mend, disable or uninstall the plugin"
                ) from error

        if fault := fault_of(self.kind, self.name, value):
            raise PluginError(f"{label}: {fault}")
        return value


def failure(error: BaseException) -> str:
    """Return the reason why an import failed, with the `file:line` where it failed."""
    place = ""
    for frame in traceback.extract_tb(error.__traceback__):
        if not frame.filename.startswith("<frozen"):
            place = f" @ {frame.filename}:{frame.lineno}"
    reason = " ".join(reason_of(error).split())
    return reason + place


def name_fault(kind: str, name: str) -> str:
    """Return why an offer of this kind cannot have this name; empty if it can."""
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name):
        return f"the {kind} is called {name!r}; write small letters, digits and single dashes"
    is_of_core = kind == TABLE and name in CORE_TABLES
    if is_of_core or (kind == COMMAND and name in CORE_COMMANDS):
        return f"the {kind} `{name}` is sentbed's own; choose another name"
    return ""


def fault_of(kind: str, name: str, value: Any) -> str:
    """Return why a value cannot be the component, command or recipe table `name`; empty if it can."""
    if kind == COMMAND:
        from click import Command

        if not isinstance(value, Command):
            return f"found {value!r}, expected a `click.Command`"
        return ""
    base: type[Any]
    if kind == TABLE:
        from sentbed.protocols import RecipeTable

        base = RecipeTable
    else:
        base = KINDS[kind].base
    if fault := class_fault(base, value):
        return fault
    if not attrs.has(value) or value.__setattr__ is object.__setattr__:
        return f"`{value.__qualname__}` is no frozen attrs class; decorate it with `@attrs.frozen`"
    name_in_class = getattr(value, "name", None)
    if kind in KINDS and name_in_class != name:
        return f"`{value.__qualname__}` has the name {name_in_class!r}, and is offered as `{name}`"
    return ""


def class_fault(base: type[Any], cls: Any) -> str:
    """Return why a value is no class that implements `base`; empty if it is one."""
    if not inspect.isclass(cls) or not issubclass(cls, base):
        return (
            f"found {cls!r}, expected a class below `sentbed.protocols.{base.__name__}`"
        )
    missing = sorted(getattr(cls, "__abstractmethods__", ()))
    if missing:
        return f"`{cls.__qualname__}` has no `{missing[0]}`; see `sentbed.protocols.{base.__name__}`"
    return ""
