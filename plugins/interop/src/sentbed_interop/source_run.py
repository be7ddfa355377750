"""The run that trained an encoder: its scores, data and versions, for the model card."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
from sentbed import Encoder, ModelError, RecipeError, RunError
from sentbed.errors import listed
from sentbed.helpers import foreign, read_json
from sentbed.protocols import START, Score
from sentbed.tools import (
    RESOLVED,
    Document,
    from_plain,
    load_plugins,
    structure_recipe,
)

REPORT = "report.json"


@attrs.frozen(eq=False)
class RunRecord:
    """The contents of a run directory that concern one encoder."""

    name: str
    status: str
    scores: tuple[Score, ...]
    """Scores that involve the encoder, before training (`NAME@start`) and after."""
    recipe: Mapping[str, Any]
    """The resolved recipe, as read from TOML."""
    manifest: Mapping[str, Any]


def record_of(encoder: Encoder, run: str | None = None) -> RunRecord | None:
    """Read the run directory `run`, by default the one that contains the encoder. Return None if there is none.

    Raises:
        RunError: if `run` is no run directory.
        ModelError: if the run has several encoders, and none has the name of the encoder's directory.
    """
    source = encoder.source
    if source is not None:
        source = source.resolve()
    directory = _run_above(source)
    if run is not None:
        directory = Path(run)
    if directory is None:
        return None

    with foreign(
        RunError, f"`{directory}` is not a run directory", "name a run directory"
    ):
        report = read_json(directory / REPORT)
        recipe = tomllib.loads((directory / RESOLVED).read_text("utf-8"))
        scores = from_plain(report["scores"], list[Score])

    name = _name_in_run(source, recipe)
    of_encoder = []
    for score in scores:
        # `en@start` involves the encoder `en`, and `en+zh` involves both.
        if name in score.encoder.removesuffix(START).split("+"):
            of_encoder.append(score)
    return RunRecord(
        name=str(report["name"]),
        status=str(report["status"]),
        scores=tuple(of_encoder),
        recipe=recipe,
        manifest=report["manifest"],
    )


def _run_above(source: Path | None) -> Path | None:
    """Return the run directory that contains `source` as `encoder` or `encoder/NAME`; None without one."""
    if source is None:
        return None
    for directory in source.parents[:2]:
        if (directory / REPORT).is_file() and (directory / RESOLVED).is_file():
            return directory
    return None


def _name_in_run(source: Path | None, recipe: Mapping[str, Any]) -> str:
    """Return the encoder's name in the run, which is that of its directory if the run has several encoders.

    Raises:
        ModelError: if none of several encoders has the name of the directory.
    """
    encoders = recipe.get("encoders")
    if encoders is None:
        return "encoder"
    if source is None or source.name not in encoders:
        raise ModelError(
            f"the run has the encoders {listed(encoders)}; give the encoder's directory the name that the run "
            "gives it"
        )
    return source.name


def parts_of(record: RunRecord) -> Any:
    """Return the run's recipe with its components.

    None means that the recipe is not valid here, for example because the plugin of a component is not installed.
    """
    try:
        return structure_recipe(Document.of(record.recipe), load_plugins(), Path.cwd())
    except RecipeError:
        return None
