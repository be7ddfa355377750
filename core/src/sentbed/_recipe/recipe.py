"""Functions of recipes: what decides scores, a recipe's first stages, the resolved recipe."""

from __future__ import annotations

import attrs

from sentbed._document.structuring import parts_in, unstructure
from sentbed.protocols import MAIN_ENCODER, Backbone, EncoderRecipe, Evaluate, Recipe

SCHEMA = 1
"""Version of the recipe format that this version of sentbed reads."""

RESOLVED = "resolved.toml"
"""File in the run directory that has the recipe with every default value."""

UNDECISIVE = ("checkpoint", "expected", "tracker")
"""Top-level keys of core that affect neither encoders nor scores."""


def runs_code(encoder: EncoderRecipe) -> bool:
    """Whether building an encoder runs Python code from a model's repository.

    Backbones within other components count as well.
    """
    backbones = [part for _, part in parts_in(encoder) if isinstance(part, Backbone)]
    return any(backbone.runs_code for backbone in backbones)


def evaluations_of(recipe: Recipe, name: str) -> tuple[Evaluate, ...]:
    """Return the entries of `[[evaluate]]` that use an encoder, as the first or the second one."""
    entries = []
    for entry in recipe.evaluate:
        if name in (entry.encoder or recipe.main_encoder, entry.second):
            entries.append(entry)
    return tuple(entries)


def first_stages(recipe: Recipe, count: int) -> Recipe:
    """Return the recipe with only its first `count` stages, and with only the evaluations before training."""
    evaluations = []
    for evaluate in recipe.evaluate:
        if "start" in evaluate.at:
            evaluations.append(attrs.evolve(evaluate, at=("start",)))
    return attrs.evolve(
        recipe,
        stage=recipe.stage[:count],
        evaluate=tuple(evaluations),
        expected={},
        tables={},
    )


def decisive(recipe: Recipe) -> Recipe:
    """Return the recipe with constant values for all settings that cannot affect a score."""
    run = attrs.evolve(recipe.run, name="any", cache=True, allow_overlap=False)
    tables = {}
    for key, table in recipe.tables.items():
        if table.traits.decides:
            tables[key] = table

    bare = Recipe(recipe.schema, recipe.run, recipe.runtime, recipe.encoders)
    defaults = {key: getattr(bare, key) for key in UNDECISIVE}
    return attrs.evolve(recipe, run=run, tables=tables, **defaults)


def resolved_toml(recipe: Recipe) -> str:
    """Return the recipe as TOML with every default value and absolute paths. The result reproduces the run."""
    import tomli_w

    tables = {}
    for key, table in recipe.tables.items():
        if table.traits.resolved:
            tables[key] = table
    data = unstructure(attrs.evolve(recipe, tables=tables))
    if list(data["encoders"]) == [MAIN_ENCODER]:
        data["encoder"] = data.pop("encoders")[MAIN_ENCODER]
    return tomli_w.dumps(data)
