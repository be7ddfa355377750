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
    """Return facts of a recipe (TOML text): each encoder's model and pooler, each stage's loss, and the seed.

    `varied` are paths of settings that differ between the cells of a study; facts that depend on them are left
    out. The result is empty if the text is not a recipe.
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
    """Whether any path in `varied` is one of `paths`, or is a table that contains one of them."""
    for path in paths:
        for setting in varied:
            if path == setting or path.startswith(f"{setting}."):
                return True
    return False


def _facts(data: Mapping[str, Any]) -> Iterator[tuple[str, str, Sequence[str]]]:
    """Yield the name and the value of each fact, and the paths of the recipe that determine it."""
    encoders = _table(data.get("encoders"))
    if not encoders:
        # `[encoder]` is short for `[encoders.encoder]`, and the differences of recipes have the long path.
        places = ["encoder", "encoders.encoder"]
        yield from _facts_of_encoder(data.get("encoder"), "", places)
    for name, encoder in encoders.items():
        suffix = ""
        if len(encoders) > 1:
            suffix = f" of {name}"
        yield from _facts_of_encoder(encoder, suffix, [f"encoders.{name}"])

    stages = data.get("stage")
    if not isinstance(stages, list):
        stages = []
    for index, stage in enumerate(map(_table, stages)):
        name = stage.get("name", index)
        suffix = ""
        if len(stages) > 1:
            suffix = f" of {name}"
        loss = _table(stage.get("loss"))
        yield f"loss{suffix}", str(loss.get("use", "")), [f"stage.{name}.loss.use"]

    run = _table(data.get("run"))
    yield "seed", str(run.get("seed", "")), ["run.seed"]


def _facts_of_encoder(
    encoder: Any,
    suffix: str,
    places: Sequence[str],
) -> Iterator[tuple[str, str, Sequence[str]]]:
    """Yield model and pooler of the encoder at `places`, which are equivalent paths in the recipe.

    `suffix` ends the names of the facts; it names the encoder if there are several.
    """
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
    yield f"model{suffix}", model, paths_of_model
    yield f"pooler{suffix}", str(pooler.get("use", "")), paths_of_pooler


def _table(value: Any) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return value
    return {}
