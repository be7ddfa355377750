"""The run that trained an encoder: its scores, data and versions, for the model card."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
from sentbed import DataError, Encoder, ModelError, RecipeError, RunError
from sentbed.errors import listed
from sentbed.helpers import read_file, sha256
from sentbed.protocols import Score
from sentbed.tools import (
    ENCODER_FILE,
    Document,
    load_plugins,
    structure_recipe,
    unstructure,
)
from sentbed_report.report_json import read_record, read_score
from sentbed_report.score_planes import base_name

REPORT, RECIPE = "report.json", "resolved.toml"


@attrs.frozen(eq=False)
class RunRecord:
    """The contents of a run directory that concern one encoder."""

    name: str
    status: str
    encoder: str
    """Name of the encoder in the run."""
    scores: tuple[Score, ...]
    """Scores that involve the encoder, before training (`NAME@start`) and after."""
    recipe: Mapping[str, Any]
    """The resolved recipe, as read from TOML."""
    manifest: Mapping[str, Any]
    compared: bool
    """Whether it is known that the encoder has the weights that the run saved."""


def record_of(encoder: Encoder, run: str | None = None) -> RunRecord | None:
    """Read the run directory `run`, by default the one that contains the encoder. Return None if there is none.

    Raises:
        RunError: if `run` is no run directory.
        ModelError: if the run did not train this encoder, or if it may be one of several encoders of the run.
    """
    source = encoder.source
    if source is not None:
        source = source.resolve()
    directory = _run_above(source)
    if run is not None:
        directory = Path(run)
    if directory is None:
        return None

    report, recipe, scores = _read(directory)
    name, compared = _name_in_run(encoder, source, recipe, directory)
    of_encoder = [score for score in scores if name in _names(score.encoder)]
    return RunRecord(
        name=str(report["name"]),
        status=str(report["status"]),
        encoder=name,
        scores=tuple(of_encoder),
        recipe=recipe,
        manifest=report["manifest"],
        compared=compared,
    )


def _run_above(source: Path | None) -> Path | None:
    """Return the run directory that contains `source` as `encoder` or `encoder/NAME`; None without one."""
    if source is None:
        return None
    for directory in source.parents[:2]:
        if (directory / REPORT).is_file() and (directory / RECIPE).is_file():
            return directory
    return None


def _name_in_run(
    encoder: Encoder,
    source: Path | None,
    recipe: Mapping[str, Any],
    directory: Path,
) -> tuple[str, bool]:
    """Return the encoder's name in the run, and whether it is known to have the weights that the run saved.

    Raises:
        ModelError: if the encoder can be none of the run's encoders, or any of several.
    """
    encoders = _encoders(recipe)
    equal = []
    unknown = []
    differences: dict[str, list[str]] = {}
    for name, table in encoders.items():
        saved = directory / "encoder"
        if "encoders" in recipe:
            saved /= name
        differences[name] = _differences(encoder, table, saved)
        if differences[name]:
            continue
        same_weights = _same_weights(source, saved)
        if same_weights:
            equal.append(name)
        elif same_weights is None:
            unknown.append(name)

    # Encoders with the same weights go before those whose weights cannot be compared.
    fitting = equal or unknown
    likely = next(iter(encoders))
    if source is not None and source.name in encoders:
        likely = source.name
    if not fitting:
        differs = listed(differences[likely]) or "their weights"
        raise ModelError(
            f"the run in `{directory}` is of another encoder: they differ in {differs}; name the "
            "encoder's own run with `--set run=DIRECTORY`, or move the encoder out of this directory"
        )
    if source is not None and source.name in fitting:
        return source.name, bool(equal)
    if len(fitting) > 1:
        raise ModelError(
            f"the encoder may be any of {listed(fitting)} of the run in `{directory}`; "
            "give its directory the name that the run gives it"
        )
    return fitting[0], bool(equal)


def parts_of(record: RunRecord) -> Any:
    """Return the run's recipe with its components.

    None means that the recipe is not valid here, for example because the plugin of a component is not installed.
    """
    try:
        return structure_recipe(
            Document(dict(record.recipe)), load_plugins(), Path.cwd(), check_files=False
        )
    except RecipeError:
        return None


def _read(directory: Path) -> tuple[dict[str, Any], dict[str, Any], list[Score]]:
    """Return report, recipe and scores of a run.

    Raises:
        RunError: if a file cannot be read, or lacks a key that the card reads.
    """
    try:
        report = read_record(directory / REPORT)
        recipe = _read_toml(directory / RECIPE)
        scores = [read_score(record) for record in report["scores"]]
        _require_keys(report, recipe)
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        DataError,
    ) as error:
        raise RunError(
            f"`{directory}` is not a run directory (it has no `{REPORT}` and `{RECIPE}` that can be read: "
            f"{type(error).__name__}: {error}); name a run directory"
        ) from error

    return report, recipe, scores


def _require_keys(report: Mapping[str, Any], recipe: Mapping[str, Any]) -> None:
    """Raise `KeyError`, `TypeError` or `AttributeError` if a key that the card reads is missing."""
    # Each of these expressions raises an error if its key is missing.
    for key in ("name", "status"):
        report[key]
    manifest = report["manifest"]
    for table in [*manifest.get("data", {}).values(), manifest.get("libraries", {})]:
        table.keys()
    for plugin in manifest.get("plugins", ()):
        plugin["distribution"], plugin["version"]
    for table in _encoders(recipe).values():
        table["backbone"]["use"], table["pooler"]["use"]
    for stage in recipe.get("stage", ()):
        stage["name"], stage["batch_size"], stage["data"]["use"], stage["loss"]["use"]


def _read_toml(file: Path) -> dict[str, Any]:
    return tomllib.loads(read_file(file).decode())


def _encoders(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables of a recipe's encoders, by name."""
    if "encoders" in recipe:
        return dict(recipe["encoders"])
    return {"encoder": recipe["encoder"]}


def _names(encoder: str) -> set[str]:
    """Return the names of the encoders that a score involves: `en@start` involves `en`, `en+zh` involves both."""
    return set(base_name(encoder).split("+"))


def _differences(
    encoder: Encoder,
    table: Mapping[str, Any],
    saved: Path,
) -> list[str]:
    """Return the keys in which an encoder differs from a table of the run's recipe.

    Of the backbone, only the name and the model are compared, since adapters may have been merged after the run.
    """
    encoder_table = unstructure(encoder.recipe)
    paths = {("backbone", "use"), ("backbone", "model")}
    for part in ("pooler", "head"):
        for key in (*encoder_table[part], *table.get(part, {})):
            paths.add((part, key))

    differing = []
    for part, key in sorted(paths):
        if encoder_table[part].get(key) != table.get(part, {}).get(key):
            differing.append(f"{part}.{key}")

    encoder_prompt = encoder_table.get("prompt", {})
    for key, value in _prompt(table.get("prompt", {}), saved).items():
        if encoder_prompt.get(key) != value:
            differing.append(f"prompt.{key}")

    differing.sort()
    if encoder_table["max_length"] != table.get("max_length"):
        differing.append("max_length")
    return differing


def _prompt(table: Mapping[str, Any], saved: Path) -> dict[str, Any]:
    """Return the fields of a prompt that are known. A template in a file is read from the run's saved encoder."""
    keys = ["template", "normalizer", "demonstration"]
    if "file" in table:
        try:
            table = _read_toml(saved / ENCODER_FILE)["prompt"]
        except (OSError, ValueError, KeyError, DataError):
            keys.remove("template")
    return {key: table.get(key) for key in keys}


def _same_weights(source: Path | None, saved: Path) -> bool | None:
    """Whether two saved encoders have the same weights; None if their files cannot be compared."""
    if source is None:
        return None
    if source == saved.resolve():
        return True
    try:
        backbone = _read_toml(source / ENCODER_FILE).get("backbone")
        saved_backbone = _read_toml(saved / ENCODER_FILE).get("backbone")
    except (OSError, ValueError, DataError):
        return None

    if backbone != saved_backbone:
        # For example, adapters were merged after the run.
        return None
    weights, saved_weights = _weights(source), _weights(saved)
    if not weights or not saved_weights:
        return None
    return weights == saved_weights


def _weights(directory: Path) -> dict[str, str]:
    return {
        str(file.relative_to(directory)): sha256(file)
        for file in directory.rglob("*.safetensors")
    }
