"""Losses in losses, scores and teachers, in recipes with the engine of sentbed."""

from __future__ import annotations

import json

import pytest
import sentbed
from run_logs import finished_steps
from sentbed._recipe.load import load_recipe
from sentbed_studies.study import read_study

HEAD = """
schema = 1
[run]
name = "objectives"
[runtime]
use = "cpu"
threads = 1
"""
ENCODER = """
[{place}]
max_length = 16
backbone = {{ use = "bert", init = "random", vocab_size = 300, size = "{size}" }}
pooler = {{ use = "mean" }}
"""
STAGE = """
[[stage]]
name = "nli"
steps = 3
batch_size = 6
optimizer = { use = "adamw", lr = 1e-3 }
schedule = { use = "constant" }
"""
NESTED = """
data = { use = "sample" }
[stage.loss]
use = "matryoshka"
dimensions = [128, 8]
[stage.loss.loss]
use = "sum"
weights = [1.0, 0.1]
[[stage.loss.loss.losses]]
use = "info-nce"
temperature = 0.05
[[stage.loss.loss.losses]]
use = "spread-out"
"""


def recipe(tmp_path, *parts):
    file = tmp_path / "recipe.toml"
    file.write_text("".join(parts))
    return file


def nested(tmp_path, *changed):
    text = NESTED
    for old, new in changed:
        assert old in text
        text = text.replace(old, new)
    return recipe(
        tmp_path, HEAD, ENCODER.format(place="encoder", size="tiny"), STAGE, text
    )


def test_a_setting_reaches_into_an_inner_loss(tmp_path):
    loaded = load_recipe(
        nested(tmp_path), ["stage.nli.loss.loss.losses.0.temperature=0.2"]
    )
    loss = loaded.stage[0].loss

    assert loss.loss.losses[0].temperature == 0.2
    assert loaded.stage[0].columns_used == ("anchor", "positive", "negative")


def test_an_axis_of_a_study_reaches_into_an_inner_loss(tmp_path):
    axis = '[study.axes.t]\npath = "stage.nli.loss.loss.temperature"\nvalues = [0.01, 0.1]\n'
    inner = '[stage.loss.loss]\nuse = "info-nce"\n'
    evaluate = (
        '[[evaluate]]\nuse = "sts"\npath = "pkg:sentbed_data/sample/sts-test.tsv"\n'
    )
    text = NESTED.partition("[stage.loss.loss]")[0] + inner + evaluate + axis
    study = read_study(
        recipe(
            tmp_path, HEAD, ENCODER.format(place="encoder", size="tiny"), STAGE, text
        )
    )
    losses = [cell.recipe.stage[0].loss for cell in study.runs]

    assert [loss.loss.temperature for loss in losses] == [0.01, 0.1]


def run(file, out):
    result = sentbed.run(load_recipe(file), out)
    return [{**step, **step["metrics"]} for step in finished_steps(result.directory)]


def test_a_nested_loss_trains_and_logs_its_parts(tmp_path):
    steps = run(nested(tmp_path), tmp_path / "out")

    assert len(steps) == 3

    first = steps[0]

    assert first["loss"] == pytest.approx(first["128"] + first["8"], rel=1e-5)

    parts = first["128.info-nce"] + 0.1 * first["128.spread-out"]

    assert first["128"] == pytest.approx(parts, rel=1e-5)


@pytest.mark.sweep(1)
@pytest.mark.parametrize("loss", ["cosent", "angle", "cosine-mse", "pearson"])
def test_scores_of_a_file_train_an_encoder(tmp_path, loss):
    rows = "".join(f"a plane {k}\ta train {k}\t{k % 6}\n" for k in range(12))
    (tmp_path / "pairs.tsv").write_text(f"sentence1\tsentence2\tscore\n{rows}")
    text = f'data = {{ use = "scored", path = "pairs.tsv", score_range = [0, 5] }}\nloss.use = "{loss}"\n'
    file = recipe(
        tmp_path, HEAD, ENCODER.format(place="encoder", size="tiny"), STAGE, text
    )
    steps = run(file, tmp_path / "out")

    assert len({step["loss"] for step in steps}) == 3
    assert all(-1 <= step["correlation"] <= 1 for step in steps)


TAUGHT = """
train = "student"
freeze = "teacher"
data = {{ use = "for-teacher", source = {{ use = "sample" }}, only = {only} }}
columns = {{ {columns} }}
loss = {loss}
"""


@pytest.mark.sweep(1)
@pytest.mark.parametrize(
    ("loss", "texts"),
    [
        ('{ use = "distill", projection = 256 }', ("anchor",)),
        ('{ use = "similarity-kl" }', ("anchor", "positive")),
        (
            '{ use = "matryoshka", dimensions = [128, 8], loss = { use = "similarity-kl" } }',
            ("anchor", "positive"),
        ),
    ],
)
def test_a_teacher_of_another_width_is_a_frozen_tower(tmp_path, loss, texts):
    columns = dict.fromkeys(texts, "student") | {
        f"teacher_{name}": "teacher" for name in texts
    }
    stage = TAUGHT.format(
        only=json.dumps(texts),
        columns=", ".join(f'{name} = "{encoder}"' for name, encoder in columns.items()),
        loss=loss,
    )
    encoders = ENCODER.format(place="encoders.student", size="tiny")
    encoders += ENCODER.format(place="encoders.teacher", size="mini")
    steps = run(recipe(tmp_path, HEAD, encoders, STAGE, stage), tmp_path / "out")

    assert len({step["loss"] for step in steps}) == 3
