"""Keys of studies over the distributions of sentbed."""

from __future__ import annotations

from pathlib import Path

import pytest
from sentbed.tools import components_of, computing_code, load_plugins, load_recipe
from sentbed_report.study.read_study_directory import read_data
from sentbed_studies.runner import run_study
from sentbed_studies.study import read_study

RECIPES = Path(__file__).resolve().parent.parent / "recipes"


def test_code_and_versions_of_a_recipe_are_those_of_what_computes():
    plugins = load_plugins()
    recipe = load_recipe(
        RECIPES / "quickstart.toml", plugins=plugins, check_files=False
    )
    code = computing_code(components_of(recipe), plugins)
    assert {
        "sentbed",
        "sentbed-common",
        "sentbed-backbones",
        "sentbed-hardware",
        "sentbed-losses",
    } <= set(code)
    libraries = {
        "numpy",
        "python",
        "scikit-learn",
        "scipy",
        "tokenizers",
        "torch",
        "transformers",
    }
    assert libraries <= set(code)
    shown = {
        "sentbed-report",
        "sentbed-studies",
        "sentbed-workbench",
        "sentbed-trackers",
        "rich",
        "click",
    }
    assert not shown & set(code)


TRAINED = """
schema = 1
[run]
name = "trained"
[runtime]
use = "cpu"
[encoder]
max_length = 16
backbone = { use = "bert", init = "random", vocab_size = 300, size = "tiny" }
pooler = { use = "cls-mlp" }
head = { transform = { use = "whitening", data = { use = "sample" }, dimensions = 8 } }
[[stage]]
name = "s"
data = { use = "sample" }
loss = { use = "info-nce" }
optimizer = { use = "adamw", lr = 1e-3 }
schedule = { use = "constant" }
batch_size = 8
steps = 3
[study.axes.lr]
path = "stage.s.optimizer.lr"
values = [1e-3, 1e-2]
"""
EVALUATION = """
[[evaluate]]
use = "NAME"
path = "pkg:sentbed_data/sample/sts-dev.tsv"
at = ["start", "end"]
"""


@pytest.mark.slow
def test_an_evaluator_added_to_trained_encoders_gives_the_scores_that_it_would_have_given(
    tmp_path,
):
    """With a tokenizer that was trained on texts, random weights and a fitted transform."""

    def study(*names):
        evaluations = [EVALUATION.replace("NAME", name) for name in names]
        (tmp_path / "recipe.toml").write_text(TRAINED + "".join(evaluations))
        return read_study(tmp_path / "recipe.toml")

    def scores(directory):
        cell_scores = {}
        for cell in read_data(directory).cells:
            (run,) = cell.runs
            cell_scores[cell.name] = {
                (s.encoder, s.task, s.metric, s.value) for s in run.scores
            }
        return cell_scores

    run_study(study("sts"), tmp_path / "added")
    run_study(study("sts", "geometry"), tmp_path / "added")
    run_study(study("geometry", "sts"), tmp_path / "whole")
    assert len(list(tmp_path.glob("added/runs/*/added/*"))) == 4
    added = scores(tmp_path / "added")
    assert added == scores(tmp_path / "whole")
    assert all(len(values) > 6 for values in added.values())
