"""The run that an encoder comes from, with scores, data and versions for its model card."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
from sentbed import DataError, Encoder, ModelError, RecipeError, RunError
from sentbed.helpers import read_file, sha256
from sentbed.protocols import Score
from sentbed.tools import ENCODER_FILE, with_absolute_paths
from sentbed_report.report_json import read_record, read_score
from sentbed_report.score_planes import base_name

REPORT, RECIPE = "report.json", "resolved.toml"


@attrs.frozen(eq=False)
class RunRecord:
    """The part of a run directory that concerns one encoder."""

    name: str
    status: str
    encoder: str
    """Name of the encoder in the run."""
    scores: tuple[Score, ...]
    """Scores that involve the encoder, before training (`NAME@start`) and after."""
    recipe: Mapping[str, Any]
    """The resolved recipe, as TOML has it."""
    manifest: Mapping[str, Any]
    compared: bool
    """Whether the weights are known to be those that the run has saved."""


def record_of(encoder: Encoder, run: str | None = None) -> RunRecord | None:
    """Read the run directory `run`, or the one that contains the encoder; None if there is none.

    Raises:
        RunError: if `run` is no run directory.
        ModelError: if the run's encoder is another one, or it may be one of several.
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
    report, recipe, scores = _read(directory)
    encoders = _encoders(recipe)
    name = place.name if place is not None and place.name in encoders else next(iter(encoders))
    saved = {one: directory / "encoder" / (one if "encoders" in recipe else "") for one in encoders}
    differences = {one: _differences(encoder, table, saved[one]) for one, table in encoders.items()}
    same = {one: _same_weights(place, saved[one]) for one in encoders if not differences[one]}
    fitting = [one for one in same if same[one]] or [one for one in same if same[one] is None]
    if not fitting:
        differs = ", ".join(f"`{path}`" for path in differences[name]) or "their weights"
        raise ModelError(
            f"the run in `{directory}` is of another encoder: they differ in {differs}; name the "
            "encoder's own run with `--set run=DIRECTORY`, or take the encoder out of this directory"
        )
    if len(fitting) > 1 and (place is None or place.name not in fitting):
        named = ", ".join(f"`{one}`" for one in fitting)
        raise ModelError(
            f"the encoder may be any of {named} of the run in `{directory}`; "
            "give its directory the name that the run gives it"
        )
    name = name if name in fitting else fitting[0]
    return RunRecord(
        str(report["name"]),
        str(report["status"]),
        name,
        tuple(score for score in scores if name in _names(score.encoder)),
        recipe,
        report["manifest"],
        bool(same[name]),
    )


def parts_of(record: RunRecord) -> Any:
    """Return the run's recipe with its components, or None if the plugins of one are not installed."""
    from sentbed.tools import Document, load_plugins, structure_recipe

    try:
        return structure_recipe(Document(dict(record.recipe)), load_plugins(), Path.cwd(), look=False)
    except RecipeError:
        return None


def _read(directory: Path) -> tuple[dict[str, Any], dict[str, Any], list[Score]]:
    """Return report, recipe and scores; what the card reads of them is there."""
    try:
        report = read_record(directory / REPORT)
        recipe = _read_toml(directory / RECIPE)
        for key in ("name", "status"):
            report[key]
        scores = [read_score(one) for one in report["scores"]]
        manifest = report["manifest"]
        for table in [*manifest.get("data", {}).values(), manifest.get("libraries", {})]:
            table.keys()
        for plugin in manifest.get("plugins", ()):
            plugin["distribution"], plugin["version"]
        for table in _encoders(recipe).values():
            table["backbone"]["use"], table["pooler"]["use"]
        for stage in recipe.get("stage", ()):
            stage["name"], stage["batch_size"], stage["data"]["use"], stage["loss"]["use"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, DataError) as error:
        raise RunError(
            f"`{directory}` is not a run directory (it has no `{REPORT}` and `{RECIPE}` that can be read: "
            f"{type(error).__name__}: {error}); name one"
        ) from error
    return report, recipe, scores


def _read_toml(file: Path) -> dict[str, Any]:
    table: dict[str, Any] = with_absolute_paths(tomllib.loads(read_file(file).decode()), file.parent)
    return table


def _encoders(recipe: Mapping[str, Any]) -> dict[str, Any]:
    return dict(recipe["encoders"]) if "encoders" in recipe else {"encoder": recipe["encoder"]}


def _names(encoder: str) -> set[str]:
    """Return the encoders that a score involves: `en@start` is of `en`, `en+zh` of both."""
    return set(base_name(encoder).split("+"))


def _differences(encoder: Encoder, table: Mapping[str, Any], saved: Path) -> list[str]:
    """Return where the encoder is not the one of this table. Adapters may have been merged since."""
    from sentbed.tools import unstructure

    own = unstructure(encoder.recipe)
    paths = [("backbone", key) for key in ("use", "model")]
    paths += [(part, key) for part in ("pooler", "head") for key in {*own[part], *table.get(part, {})}]
    unlike = [
        ".".join((part, key)) for part, key in paths if own[part].get(key) != table.get(part, {}).get(key)
    ]
    theirs = _prompt(table.get("prompt", {}), saved)
    unlike += [f"prompt.{key}" for key, value in theirs.items() if own.get("prompt", {}).get(key) != value]
    return sorted(unlike) + (["max_length"] if own["max_length"] != table.get("max_length") else [])


def _prompt(table: Mapping[str, Any], saved: Path) -> dict[str, Any]:
    """Return what is known of the prompt; the run's saved encoder has what was in a file then."""
    keys = ["template", "normalizer", "demonstration"]
    if "file" in table:
        try:
            table = _read_toml(saved / ENCODER_FILE)["prompt"]
        except (OSError, ValueError, KeyError, DataError):
            keys.remove("template")
    return {key: table.get(key) for key in keys}


def _same_weights(source: Path | None, saved: Path) -> bool | None:
    """Whether two saved encoders have the same weights; None if that cannot be told from their files."""
    if source is None:
        return None
    if source == saved.resolve():
        return True
    tables = []
    for directory in (source, saved):
        try:
            tables.append(_read_toml(directory / ENCODER_FILE).get("backbone"))
        except (OSError, ValueError, DataError):
            return None
    if tables[0] != tables[1]:
        # Such as adapters that have been merged since.
        return None
    own, theirs = _weights(source), _weights(saved)
    return own == theirs if own and theirs else None


def _weights(directory: Path) -> dict[str, str]:
    return {str(file.relative_to(directory)): sha256(file) for file in directory.rglob("*.safetensors")}
