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
        is_varied = False
        for setting in varied_paths:
            is_varied |= f"{path}.".startswith(f"{setting}.")
            is_varied |= setting.startswith(f"{path}.")
        if value and not is_varied:
            facts.append((name, value))
    return tuple(facts)


def _facts(recipe: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield the name and the value of each fact, and the path of the recipe that determines it."""
    encoders = recipe.get("encoders") or {"encoder": recipe.get("encoder", {})}
    for name, encoder in encoders.items():
        suffix = f" of {name}" if len(encoders) > 1 else ""
        backbone = encoder.get("backbone", {})
        parts = [backbone.get("use"), backbone.get("model") or backbone.get("size")]
        if backbone.get("init") == "random":
            parts.append("random weights")
        model = ", ".join(filter(None, parts))
        yield f"model{suffix}", model, f"encoders.{name}.backbone"
        pooler = encoder.get("pooler", {}).get("use", "")
        yield f"pooler{suffix}", pooler, f"encoders.{name}.pooler.use"

    stages = recipe.get("stage", [])
    for index, stage in enumerate(stages):
        name = stage.get("name", index)
        suffix = f" of {name}" if len(stages) > 1 else ""
        loss = stage.get("loss", {}).get("use", "")
        yield f"loss{suffix}", loss, f"stage.{name}.loss.use"

    yield "seed", str(recipe.get("run", {}).get("seed", "")), "run.seed"
