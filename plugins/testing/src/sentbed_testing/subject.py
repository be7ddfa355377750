"""The component that is tried: its class, its kind, and one that can be made of it."""

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
    """A rule cannot be tried here; it says why."""


@attrs.define(eq=False)
class Subject:
    """A component's class and what is needed to try it."""

    cls: type[Any]
    kind: str
    example: Mapping[str, Any]
    """Fields of the one that is tried."""
    jax: bool = False
    kept: dict[str, Any] = attrs.field(factory=dict)
    """What one rule has computed for others."""
    failures: dict[str, tuple[Any, ...]] = attrs.field(factory=dict)
    """What each rule that was run found wrong."""
    _part: Any = None

    def make(self) -> Any:
        """Return the component with the example's fields; raises what its class raises."""
        if self._part is None:
            try:
                part, problems = structure(
                    dict(self.example), self.cls, Document({}), installed(), Path.cwd(), check=False
                )
            except Exception:  # noqa: BLE001 - a class that no recipe can have may still be made as Python
                part, problems = None, [...]  # type: ignore[list-item]
            self._part = self.cls(**self.example) if problems else part
        return self._part

    @property
    def part(self) -> Any:
        """The component. Raises `NotRunError` where there is none."""
        try:
            part = self.make()
        except Exception as error:
            raise NotRunError("the component cannot be made; see the rule `defaults`") from error
        if not isinstance(part, KINDS[self.kind].base):
            raise NotRunError("it does not inherit from the base class of its kind; see the rule `protocol`")
        return part

    @property
    def ready(self) -> Any:
        """The component, whose `check` finds nothing. Raises `NotRunError` where it finds something."""
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
    """Return the installed plugins; none where they cannot be loaded together."""
    try:
        return load_plugins()
    except SentbedError:
        return load_plugins(())


def deduce_kind(cls: type[Any]) -> str | None:
    """Return the kind whose base class a class inherits from; None where it inherits from none."""
    return next((name for name, kind in KINDS.items() if issubclass(cls, kind.base)), None)
