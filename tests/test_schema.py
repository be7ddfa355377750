"""The JSON Schema of recipes accepts every recipe of the project, and refuses what is wrong with one."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import jsonschema
import pytest
from sentbed._registry.registry import load_plugins

ROOT = Path(__file__).parent.parent
PROGRAM = Path(sys.executable).with_name("sentbed")
FILES = sorted(
    # `published.toml` is not of a recipe: it is what the papers' tables say.
    path.relative_to(ROOT).as_posix()
    for path in (ROOT / "recipes").rglob("*.toml")
    if path.name != "published.toml"
)


@pytest.fixture(scope="module")
def plugins():
    return load_plugins()


@pytest.fixture(scope="module")
def judge():
    printed = subprocess.run(
        [PROGRAM, "schema"], check=True, capture_output=True, text=True
    ).stdout
    schema = json.loads(printed)
    jsonschema.Draft7Validator.check_schema(schema)
    return jsonschema.Draft7Validator(schema)


def test_there_are_recipes_of_all_sorts():
    recipe_keys = [
        tomllib.loads((ROOT / file).read_text("utf-8")).keys() for file in FILES
    ]
    assert len(recipe_keys) > 90
    for sort in (
        "schema",
        "extends",
        "study",
        "encoders",
        "encoder",
        "expected",
        "stage",
    ):
        assert sum(sort in keys for keys in recipe_keys) > 0, sort
    assert sum("schema" not in keys for keys in recipe_keys) > 30


@pytest.mark.parametrize("file", FILES)
def test_every_recipe_is_accepted(file, judge):
    table = tomllib.loads((ROOT / file).read_text("utf-8"))
    assert [error.message for error in judge.iter_errors(table)] == []


MISTAKES = {
    "a misspelt key of a table": ("seed = 42", "sede = 42", "run"),
    "a misspelt key of a component": (
        "temperature = 0.05",
        "temprature = 0.05",
        "stage.0.loss",
    ),
    "a misspelt table": ("[runtime]", "[run_time]", ""),
    "a misspelt component": ('use = "mean"', 'use = "maen"', "encoder.pooler.use"),
    "a component of another kind": (
        'use = "info-nce"',
        'use = "adamw"',
        "stage.0.loss.use",
    ),
    "a component by its name alone": (
        'pooler = { use = "mean" }',
        'pooler = "mean"',
        "encoder.pooler",
    ),
    "a number in quotes": (
        "batch_size = 64",
        'batch_size = "64"',
        "stage.0.batch_size",
    ),
    "a fraction for a whole number": (
        "max_length = 64",
        "max_length = 64.5",
        "encoder.max_length",
    ),
    "true for a number": ("warmup = 0.1", "warmup = true", "stage.0.schedule.warmup"),
    "a number for true": (
        "normalize = true",
        "normalize = 1",
        "encoder.head.normalize",
    ),
    "a word for true": (
        "normalize = true",
        'normalize = "yes"',
        "encoder.head.normalize",
    ),
    "a temperature of the wrong kind": (
        "temperature = 0.05",
        "temperature = [0.05]",
        "stage.0.loss.temperature",
    ),
    "a word that is none of the choices": (
        'keep = "best"',
        'keep = "good"',
        "stage.0.validate.keep",
    ),
    "a string for an array": ('at = ["start", "end"]', 'at = "start"', "evaluate.0.at"),
    "a wrong element of an array": (
        'at = ["start", "end"]',
        'at = ["begin"]',
        "evaluate.0.at.0",
    ),
    "a stage that is no array": ("[[stage]]", "[stage]", "stage"),
    "two ways to name encoders": ("[runtime]", "[encoders.en]\n[runtime]", ""),
    "another version": ("schema = 1", "schema = 2", "schema"),
    "an expectation of no number": (
        "[[stage]]",
        '[expected]\nSTSB = { value = "80" }\n[[stage]]',
        "expected.STSB.value",
    ),
    "a table within a component that is not its": (
        'model = "pkg',
        'lora = { rank = 8 }, model = "pkg',
        "encoder.backbone.lora",
    ),
}
"""What is wrong -> the text of the quickstart, what it becomes, and where the fault is."""


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_refused_where_it_stands(name, judge):
    text = (ROOT / "recipes" / "quickstart.toml").read_text("utf-8")
    old, new, place = MISTAKES[name]
    assert old in text
    errors = list(judge.iter_errors(tomllib.loads(text.replace(old, new, 1))))
    assert place in {".".join(map(str, error.absolute_path)) for error in errors}


@pytest.mark.slow
def test_what_the_documentation_shows_is_what_the_commands_print(
    tmp_path,
):
    page = (ROOT / "docs" / "howto" / "write-recipes.md").read_text("utf-8")
    (recipe,) = re.findall(r"```toml\n(#:schema .+?)```", page, re.DOTALL)
    (tmp_path / "warmer.toml").write_text(recipe)
    subprocess.run(
        [PROGRAM, "new", "recipe", "base.toml"],
        check=True,
        cwd=tmp_path,
        capture_output=True,
    )
    blocks = re.findall(r"```console\n\$ sentbed (.+?)\n(.+?)```", page, re.DOTALL)
    assert len(blocks) == 3
    for command, printed in blocks:
        answer = subprocess.run(
            [PROGRAM, *command.split()],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (answer.stdout, answer.stderr) == (printed, ""), command
    schema = json.loads((tmp_path / "sentbed.schema.json").read_text())
    jsonschema.validate(tomllib.loads(recipe), schema)
