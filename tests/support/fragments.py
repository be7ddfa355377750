"""What a page shows, read as what it is: parts of recipes, commands, Python."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import click
from sentbed._cli.main import main
from sentbed._recipe.load import structure_recipe
from sentbed._toml import Document, parse
from sentbed.errors import RecipeError
from sentbed.protocols import EncoderRecipe, Recipe, Stage

ENCODER: Mapping[str, Any] = {
    "backbone": {"use": "bert", "init": "random"},
    "pooler": {"use": "mean"},
}
STAGE: Mapping[str, Any] = {
    "name": "shown",
    "data": {"use": "sample"},
    "loss": {"use": "info-nce"},
    "optimizer": {"use": "adamw", "lr": 1e-4},
    "schedule": {"use": "constant"},
    "batch_size": 8,
}
WHOLE: Mapping[str, Any] = {
    "schema": 1,
    "run": {"name": "shown"},
    "runtime": {"use": "cpu"},
}

OTHER_TOML = {
    "pyproject": {"build-system", "project", "tool", "dependency-groups"},
    "taplo": {"include", "exclude", "schema", "rule", "formatting"},
}
"""The first keys of files that are no recipes; they are parsed, and that is all."""


def _keys(cls):
    return {field.metadata.get("key", field.name) for field in attrs.fields(cls)}


def toml_faults(text, plugins):
    """Return what is wrong with a recipe, or with a part of one put into the place where it belongs."""
    try:
        data = dict(parse(text.encode()).data)
    except RecipeError as error:
        return [str(error)]
    top = set(data)
    if any(top <= first_keys for first_keys in OTHER_TOML.values()) and not isinstance(
        data.get("schema"), int
    ):
        tomllib.loads(text)
        return []
    bases = data.pop("extends", None)
    keys_of_recipe = {
        *_keys(Recipe),
        "encoder",
        *plugins.names("recipe table"),
    }
    for name in list(data):
        if name in keys_of_recipe:
            continue

        if name in _keys(EncoderRecipe):
            place = "encoder"
        elif name in _keys(Stage):
            place = "stage"
        else:
            return [f"`{name}` is no key of a recipe, an encoder or a stage"]

        # Parts of a recipe that stand alone in a text are put where they belong.
        table = data.setdefault(place, {})
        table[name] = data.pop(name)

    stages = data.get("stage", [])
    if isinstance(stages, Mapping):
        stages = [stages]
    data["stage"] = [_filled(stage, STAGE) for stage in stages]
    for stage in data["stage"]:
        if not {"epochs", "steps"} & set(stage):
            stage["epochs"] = 1
    if "encoders" in data:
        data["encoders"] = {
            name: _filled(part, ENCODER) for name, part in data["encoders"].items()
        }
    else:
        data["encoder"] = _filled(data.get("encoder", {}), ENCODER)
    if "study" in data:
        data["study"] = _filled(
            data["study"], {"axes": {"a": {"path": "run.name", "values": ["b"]}}}
        )
    if bases is not None and not isinstance(bases, str | list):
        return ["`extends` names a file, or several"]
    document = Document.of(_filled(data, WHOLE))
    try:
        structure_recipe(document, plugins, Path.cwd())
    except RecipeError as error:
        return [str(problem) for problem in error.problems]
    return []


def _filled(shown, whole):
    """Return what is shown, with what it leaves out; of a component under another `use`, nothing is added."""
    filled = dict(shown)
    for key, value in whole.items():
        shown_value = filled.get(key)
        if shown_value is None:
            filled[key] = value
        elif isinstance(shown_value, Mapping) and isinstance(value, Mapping):
            same = shown_value.get("use", value.get("use")) == value.get("use")
            # A model of another origin replaces the random one.
            defaults = {
                k: v
                for k, v in value.items()
                if not (k == "init" and "model" in shown_value)
            }
            filled[key] = {**defaults, **shown_value} if same else shown_value
    return filled


# --- commands ---------------------------------------------------------------------------------------------


def commands(text):
    """Yield the commands of a block: lines after `$ `, or all of them; `\\` at the end joins lines."""
    joined = re.sub(r"\\\n\s*", "", text)
    lines = [
        line
        for line in joined.splitlines()
        if line.strip() and not line.lstrip().startswith("#")
    ]
    prompted = [line.strip()[2:] for line in lines if line.strip().startswith("$ ")]
    yield from prompted or lines


def understood(words, plugins):
    """Return the command that the arguments of `sentbed` name, and its parameters; None if they name none.

    Raises `click.ClickException` if they are wrong.
    """
    command = main
    context = click.Context(main, info_name="sentbed", **main.context_settings)
    while isinstance(command, click.Group):
        _, words, _ = command.make_parser(context).parse_args(list(words))
        if not words:
            return None
        if command is main and words[0] in plugins.names("command"):
            # Also of a plugin that is not installed, such as an example.
            name, *words = words
            subcommand = plugins.load("command", name)
        else:
            name, subcommand, words = command.resolve_command(context, words)

        assert subcommand is not None
        command = subcommand
        context = click.Context(subcommand, info_name=name, parent=context)
    filled = command.make_context(context.info_name, list(words), parent=context.parent)
    path = filled.command_path.removeprefix("sentbed ")
    return path, filled.params


# --- Python -----------------------------------------------------------------------------------------------
