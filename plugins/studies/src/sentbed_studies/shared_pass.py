"""Shared forward passes for cells that encode the same texts with the same backbone."""

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
    """Whether one pass through the backbone gives bit-identical vectors for both recipes.

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
    # Random weights depend on the seed, and a trained tokenizer depends on the texts of the evaluations.
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
    """Return the shared passes that give a run's encoders' vectors together with other runs'.

    Recipes of `others` that cannot share are skipped; `warn` reports those whose encoder cannot be built.
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
    """Encoders whose vectors come from another encoder's passes; no weights change."""

    encoder: Encoder
    others: list[Encoder] = attrs.field(factory=list, init=False)

    def add(self, recipe: EncoderRecipe, seed: int) -> None:
        """Add the encoder of a recipe, built with this head seed on the same backbone.

        Do nothing if the engine cannot encode for several encoders at once.
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
        """Name of a space -> space and encoder; empty if the engine cannot guarantee identical bits."""
        if (together := self._together(self.others)) is None or (own := self.encoder.space()) is None:
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
        """Space and width of each further encoder with a distinct space."""
        return [(space, one.width) for space, one in self._members.values()]

    def encode(
        self, texts: Sequence[str], chosen: Sequence[int], progress: Progress | None = None
    ) -> NDArray[np.float32]:
        """Return the encoder's own vectors and, concatenated along the width, those of `spaces[chosen]`."""
        members = [one for _, one in self._members.values()]
        placed = self._together([members[number] for number in chosen])
        if placed is None:
            raise RunError("the engine has one pass for all of them, and none for some")
        return attrs.evolve(self.encoder, placed=placed).encode(texts, progress)
