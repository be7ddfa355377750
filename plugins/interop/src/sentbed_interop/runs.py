"""The run that an encoder comes from: what a model card says of scores, data and versions."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
from sentbed import Encoder, ModelError, RecipeError, RunError
from sentbed.protocols import Score

REPORT, RECIPE = "report.json", "resolved.toml"


@attrs.frozen(eq=False)
class RunRecord:
    """A run directory, as far as it speaks of one encoder."""

    name: str
    status: str
    encoder: str
    """What the run calls it."""
    scores: tuple[Score, ...]
    """Those that the encoder has part in, before training (`NAME@start`) and after."""
    recipe: Mapping[str, Any]
    """The resolved recipe, as TOML has it."""
    manifest: Mapping[str, Any]


def record_of(encoder: Encoder, run: str | None = None) -> RunRecord | None:
    """Read the run directory `run`, or the one that the encoder lies in; None where it lies in none.

    Raises:
        RunError: where `run` is no run directory.
        ModelError: where the run's encoder is another one.
    """
    place = None if encoder.source is None else encoder.source.resolve()
    if run is not None:
        directory = Path(run)
    else:
        # `encoder`, or `encoder/NAME` where the run has several.
        above = [] if place is None else [place.parent, *place.parents[1:2]]
        found = [one for one in above if (one / REPORT).is_file() and (one / RECIPE).is_file()]
        if not found:
            return None
        directory = found[0]
    report, recipe = _read(directory)
    encoders = _encoders(recipe)
    name = place.name if place is not None and place.name in encoders else next(iter(encoders))
    fitting = [one for one in encoders if not _differences(encoder, encoders[one])]
    if name not in fitting:
        if len(fitting) != 1:
            differs = ", ".join(f"`{path}`" for path in _differences(encoder, encoders[name]))
            raise ModelError(
                f"the run in `{directory}` is of another encoder: they differ in {differs}; name the "
                "encoder's own run with `--set run=DIRECTORY`, or take the encoder out of this directory"
            )
        name = fitting[0]
    return RunRecord(
        str(report["name"]),
        str(report["status"]),
        name,
        tuple(_score(one) for one in report["scores"] if name in _names(one["encoder"])),
        recipe,
        report["manifest"],
    )


def parts_of(record: RunRecord) -> Any:
    """Return the run's recipe with its components, or None where the plugins of one are not installed."""
    from sentbed.recipe import structure_recipe
    from sentbed.registry import load_plugins
    from sentbed.toml import Document

    try:
        return structure_recipe(Document(dict(record.recipe)), load_plugins(), Path.cwd(), look=False)
    except RecipeError:
        return None


def _read(directory: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    try:
        report = json.loads((directory / REPORT).read_bytes())
        recipe = tomllib.loads((directory / RECIPE).read_text("utf-8"))
        for key in ("name", "status", "scores", "manifest"):
            report[key]
        _encoders(recipe)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(
            f"`{directory}` is not a run directory (it has no `{REPORT}` and `{RECIPE}` that can be read); "
            "name one"
        ) from error
    return report, recipe


def _encoders(recipe: Mapping[str, Any]) -> dict[str, Any]:
    return dict(recipe["encoders"]) if "encoders" in recipe else {"encoder": recipe["encoder"]}


def _names(encoder: str) -> set[str]:
    """The encoders that a score speaks of: `en@start` is of `en`, `en+zh` of both."""
    return {name.removesuffix("@start") for name in encoder.removesuffix("@start").split("+")}


def _differences(encoder: Encoder, table: Mapping[str, Any]) -> list[str]:
    """Return where the encoder is not the one of this table. Adapters may have been merged since."""
    from sentbed.structure import unstructure

    own = unstructure(encoder.recipe)
    paths = [("backbone", key) for key in ("use", "model")]
    paths += [(part, key) for part in ("pooler", "head") for key in {*own[part], *table.get(part, {})}]
    unlike = [
        ".".join((part, key)) for part, key in paths if own[part].get(key) != table.get(part, {}).get(key)
    ]
    return sorted(unlike) + (["max_length"] if own["max_length"] != table.get("max_length") else [])


def _score(record: Mapping[str, Any]) -> Score:
    value = math.nan if record["value"] is None else float(record["value"])
    names = ("task", "metric", "protocol", "encoder", "evaluator")
    return Score(value=value, **{name: record[name] for name in names})
