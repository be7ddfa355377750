"""Translation pairs on real files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import sentbed

RECIPES = Path(__file__).parents[2] / "recipes"
pytestmark = pytest.mark.usefixtures("data_directory")


@pytest.mark.usefixtures("minilm")
def test_a_frozen_source_teaches_more_than_one_in_training(tmp_path, spearman):
    path = RECIPES / "mini" / "translation-modes.toml"
    short = [
        "stage.pairs.data.limit=4800",
        "stage.pairs.batch_size=64",
        'evaluate.1.at=["end"]',
    ]
    dual = ['stage.pairs.train=["zh", "en"]', "stage.pairs.freeze="]
    scores = {}
    for name, more in {"frozen": [], "dual": dual}.items():
        scores[name] = spearman(
            sentbed.run(sentbed.load_recipe(path, short + more), tmp_path / name)
        )

    assert scores["frozen"]["zh/CNSD-STSB-dev"] > scores["dual"]["zh/CNSD-STSB-dev"]
    # The source as it was published, and what training both towers makes of it.
    assert abs(scores["frozen"]["en/STSB-dev"] - 86.72) < 0.1
    assert scores["dual"]["en/STSB-dev"] < 86


def test_the_translation_pipeline_goes_from_stage_to_stage(tmp_path, spearman):
    path = RECIPES / "mini" / "translation-pairs.toml"
    short = [
        f"stage.{name}.{key}"
        for name in ("a", "nli-zh", "b", "nli-en")
        for key in ("epochs=", "steps=8")
    ]
    looks = [f"stage.b.watch.{i}.every=4" for i in (0, 1)]
    result = sentbed.run(
        sentbed.load_recipe(path, [*short, *looks, "runtime.precision=auto"]),
        tmp_path / "run",
    )
    report = json.loads((result.directory / "report.json").read_text())

    assert [stage["name"] for stage in report["stages"]] == [
        "a",
        "nli-zh",
        "b",
        "nli-en",
    ]
    assert spearman(result).keys() == {
        f"{name}/{task}"
        for name, task in [("en@start", "STSB-dev"), ("en", "STSB-dev")]
    } | {f"{name}/CNSD-STSB-dev" for name in ("zh@start", "zh")}
