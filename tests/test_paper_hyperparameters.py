"""Every encoder and every stage of the papers' recipes has the settings that its paper prints."""

from __future__ import annotations

import re
import tomllib
from fnmatch import fnmatchcase
from functools import cache
from itertools import takewhile
from typing import Any

import pytest
from paper_settings import encoders, recipes, stages
from paper_studies import PAPERS, ROOT, cells, files, name_of

PRINTED: dict[str, Any] = tomllib.loads(
    (ROOT / "tests" / "papers" / "hyperparameters.toml").read_text("utf-8")
)
ABOUT = ("of", "like", "paper", "labels")
"""What an entry of `[training]` says besides its settings."""
SETTINGS = (
    *(
        "data",
        "rows",
        "loss",
        "temperature",
        "queue",
        "optimizer",
        "scale_parameter",
        "learning_rate",
    ),
    *(
        "weight_decay",
        "max_grad_norm",
        "schedule",
        "warm_up",
        "batch_size",
        "epochs",
        "max_length",
        "dropout",
        "lora",
    ),
    *("weights", "validate_every", "validate_on", "seed"),
)
"""Settings of a stage, `rows` of the paper's data among them."""
PARTS = ("backbone", "pooler", "head", "weights", "demonstration")
"""Settings of an encoder."""

MINI = (
    "../mini/minilm-simcse",
    "../mini/prompteol",
    "../mini/sentbench",
    "../mini/sentence-t5",
    "../mini/translation-modes",
    "../mini/translation-pairs",
    "../mini/translation-pairs-bert-base",
    "../mini/studies/demonstrations",
    "../mini/studies/prompteol",
    "../mini/studies/sentbench",
    "../mini/studies/sentence-t5",
    "../mini/studies/translation-pairs",
)
"""Small recipes that stand for those of the papers."""


@cache
def training(name):
    """Return an entry of `[training]` with what it takes from the one that it is like."""
    entry = PRINTED["training"][name]
    return {**training(entry["like"]), **entry} if "like" in entry else entry


def matches(subject, entry):
    return any(fnmatchcase(subject, pattern) for pattern in entry["of"])


def deviations(subject):
    yield from (entry for entry in PRINTED["deviation"] if matches(subject, entry))


def printed(subject, name):
    """Return the settings of a stage as the paper prints them, without `rows`."""
    entry = training(name)
    values = {setting: entry[setting][0] for setting in SETTINGS if setting != "rows"}
    labels = dict(
        zip(entry.get("labels", ()), subject.split(": ")[1].split(", "), strict=False)
    )
    for setting, label in labels.items():
        if setting in values:
            values[setting] = (
                float(label) * {"8 x label": 8, "label": 1}[values[setting]]
            )
    return values


def with_deviations(subject, values):
    """Return what a recipe is to have. Each deviation is one from the paper's value."""
    settings = dict(values)
    for entry in deviations(subject):
        if entry["setting"] in settings:
            assert settings[entry["setting"]] != entry["is"], (subject, entry)
            settings[entry["setting"]] = entry["is"]
    return settings


def test_recipes_encoders_and_stages_are_found():
    assert min(len(recipes()), len(encoders()), len(stages())) > 100


def test_every_setting_of_a_training_has_a_value_and_its_place():
    places = ("section", "appendix", "table", "footnote", "released", "not printed")
    for name in PRINTED["training"]:
        entry = training(name)
        assert set(entry) - set(ABOUT) == set(SETTINGS), name
        for setting in SETTINGS:
            value, where = entry[setting]
            assert value != "", (name, setting)
            assert where.startswith(places), (name, setting)


def test_every_stage_has_the_hyperparameters_of_one_training():
    wrong = {}
    for subject, settings in stages().items():
        names = [
            name
            for name, entry in PRINTED["training"].items()
            if matches(subject, entry)
        ]
        assert len(names) == 1, (subject, names)
        expected = with_deviations(subject, printed(subject, names[0]))
        if different := {
            key: (settings[key], value)
            for key, value in expected.items()
            if settings[key] != value
        }:
            wrong[subject] = different
    assert wrong == {}


@pytest.mark.parametrize("part", PARTS)
def test_every_encoder_is_made_of_what_the_paper_says(part):
    wrong = {}
    for subject, settings in encoders().items():
        values = [entry["is"] for entry in PRINTED[part] if matches(subject, entry)]
        if part == "demonstration" and not values:
            values = ["none"]
        assert len(values) == 1, (subject, values)
        expected = with_deviations(subject, {part: values[0]})[part]
        if settings[part] != expected:
            wrong[subject] = (settings[part], expected)
    assert wrong == {}


@pytest.mark.parametrize("part", [*PARTS, "deviation"])
def test_every_pattern_of_the_table_is_of_a_recipe(part):
    for entry in PRINTED[part]:
        assert entry["why" if part == "deviation" else "where"]
        for pattern in entry["of"]:
            assert any(
                fnmatchcase(subject, pattern) for subject in (*stages(), *encoders())
            ), pattern


def head(file):
    """Return the comments on top of a recipe and of its bases, without the signs of comments."""
    text = file.read_text("utf-8")
    lines = list(takewhile(lambda line: line.startswith("#"), text.splitlines()))
    bases = tomllib.loads(text).get("extends", [])
    for base in [bases] if isinstance(bases, str) else bases:
        lines += head(file.parent / base)
    return lines


def in_one_line(comments):
    return " ".join(" ".join(comments).replace("#", " ").split())


def statements(recipe):
    """Yield the settings that papers seldom print, in the words in which a head states them."""
    yield f"precision {recipe.runtime.precision}"
    for encoder in recipe.encoders.values():
        yield f"evaluated at {encoder.max_length} tokens"
    for stage in recipe.stage:
        yield f"clipping {stage.max_grad_norm:g}"
        yield f"weight decay {stage.optimizer.weight_decay:g}"


@pytest.mark.parametrize("name", [*map(name_of, files()), *MINI])
def test_the_head_of_a_recipe_states_what_papers_seldom_print(name):
    comments = in_one_line(head(PAPERS / f"{name}.toml"))
    unstated = set()
    for recipe in cells(name).values():
        for statement in statements(recipe):
            pattern = rf"{re.escape(statement)} \((printed|released code|ours)\b"
            if recipe.evaluate and not re.search(pattern, comments):
                unstated.add(statement)
    assert unstated == set()
