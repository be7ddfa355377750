"""The recipes of papers that train have the settings of their papers."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import attrs
import pytest
import sentbed
from paper_runs import SAMPLE, local, require_packages
from sentbed._document.structuring import unstructure
from sentbed_studies.study import read_study

pytestmark = pytest.mark.slow

PAPERS = Path(__file__).parent.parent / "recipes" / "papers"
RECIPES = {
    path.stem: path
    for path in sorted(PAPERS.glob("*.toml"))
    if "stage" in tomllib.loads(path.read_text("utf-8"))
}
WRITTEN = {
    name: tomllib.loads(path.read_text("utf-8")) for name, path in RECIPES.items()
}


def below(prefix, *groups, **values):
    """Values by dotted path; `__` in a keyword is a dot."""
    plain = {key.replace("__", "."): value for key, value in values.items()}
    return {
        f"{prefix}.{key}": value
        for group in (*groups, plain)
        for key, value in group.items()
    }


INFO_NCE = {"loss.symmetric": False, "loss.margin": 0.0}
BEST = {"validate.keep": "best"}

SETTINGS: dict[str, dict[str, Any]] = {
    "angle-bert-base": {
        **below("stage.nli", BEST, loss__weights=[0.5, 0.5, 0.02]),
        **below(
            "stage.nli.loss.losses.0",
            use="info-nce",
            temperature=0.05,
            hard_negatives="none",
        ),
        **below(
            "stage.nli.loss.losses.1",
            use="info-nce",
            temperature=0.05,
            hard_negatives="batch",
        ),
        **below(
            "stage.nli.loss.losses.2", use="angle", temperature=0.05, rows="triplets"
        ),
    },
    "pcc-tuning-llama2-7b": {
        **below(
            "encoder.backbone",
            use="causal",
            quantization="nf4",
            lora__targets="all-linear",
        ),
        **below("stage.nli", INFO_NCE, BEST, batch_size=248, max_length=32, epochs=1),
        **below(
            "stage.pcc",
            BEST,
            loss__use="pearson",
            batch_size=216,
            max_length=64,
            epochs=10,
        ),
        **below("stage.pcc.data.sources.0", use="scored", rescale=False),
        **below("stage.pcc.data.sources.1", use="scored", rescale=False),
    },
    "prompteol-opt-6.7b-qlora": {
        **below("encoder.backbone", use="opt", lora__targets="all-linear"),
        **below("stage.nli", INFO_NCE, BEST, normalize_text=False),
    },
    "sentbench-bert-base": {
        "encoder.max_length": 512,
        **below("stage.train", INFO_NCE, BEST, data__limit=1_000_000),
    },
    "sentence-t5-base": {
        "encoder.backbone.use": "t5",
        "encoder.head.bias": False,
        **below("stage.qa", INFO_NCE),
        **below("stage.nli", INFO_NCE, BEST),
        "evaluate.3.use": "geometry",
        "evaluate.3.protocols": ["st5", "wang-isola"],
    },
    "sentence-t5-classification": {
        "encoder.backbone.use": "t5",
        "encoder.head.bias": False,
        **below("stage.nli", BEST, data__build="labelled", loss__product=False),
    },
    "simcse-sup-bert-base": {
        "encoder.max_length": 512,
        **below("stage.nli", INFO_NCE, BEST),
    },
    "simcse-unsup-bert-base": {
        "encoder.max_length": 512,
        **below("stage.wiki", INFO_NCE, BEST),
    },
    "translation-pairs-bert-base": {
        **{f"encoders.{name}.max_length": 512 for name in ("source", "zh", "en")},
        **below("stage.a", BEST, train=["zh"], freeze=["source"]),
        **below("stage.nli-zh", INFO_NCE, BEST, train=["zh"]),
        **below("stage.b", BEST, train=["en"], freeze=["zh"]),
        **below(
            "stage.b.watch.0",
            every=100,
            encoder="en",
            with__use="geometry",
            with__task="STSB-dev",
        ),
        **below(
            "stage.b.watch.1",
            every=100,
            encoder="en",
            second="zh",
            with__use="geometry",
        ),
        **below("stage.b.watch.1.with", pairs=1000, positives=250),
        **below("stage.nli-en", INFO_NCE, BEST, train=["en"]),
    },
}
"""The values of the papers, written down from them and not from the recipes, but for those that
`papers/hyperparameters.toml` has."""

TABLE_5 = ["stage.b.loss.size=0", "stage.b.batch_size=1024"]
VARIATIONS = {
    "sentbench-bert-base": [
        [
            f'stage.train.data={{ use = "dropout", path = "{SAMPLE}/triplets.csv", column = "sent0" }}'
        ],
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


def at(table, path):
    """The value at a dotted path; elements of a list by number or by name."""
    for key in path.split("."):
        if isinstance(table, list):
            table = next(
                item
                for i, item in enumerate(table)
                if key in (str(i), item.get("name"))
            )
        else:
            table = table[key]
    return table


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_has_the_other_settings_of_its_paper(name, tmp_path):
    require_packages(name)
    in_force = unstructure(
        sentbed.load_recipe(RECIPES[name], local(WRITTEN[name], tmp_path))
    )
    in_force["encoder"] = in_force["encoders"].get("encoder")
    assert {path: at(in_force, path) for path in SETTINGS[name]} == SETTINGS[name]


@pytest.mark.parametrize(
    ("name", "settings"), [(n, s) for n, several in VARIATIONS.items() for s in several]
)
def test_what_the_head_of_a_recipe_offers_to_set_passes_check(name, settings, tmp_path):
    local_settings = local(WRITTEN[name], tmp_path)
    assert sentbed.load_recipe(
        RECIPES[name], [*local_settings, *settings]
    ) != sentbed.load_recipe(RECIPES[name], local_settings)


def test_stages_that_a_study_repeats_are_those_of_the_recipes():
    cells = {
        c.name: c.recipe
        for c in read_study(
            PAPERS / "sentence-t5" / "table-2.toml", check_files=False
        ).runs
    }
    base = sentbed.load_recipe(RECIPES["sentence-t5-base"], check_files=False)
    assert cells["cqa+nli, base, t5, mean"].stage == base.stage
    assert cells["nli, base, t5, mean"].stage == base.stage[1:]
    (simcse,) = sentbed.load_recipe(
        RECIPES["simcse-sup-bert-base"], check_files=False
    ).stage
    assert cells["simcse, base, bert, cls-mlp"].stage == (simcse,)
    table_2 = read_study(
        PAPERS / "translation-pairs" / "table-2.toml", check_files=False
    ).runs
    (cell,) = (cell.recipe for cell in table_2 if cell.name == "BERT base, WMT, NLI")
    pairs = sentbed.load_recipe(
        RECIPES["translation-pairs-bert-base"], check_files=False
    )
    assert pairs.encoders == cell.encoders
    assert (
        tuple(attrs.evolve(stage, micro_batch=None, watch=()) for stage in pairs.stage)
        == cell.stage
    )
