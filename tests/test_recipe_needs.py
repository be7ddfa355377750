"""The head of a paper's recipe says what it needs: models with their sizes, data, memory and time."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest
from paper_studies import PAPERS, ROOT, cells, files
from sentbed.tools import unstructure

MODELS: dict[str, dict[str, Any]] = tomllib.loads(
    (ROOT / "tests" / "papers" / "models.toml").read_text("utf-8")
)
FILES = [
    path
    for path in sorted(PAPERS.rglob("*.toml"))
    if "published" not in path.relative_to(PAPERS).as_posix()
]
RECIPES = files()
PARTS = ("models", "data", "memory", "time")
NAMES = [path.relative_to(PAPERS).as_posix() for path in RECIPES]


def needs(path):
    """Return what the head of a file says under `Needs:`, as one line; empty if it says nothing."""
    lines = path.read_text("utf-8").split("\n")
    starts = [i for i, line in enumerate(lines) if line.startswith("# Needs:")]
    assert len(starts) <= 1, path
    if not starts:
        return ""
    text = [lines[starts[0]].removeprefix("# Needs:").strip()]
    for line in lines[starts[0] + 1 :]:
        if not re.match(r"#  +\S", line):
            break
        text.append(line.removeprefix("#").strip())
    return " ".join(text)


def part(text, name):
    """Return one part of `Needs:`: what stands between its name and the next part's."""
    names = "|".join(("models", "data", "install", "memory", "time"))
    match = re.search(rf"(?:^|; ){name}: (.*?)(?=; (?:{names}): |$)", text)
    assert match is not None, (name, text)
    return match[1]


def sized(text):
    """Yield each model that is named with its size: id, size, and the kind of its file."""
    for group in re.finditer(r"((?:[\w./-]+ [\d.]+ GB(?:, )?)+) \(([^)]*)\)", text):
        for model in re.finditer(r"([\w./-]+) ([\d.]+) GB", group[1]):
            yield model[1], model[2], group[2]


@cache
def tables(name):
    """Return every cell of a recipe as a table."""
    recipes = cells(name.removesuffix(".toml")).values()
    return tuple(unstructure(recipe) for recipe in recipes)


def models_of(name):
    models = {
        encoder["backbone"].get("model", "pkg:none")
        for cell in tables(name)
        for encoder in cell["encoders"].values()
    }
    return {model for model in models if not model.startswith("pkg:")}


def locations(value):
    """Yield every `data:` and `hub:` location in a table."""
    if isinstance(value, str) and value.startswith(("data:", "hub:")):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from locations(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from locations(inner)


def named_models(name):
    """Return the models that a head names, or that a fragment beside it does to which the head points."""
    text = part(needs(PAPERS / name), "models")
    named = {model for model, _, _ in sized(text)}
    for fragment in re.findall(r"[\w-]+\.toml", text):
        listed = [
            model for model, _, _ in sized(needs((PAPERS / name).parent / fragment))
        ]
        of = re.search(
            rf"(?:([\w./-]+) to ([\w./-]+) of|those of|all of) {re.escape(fragment)}(?: from (\S+) up)?",
            text,
        )
        assert of is not None, text
        first = listed.index(of[1] or of[3] or listed[0])
        last = listed.index(of[2] or listed[-1])
        named.update(listed[first : last + 1])
    return named


def test_there_are_recipes_and_models():
    assert len(RECIPES) >= 60
    assert len(MODELS) > 30


@pytest.mark.parametrize("name", NAMES)
def test_the_head_says_what_the_recipe_needs(name):
    text = needs(PAPERS / name)
    assert all(part(text, each) for each in PARTS)


@pytest.mark.parametrize("name", NAMES)
def test_the_head_names_the_models_of_the_recipe_and_no_others(name):
    assert named_models(name) == models_of(name)


@pytest.mark.parametrize("name", NAMES)
def test_the_head_names_the_data_of_the_recipe(name):
    text = part(needs(PAPERS / name), "data")
    directories = tuple(
        f"data:{place.rstrip(',;')}" for place in re.findall(r"DIR/(\S+)", text)
    )
    for location in {location for cell in tables(name) for location in locations(cell)}:
        if location.startswith("hub:"):
            assert f"of the hub {location.removeprefix('hub:')}" in text
        else:
            assert location.startswith(directories), (location, text)


def test_sizes_kinds_and_gates_are_those_of_the_table():
    seen = set()
    for path in FILES:
        for model, size, kind in sized(needs(path)):
            entry = MODELS[model]
            gigabytes = entry["parameters"] * entry["bytes"] / 1e9
            assert size == (
                f"{gigabytes:.2f}" if gigabytes < 10 else f"{gigabytes:.1f}"
            ), (path, model)
            assert kind == ("gated, " if entry["gated"] else "") + entry["file"], (
                path,
                model,
            )
            seen.add(model)
    assert seen == set(MODELS)


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_the_parameters_are_those_of_the_architecture(model):
    import torch
    import transformers

    entry = MODELS[model]
    cls = getattr(transformers, entry["class"])
    with torch.device("meta"):
        module = cls(cls.config_class(**entry["config"]))
    # T5 1.1 has an output layer of its own, which this version of the library ties.
    untied = 32_128 * 768 if model == "google/t5-v1_1-base" else 0
    assert (
        sum(weights.numel() for weights in module.parameters()) + untied
        == entry["parameters"]
    )
