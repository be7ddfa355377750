"""The component under test: its class, its kind, and an instance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest import SkipTest

import attrs
from sentbed.errors import SentbedError
from sentbed.kinds import KINDS
from sentbed.protocols import Lazy
from sentbed.tools import Document, Plugins, load_plugins, structure


class NotRunError(SkipTest):
    """Raised with the reason if a rule cannot be run here."""


@attrs.define(eq=False)
class Subject:
    """The class of a component with everything needed to test it."""

    cls: type[Any]
    kind: str
    example: Mapping[str, Any]
    """Fields of the instance that is tested."""
    jax: bool = False
    width: int = 8
    """Width with which modules of poolers and losses are built."""
    kept: dict[str, Any] = attrs.field(factory=dict)
    """Results shared between rules."""
    failures: dict[str, tuple[Any, ...]] = attrs.field(factory=dict)
    """Rule -> its failures, for rules that have run."""
    _part: Any = None

    def make(self) -> Any:
        """Return the component with the example's fields; exceptions of its class pass through."""
        if self._part is None:
            try:
                part, problems = structure(
                    dict(self.example),
                    self.cls,
                    Document({}),
                    installed(),
                    Path.cwd(),
                    check=False,
                )
            except Exception:  # noqa: BLE001 - a class that no recipe can have may still be made as Python
                part, problems = None, [...]  # type: ignore[list-item]
            self._part = self.cls(**self.example) if problems else part

        return self._part

    def change_example(self, example: Mapping[str, Any]) -> None:
        """Test an instance with these fields from now on, and drop the results of the previous one."""
        if example != self.example:
            self.example = example
            self.kept.clear()
            self.failures.clear()
            self._part = None

    @property
    def part(self) -> Any:
        """The component. Raises `NotRunError` if it cannot be created."""
        try:
            part = self.make()
        except Exception as error:
            raise NotRunError(
                "the component cannot be made; see the rule `defaults`"
            ) from error

        if not isinstance(part, KINDS[self.kind].base):
            raise NotRunError(
                "it does not inherit from the base class of its kind; see the rule `protocol`"
            )
        return part

    @property
    def ready(self) -> Any:
        """The component, if its `check` has no problems. Raises `NotRunError` otherwise."""
        part = self.part
        try:
            problems = list(part.check())
        except Exception as error:
            raise NotRunError("its `check` fails; see the rule `odd-values`") from error
        if problems:
            raise NotRunError(
                f"the component's `check` says: {problems[0]}; an `example` with other fields may pass it"
            )
        return part


@cache
def installed() -> Plugins:
    """Return the installed plugins, or no plugins if loading fails."""
    try:
        return load_plugins()
    except SentbedError:
        return load_plugins(())


def deduce_kind(cls: type[Any]) -> str | None:
    """Return the kind whose base class a class inherits from, or None."""
    return next(
        (name for name, kind in KINDS.items() if issubclass(cls, kind.base)), None
    )


def offered(hook_result: Mapping[str, Lazy] | Iterable[type[Any]]) -> list[type[Any]]:
    """Return the classes that a plugin's hook returned, such as `offered(my_plugin.poolers())`."""
    if not isinstance(hook_result, Mapping):
        return list(hook_result)
    places = [lazy.target.partition(":") for lazy in hook_result.values()]
    return [getattr(import_module(module), name) for module, _, name in places]
