"""The recipes of papers that train have the settings of their papers."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import attrs
import pytest
import sentbed
from sentbed.tools import unstructure
from sentbed_studies.study import read_study

pytestmark = pytest.mark.slow

PAPERS = Path(__file__).parent.parent / "recipes" / "papers"
RECIPES = {
    path.stem: path
    for path in sorted(PAPERS.glob("*.toml"))
    if "stage" in tomllib.loads(path.read_text("utf-8"))
}

SETTINGS: dict[str, dict[str, Any]] = {
    "angle-bert-base": {
        "stage.nli.validate.keep": "best",
        "stage.nli.loss.weights": [0.5, 0.5, 0.02],
        "stage.nli.loss.losses.0.use": "info-nce",
        "stage.nli.loss.losses.0.temperature": 0.05,
        "stage.nli.loss.losses.0.hard_negatives": "none",
        "stage.nli.loss.losses.1.use": "info-nce",
        "stage.nli.loss.losses.1.temperature": 0.05,
        "stage.nli.loss.losses.1.hard_negatives": "batch",
        "stage.nli.loss.losses.2.use": "angle",
        "stage.nli.loss.losses.2.temperature": 0.05,
        "stage.nli.loss.losses.2.rows": "triplets",
    },
    "pcc-tuning-llama2-7b": {
        "encoder.backbone.use": "causal",
        "encoder.backbone.quantization": "nf4",
        "encoder.backbone.lora.targets": "all-linear",
        "stage.nli.loss.symmetric": False,
        "stage.nli.validate.keep": "best",
        "stage.nli.batch_size": 248,
        "stage.nli.max_length": 32,
        "stage.nli.epochs": 1,
        "stage.pcc.loss.use": "pearson",
        "stage.pcc.validate.keep": "best",
        "stage.pcc.batch_size": 216,
        "stage.pcc.max_length": 64,
        "stage.pcc.epochs": 10,
        "stage.pcc.data.sources.0.use": "scored",
        "stage.pcc.data.sources.0.rescale": False,
        "stage.pcc.data.sources.1.use": "scored",
        "stage.pcc.data.sources.1.rescale": False,
    },
    "prompteol-opt-6.7b-qlora": {
        "encoder.backbone.use": "opt",
        "encoder.backbone.lora.targets": "all-linear",
        "stage.nli.validate.keep": "best",
        "stage.nli.normalize_text": False,
    },
    "sentbench-bert-base": {
        "encoder.max_length": 512,
        "stage.train.validate.keep": "best",
        "stage.train.data.limit": 1_000_000,
    },
    "sentence-t5-base": {
        "encoder.head.bias": False,
        "stage.nli.validate.keep": "best",
        "evaluate.3.protocols": ["st5", "wang-isola"],
    },
    "sentence-t5-classification": {
        "encoder.head.bias": False,
        "stage.nli.validate.keep": "best",
        "stage.nli.data.build": "labelled",
        "stage.nli.loss.product": False,
    },
    "simcse-sup-bert-base": {
        "encoder.max_length": 512,
        "stage.nli.loss.symmetric": False,
        "stage.nli.validate.keep": "best",
    },
    "simcse-unsup-bert-base": {
        "encoder.max_length": 512,
        "stage.wiki.loss.symmetric": False,
        "stage.wiki.validate.keep": "best",
    },
    "translation-pairs-bert-base": {
        "stage.a.train": ["zh"],
        "stage.a.freeze": ["source"],
        "stage.nli-zh.train": ["zh"],
        "stage.nli-zh.validate.keep": "best",
        "stage.b.train": ["en"],
        "stage.b.freeze": ["zh"],
        "stage.b.watch.0.every": 100,
        "stage.b.watch.0.with.task": "STSB-dev",
        "stage.b.watch.1.second": "zh",
        "stage.b.watch.1.with.pairs": 1000,
        "stage.b.watch.1.with.positives": 250,
        "stage.nli-en.train": ["en"],
        "stage.nli-en.validate.keep": "best",
    },
}
"""The values of the papers, written down from them and not from the recipes, but for those that
`papers/hyperparameters.toml` has."""

TABLE_5 = ["stage.b.loss.size=0", "stage.b.batch_size=1024"]
VARIATIONS = {
    "sentbench-bert-base": [
        ['stage.train.data={ use = "dropout", path = "a.txt" }'],
        ['stage.train.loss={ use = "classification" }'],
        ["encoder.backbone.model=roberta-base"],
    ],
    "sentence-t5-base": [
        ["encoder.pooler.use=first"],
        ["encoder.pooler.use=decoder"],
        ["stage.nli.weights.encoder=pretrained"],
        ["encoder.backbone.model=t5-large", "stage.qa.micro_batch=32"],
    ],
    "sentence-t5-classification": [["stage.nli.loss.product=true"]],
    "translation-pairs-bert-base": [
        TABLE_5,
        [*TABLE_5, 'stage.b.train=["en", "zh"]', "stage.b.freeze="],
        [
            *TABLE_5,
            'stage.b.columns={ anchor = "en", positive = "en" }',
            "stage.b.freeze=",
        ],
    ],
}
"""What the heads of the recipes offer to set."""


def test_every_recipe_that_trains_has_its_settings_here():
    assert list(RECIPES) == list(SETTINGS)


def load(name, settings=()):
    """Load a recipe without a look at its files."""
    return sentbed.load_recipe(RECIPES[name], settings, check_files=False)


def at(table, path):
    """Return the value at a dotted path; elements of a list are found by number or by name."""
    for key in path.split("."):
        if isinstance(table, list):
            by_key = dict(zip(map(str, range(len(table))), table, strict=True))
            by_key |= {item["name"]: item for item in table if "name" in item}
            table = by_key[key]
        else:
            table = table[key]
    return table


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_has_the_other_settings_of_its_paper(name):
    recipe = unstructure(load(name))
    recipe["encoder"] = recipe["encoders"].get("encoder")
    assert {path: at(recipe, path) for path in SETTINGS[name]} == SETTINGS[name]


@pytest.mark.parametrize("name", VARIATIONS)
def test_what_the_head_of_a_recipe_offers_to_set_passes_check(name):
    for settings in VARIATIONS[name]:
        assert load(name, settings) != load(name)


def test_stages_that_a_study_repeats_are_those_of_the_recipes():
    cells = {
        c.name: c.recipe
        for c in read_study(
            PAPERS / "sentence-t5" / "table-2.toml", check_files=False
        ).runs
    }
    base = load("sentence-t5-base")
    assert cells["cqa+nli, base, t5, mean"].stage == base.stage
    assert cells["nli, base, t5, mean"].stage == base.stage[1:]
    (simcse,) = load("simcse-sup-bert-base").stage
    assert cells["simcse, base, bert, cls-mlp"].stage == (simcse,)
    table_2 = read_study(
        PAPERS / "translation-pairs" / "table-2.toml", check_files=False
    ).runs
    (cell,) = (cell.recipe for cell in table_2 if cell.name == "BERT base, WMT, NLI")
    pairs = load("translation-pairs-bert-base")
    assert pairs.encoders == cell.encoders
    assert (
        tuple(attrs.evolve(stage, micro_batch=None, watch=()) for stage in pairs.stage)
        == cell.stage
    )
