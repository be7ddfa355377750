"""What the head of a report says of a recipe: model, pooler, loss and seed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, TypeAlias

import tomli

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
    return tuple((name, text) for path, name, text in _facts(data) if text and not _is_varied(path, varied))


def _is_varied(path: str, varied: Collection[str]) -> bool:
    return any(f"{one}.".startswith(f"{path}.") or f"{path}.".startswith(f"{one}.") for one in varied)


def _facts(data: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield path, name and value of each fact."""
    several = data.get("encoders")
    encoders = {f"encoders.{name}": table for name, table in _table(several).items()}
    for path, encoder in (encoders or {"encoder": data.get("encoder")}).items():
        of = f" of {path.partition('.')[2]}" if len(encoders) > 1 else ""
        backbone, pooler = _table(_table(encoder).get("backbone")), _table(_table(encoder).get("pooler"))
        yield f"{path}.backbone", f"model{of}", _model(backbone)
        yield f"{path}.pooler", f"pooler{of}", str(pooler.get("use", ""))
    stages = data.get("stage")
    stages = stages if isinstance(stages, list) else []
    for index, stage in enumerate(stages):
        name = str(_table(stage).get("name", index))
        of = f" of {name}" if len(stages) > 1 else ""
        yield f"stage.{name}.loss", f"loss{of}", str(_table(_table(stage).get("loss")).get("use", ""))
    yield "run.seed", "seed", str(_table(data.get("run")).get("seed", ""))


def _model(backbone: Mapping[str, Any]) -> str:
    parts = [backbone.get("use"), backbone.get("model") or backbone.get("size")]
    parts += ["random weights"] if backbone.get("init") == "random" else []
    return ", ".join(str(part) for part in parts if part)


def _table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
