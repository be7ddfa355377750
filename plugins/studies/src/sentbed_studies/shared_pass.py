"""Cells that encode the same texts with the same backbone: one forward pass gives the vectors of all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import attrs
from sentbed import Encoder, RunError
from sentbed.helpers import reason_of
from sentbed.protocols import PlacedEncoder
from sentbed.tools import (
    EncoderRecipe,
    Progress,
    Recipe,
    SharedPasses,
    Space,
    head_seed,
    heeded_by,
    self_contained,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def can_share(a: Recipe, b: Recipe) -> bool:
    """Whether one pass through the backbone gives the vectors of both recipes, to the bit.

    They differ in nothing but what comes after the backbone: pooler, head, evaluators. Seeds may differ where
    all weights come from files.
    """
    if any(recipe.stage or not recipe.run.cache for recipe in (a, b)):
        return False
    if any(table.traits.no_run for recipe in (a, b) for table in recipe.tables.values()):
        return False
    if a.runtime != b.runtime or list(a.encoders) != list(b.encoders):
        return False
    pairs = zip(a.encoders.values(), b.encoders.values(), strict=True)
    if not all(_same_states(one, other) for one, other in pairs):
        return False
    if all(one.backbone.traits.from_files for one in a.encoders.values()):
        return True
    # What is drawn depends on the seed, and a tokenizer that is trained on the texts of the evaluations.
    return a.run.seed == b.run.seed and a.evaluate == b.evaluate


def _same_states(a: EncoderRecipe, b: EncoderRecipe) -> bool:
    """Whether both backbones give the same states for the same texts."""
    return (
        a.backbone == b.backbone
        and a.max_length == b.max_length
        and heeded_by(a) == heeded_by(b)
        and a.resolved_prompt == b.resolved_prompt
    )


def share_passes(
    recipe: Recipe, others: Sequence[Recipe], encoders: Mapping[str, Encoder], warn: Callable[[str], None]
) -> Mapping[str, SharedPasses]:
    """Return, for the encoders of a run, what gives the vectors of other runs in the same passes.

    A recipe of `others` that cannot share is left out; one whose encoder cannot be built is named by `warn`.
    """
    passes = {name: SharedBackbone(encoder) for name, encoder in encoders.items()}
    for other in others:
        for name, shared in passes.items() if can_share(recipe, other) else ():
            try:
                shared.add(other.encoders[name], head_seed(other, name))
            except Exception as error:  # noqa: BLE001 - another recipe's parts must not stop this run
                what = f"`{name}` of `{other.run.name}` cannot be encoded in the same pass"
                warn(f"{what}: {reason_of(error)}")
    return {name: shared for name, shared in passes.items() if shared.others}


@attrs.define(eq=False, slots=False)
class SharedBackbone:
    """Further encoders whose vectors come from an encoder's passes; all weights stay as they are."""

    encoder: Encoder
    others: list[Encoder] = attrs.field(factory=list, init=False)

    def add(self, recipe: EncoderRecipe, seed: int) -> None:
        """Add the encoder that `Encoder.build` makes of a recipe with that head seed, on the same backbone.

        Nothing happens where the engine has no way to encode for several at once.
        """
        if self.encoder.placed.beside(()) is not None:
            recipe, engine, backbone = self_contained(recipe), self.encoder.engine, self.encoder.backbone
            engine.seed(seed)
            placed = engine.assemble(backbone, recipe.pooler, recipe.head)
            self.others.append(Encoder(recipe, engine, backbone, placed))

    def _together(self, others: Sequence[Encoder]) -> PlacedEncoder | None:
        return self.encoder.placed.beside([one.placed for one in others]) if others else None

    @cached_property
    def _members(self) -> dict[str, tuple[Space, Encoder]]:
        """The others by the name of their space; none where the engine cannot promise the same bits."""
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
