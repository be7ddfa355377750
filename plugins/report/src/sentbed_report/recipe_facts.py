"""Main settings of a recipe, for the head of a report: model, pooler, loss and seed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import tomli

_MODEL = ("use", "model", "size", "init")
"""Keys of a backbone that determine its model."""

Fact: TypeAlias = tuple[str, str]
"""Name of a setting, such as `pooler`, and its value."""


def recipe_facts(recipe: str, varied: Collection[str] = ()) -> tuple[Fact, ...]:
    """Return model and pooler of each encoder, loss of each stage, and seed of a recipe, which is a TOML text.

    Settings at the paths `varied`, which differ between cells, are left out. Empty for a text that is not a
    recipe.
    """
    try:
        data = tomli.loads(recipe)
    except tomli.TOMLDecodeError:
        return ()
    facts = []
    for name, text, paths in _facts(data):
        if text and not _is_set_by_any(paths, varied):
            facts.append((name, text))
    return tuple(facts)


def _is_set_by_any(paths: Sequence[str], varied: Collection[str]) -> bool:
    """Whether one of `varied` equals one of the paths, or is a table that contains it."""
    for path in paths:
        keys = path.split(".")
        if any(".".join(keys[:end]) in varied for end in range(1, len(keys) + 1)):
            return True
    return False


def _facts(data: Mapping[str, Any]) -> Iterator[tuple[str, str, Sequence[str]]]:
    """Yield name and value of each fact, and the paths of the recipe that determine it."""
    encoders = _table(data.get("encoders"))
    if not encoders:
        # `[encoder]` is short for `[encoders.encoder]`, the form of paths in differences of recipes.
        places = ["encoder", "encoders.encoder"]
        yield from _facts_of_encoder(data.get("encoder"), "", places)
    for name, encoder in encoders.items():
        of = f" of {name}" if len(encoders) > 1 else ""
        yield from _facts_of_encoder(encoder, of, [f"encoders.{name}"])

    stages = data.get("stage")
    if isinstance(stages, list):
        for index, stage in enumerate(map(_table, stages)):
            name = stage.get("name", index)
            of = f" of {name}" if len(stages) > 1 else ""
            loss = _table(stage.get("loss")).get("use", "")
            yield f"loss{of}", str(loss), [f"stage.{name}.loss.use"]
    yield "seed", str(_table(data.get("run")).get("seed", "")), ["run.seed"]


def _facts_of_encoder(
    encoder: Any, of: str, places: Sequence[str]
) -> Iterator[tuple[str, str, Sequence[str]]]:
    """Yield model and pooler of the encoder at `places`; `of` is its name if there are several encoders."""
    backbone = _table(_table(encoder).get("backbone"))
    pooler = _table(_table(encoder).get("pooler"))
    parts = [backbone.get("use"), backbone.get("model") or backbone.get("size")]
    if backbone.get("init") == "random":
        parts.append("random weights")
    model = ", ".join(map(str, filter(None, parts)))
    paths_of_model = []
    paths_of_pooler = []
    for place in places:
        paths_of_pooler.append(f"{place}.pooler.use")
        for key in _MODEL:
            paths_of_model.append(f"{place}.backbone.{key}")
    yield f"model{of}", model, paths_of_model
    yield f"pooler{of}", str(pooler.get("use", "")), paths_of_pooler


def _table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
