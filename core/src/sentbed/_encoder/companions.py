"""Encoders of other runs over the same backbone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import attrs

from sentbed._encoder.batching import Progress
from sentbed._encoder.encoder import Encoder, self_contained
from sentbed._encoder.vector_store import Space
from sentbed._recipe.recipe import EncoderRecipe
from sentbed.errors import RunError
from sentbed.protocols import PlacedEncoder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@attrs.define(eq=False, slots=False)
class Companions:
    """Further encoders whose vectors come from an encoder's passes; all weights stay as they are."""

    encoder: Encoder
    others: list[Encoder] = attrs.field(factory=list, init=False)

    def add(self, recipe: EncoderRecipe, head_seed: int) -> None:
        """Add the encoder that `Encoder.build` makes of a recipe with that seed, on the same backbone.

        Nothing happens where the engine has no way to encode for several at once.
        """
        if self.encoder.placed.beside(()) is not None:
            recipe, engine, backbone = self_contained(recipe), self.encoder.engine, self.encoder.backbone
            engine.seed(head_seed)
            placed = engine.assemble(backbone, recipe.pooler, recipe.head)
            self.others.append(Encoder(recipe, engine, backbone, placed))

    def _together(self, others: Sequence[Encoder]) -> PlacedEncoder | None:
        return self.encoder.placed.beside([one.placed for one in others]) if others else None

    @cached_property
    def _members(self) -> dict[str, tuple[Space, Encoder]]:
        """The companions by the name of their space; none where the engine cannot promise the same bits."""
        together, own = self._together(self.others), self.encoder.space()
        if together is None or own is None:
            return {}
        hashed = together.fingerprints() or [None] * (1 + len(self.others))
        members = {
            space.name: (space, one)
            for one, fingerprint in zip(self.others, hashed[1:], strict=True)
            if (space := one.space(fingerprint)) is not None
        }
        members.pop(own.name, None)
        return members

    @property
    def spaces(self) -> list[tuple[Space, int]]:
        """The space of each further encoder that has one of its own, and its width."""
        return [(space, one.width) for space, one in self._members.values()]

    def encode(
        self, texts: Sequence[str], chosen: Sequence[int], progress: Progress | None = None
    ) -> NDArray[np.float32]:
        """Return the encoder's own vectors, then, along the width, those of the spaces with these numbers."""
        members = [one for _, one in self._members.values()]
        placed = self._together([members[number] for number in chosen])
        if placed is None:
            raise RunError("the engine has one pass for all of them, and none for some")
        return attrs.evolve(self.encoder, placed=placed).encode(texts, progress)
