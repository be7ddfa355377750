"""Pooler classes, each with one fault of its class or its fields."""

from __future__ import annotations

from typing import Any, ClassVar

import attrs
from attrs.validators import ge
from sentbed.protocols import Pooler


class Last(Pooler):
    """What all have in common."""

    name: ClassVar[str] = "the-last"

    def build(self, width):
        """Return the module."""
        import torch

        class Module(torch.nn.Module):
            def forward(self, states):
                mask = states.attention_mask
                hidden = states.last_hidden_state
                if mask is None:
                    return hidden[:, -1]
                rows, length = mask.shape
                place = (mask.long() * torch.arange(length)).amax(1)
                return hidden[torch.arange(rows), place]

        return Module()


@attrs.frozen
class Good(Last):
    """Nothing is wrong with it."""

    size: int = attrs.field(default=1, validator=ge(1))
    """At least 1."""


@attrs.define
class Thawed(Last):
    """Its fields can be set."""


@attrs.frozen
class Shouting(Last):
    """Its name is no name."""

    name: ClassVar[str] = "The_Last"


@attrs.frozen
class Taken(Last):
    """Its name is that of a part of the toy plugin."""

    name: ClassVar[str] = "mean"


@attrs.frozen
class Silent(Last):
    size: int = 1
    other: int = 1
    """Documented."""


@attrs.frozen
class Misshapen(Pooler):
    """Its `build` takes nothing, and its `needs` is a list."""

    name: ClassVar[str] = "misshapen"
    needs: ClassVar[list[str]] = ["layers"]

    def build(self):
        """Return nothing."""


@attrs.frozen
class Untyped(Last):
    """A recipe cannot give its fields."""

    sizes: list[int] = attrs.field(factory=list)
    """A list."""
    anything: Any = None
    """Anything."""


@attrs.frozen
class Refused(Last):
    """Its default is refused by its own validator."""

    size: int = attrs.field(default=0, validator=ge(1))
    """At least 1."""

    @size.validator
    def _fits(self, _, value):
        if value < 1:
            raise ValueError("must be at least 1")


@attrs.frozen
class Required(Last):
    """It has a field without a default."""

    size: int
    """Any."""


@attrs.frozen
class Changed(Last):
    """It changes what it is given."""

    size: int = attrs.field(default=1, converter=lambda value: value + 1)
    """One more than was said."""


@attrs.frozen(eq=False)
class Unequal(Last):
    """No two are equal."""


@attrs.frozen
class Raising(Last):
    """It fails on odd values."""

    size: int = 8
    """Divides."""

    def __attrs_post_init__(self):
        _ = 8 // self.size


@attrs.frozen
class Checking(Last):
    """Its check fails on odd values."""

    word: str = "word"
    """A word."""

    def check(self):
        """Yield nothing."""
        if self.word[0] == "w":
            yield from ()
