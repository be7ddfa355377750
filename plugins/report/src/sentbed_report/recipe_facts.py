"""Main settings of a recipe, for the head of a report: model, pooler, loss and seed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import tomli

Fact: TypeAlias = tuple[str, str]
"""Name of a setting, such as `pooler`, and its value."""


def recipe_facts(recipe: str, varied: Iterable[str] = ()) -> tuple[Fact, ...]:
    """Return facts of a recipe (TOML text): each encoder's model and pooler, each stage's loss, and the seed.

    `varied` are paths of settings that differ between the cells of a study; facts that depend on them are left
    out. The result is empty if the text is not TOML.
    """
    varied_paths = []
    for path in varied:
        # `[encoder]` is short for `[encoders.encoder]`.
        if path.split(".")[0] == "encoder":
            varied_paths.append(f"encoders.{path}")
        else:
            varied_paths.append(path)

    try:
        content = tomli.loads(recipe)
    except tomli.TOMLDecodeError:
        return ()
    facts = []
    for name, value, path in _facts(content):
        if value and not _is_varied(path, varied_paths):
            facts.append((name, value))
    return tuple(facts)


def _is_varied(path: str, varied_paths: Iterable[str]) -> bool:
    """Whether a path of a recipe is a varied one, or one of the two is a part of the other."""
    for varied in varied_paths:
        if path == varied:
            return True
        if path.startswith(f"{varied}."):
            return True
        if varied.startswith(f"{path}."):
            return True
    return False


def _facts(recipe: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield the name and the value of each fact, and the path of the recipe that determines it."""
    encoders = recipe.get("encoders")
    if not encoders:
        encoders = {"encoder": recipe.get("encoder", {})}
    for name, encoder in encoders.items():
        suffix = ""
        if len(encoders) > 1:
            suffix = f" of {name}"
        yield f"model{suffix}", _model(encoder), f"encoders.{name}.backbone"
        yield f"pooler{suffix}", _used(encoder, "pooler"), f"encoders.{name}.pooler.use"

    stages = recipe.get("stage", [])
    for index, stage in enumerate(stages):
        name = stage.get("name", index)
        suffix = ""
        if len(stages) > 1:
            suffix = f" of {name}"
        yield f"loss{suffix}", _used(stage, "loss"), f"stage.{name}.loss.use"

    run = recipe.get("run", {})
    yield "seed", str(run.get("seed", "")), "run.seed"


def _model(encoder: Mapping[str, Any]) -> str:
    """Return an encoder's backbone: its component, its model or size, and whether its weights are random."""
    backbone = encoder.get("backbone", {})
    model = backbone.get("model") or backbone.get("size")
    parts = []
    for part in (_used(encoder, "backbone"), model):
        if part:
            parts.append(part)
    if backbone.get("init") == "random":
        parts.append("random weights")
    return ", ".join(parts)


def _used(table: Mapping[str, Any], kind: str) -> str:
    """Return the name of the component that a table uses for a kind; empty if it has none."""
    component = table.get(kind, {})
    name: str = component.get("use", "")
    return name
