"""Which runs encode the same texts with the same backbone: one forward pass serves them all."""

from __future__ import annotations

from sentbed._recipe.fit import heeded_by
from sentbed._recipe.recipe import EncoderRecipe, Recipe


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
