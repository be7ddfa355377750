"""What the head of a report says of a recipe: model, pooler, loss and seed."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import tomli

_MODEL = ("use", "model", "size", "init")
"""Keys of a backbone that make its model."""

Fact: TypeAlias = tuple[str, str]
"""What it is, such as `pooler`, and which."""


def recipe_facts(recipe: str, varied: Collection[str] = ()) -> tuple[Fact, ...]:
    """Return model and pooler of each encoder, the loss of each stage and the seed of a recipe as TOML.

    What a path of `varied` sets is left out: it differs from cell to cell. A text that is no recipe has no
    facts.
    """
    try:
        data = tomli.loads(recipe)
    except tomli.TOMLDecodeError:
        return ()
    return tuple(
        (name, text)
        for name, text, paths in _facts(data)
        if text and not any(f"{path}.".startswith(f"{one}.") for path in paths for one in varied)
    )


def axis_paths(recipe: str) -> tuple[str, ...]:
    """Return the paths that the axes of a study's recipe set, with stages by name; empty if it is none."""
    try:
        data = tomli.loads(recipe)
    except tomli.TOMLDecodeError:
        return ()
    found: list[str] = []
    for axis in _table(_table(data.get("study")).get("axes")).values():
        path = _table(axis).get("path")
        if isinstance(path, str | list):
            found += [path] if isinstance(path, str) else map(str, path)
        else:
            found += [one for setting in _table(axis).values() for one in _leaves(_table(setting))]
    stages = data.get("stage")
    for index, stage in enumerate(stages if isinstance(stages, list) else ()):
        name = _table(stage).get("name", index)
        found = [re.sub(rf"^stage\.{index}(?=\.|$)", f"stage.{name}", path) for path in found]
    return tuple(dict.fromkeys(found))


def _leaves(setting: Mapping[str, Any]) -> Iterator[str]:
    """Yield the paths of a label's values; one that is not quoted is nested tables."""
    for key, value in setting.items():
        if "." in key or not isinstance(value, Mapping) or not value:
            yield key
        else:
            yield from (f"{key}.{rest}" for rest in _leaves(value))


def _facts(data: Mapping[str, Any]) -> Iterator[tuple[str, str, Sequence[str]]]:
    """Yield name and value of each fact, and the paths of the recipe that make it."""
    several = data.get("encoders")
    encoders = {f"encoders.{name}": table for name, table in _table(several).items()}
    for path, encoder in (encoders or {"encoder": data.get("encoder")}).items():
        of = f" of {path.partition('.')[2]}" if len(encoders) > 1 else ""
        backbone, pooler = _table(_table(encoder).get("backbone")), _table(_table(encoder).get("pooler"))
        # `[encoder]` is short for `[encoders.encoder]`, as it is told where recipes differ.
        places = [path, f"encoders.{path}"] if path == "encoder" else [path]
        yield f"model{of}", _model(backbone), [f"{p}.backbone.{key}" for p in places for key in _MODEL]
        yield f"pooler{of}", str(pooler.get("use", "")), [f"{p}.pooler.use" for p in places]
    stages = data.get("stage")
    stages = stages if isinstance(stages, list) else []
    for index, stage in enumerate(stages):
        name = str(_table(stage).get("name", index))
        of = f" of {name}" if len(stages) > 1 else ""
        loss = str(_table(_table(stage).get("loss")).get("use", ""))
        yield f"loss{of}", loss, [f"stage.{name}.loss.use"]
    yield "seed", str(_table(data.get("run")).get("seed", "")), ["run.seed"]


def _model(backbone: Mapping[str, Any]) -> str:
    parts = [backbone.get("use"), backbone.get("model") or backbone.get("size")]
    parts += ["random weights"] if backbone.get("init") == "random" else []
    return ", ".join(str(part) for part in parts if part)


def _table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
