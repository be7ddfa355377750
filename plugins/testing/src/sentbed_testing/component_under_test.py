"""The component under test: its class, its kind, and an instance."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any
from unittest import SkipTest

import attrs
from sentbed.errors import SentbedError
from sentbed.kinds import KINDS
from sentbed.tools import Document, Plugins, load_plugins, structure


class NotRunError(SkipTest):
    """Raised if a rule cannot be run. The message is the reason."""


@attrs.define(eq=False)
class Subject:
    """Class of a component, with everything that its rules read."""

    cls: type[Any]
    kind: str
    example: Mapping[str, Any]
    """Fields of the instance that is tested, as in a recipe."""
    width: int = 8
    """Dimension of the states and vectors with which the component is tested."""
    shared_results: dict[str, Any] = attrs.field(factory=dict)
    """Results that several rules use, by a name."""
    failures: dict[str, tuple[Any, ...]] = attrs.field(factory=dict)
    """Rule -> its failures, for rules that have run."""
    _part: Any = None

    def make(self) -> Any:
        """Return the component with the example's fields. An exception that its class raises is not caught."""
        if self._part is None:
            self._part = self._make_as_recipe()
        if self._part is None:
            self._part = self.cls(**self.example)
        return self._part

    def _make_as_recipe(self) -> Any:
        """Create the component as a recipe with the example's fields does; None if no recipe can hold them."""
        try:
            return structure(
                Document.of(self.example),
                self.cls,
                installed(),
                Path.cwd(),
                check=False,
            )
        except Exception:  # noqa: BLE001 - what no recipe can have may still be created in Python
            return None

    def change_example(self, example: Mapping[str, Any]) -> None:
        """Test an instance with these fields from now on. Results of another instance are dropped."""
        if example != self.example:
            self.example = example
            self.shared_results.clear()
            self.failures.clear()
            self._part = None

    @property
    def part(self) -> Any:
        """The component. Raises `NotRunError` if it cannot be created, or lacks the base class of its kind."""
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
        """The component. Raises `NotRunError` if it cannot be created or its `check` fails or finds a problem."""
        part = self.part
        try:
            problems = list(part.check())
        except Exception as error:
            raise NotRunError("its `check` fails") from error
        if problems:
            raise NotRunError(
                f"the component's `check` says: {problems[0]}; an `example` with other fields may pass it"
            )
        return part


def init_arguments(component: Any) -> dict[str, Any]:
    """Return the arguments with which the class of a component would create an equal component."""
    arguments = {}
    for field in attrs.fields(type(component)):
        if field.init:
            arguments[field.alias] = getattr(component, field.name)
    return arguments


@cache
def installed() -> Plugins:
    """Return the installed plugins, or no plugins if they cannot be loaded."""
    try:
        return load_plugins()
    except SentbedError:
        return load_plugins(())


def deduce_kind(cls: type[Any]) -> str | None:
    """Return the kind of a component's class, by its base class; None if it has none of the base classes."""
    for name, kind in KINDS.items():
        if issubclass(cls, kind.base):
            return name
    return None
