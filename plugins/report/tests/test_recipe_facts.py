from __future__ import annotations

import pytest
from sentbed_report.recipe_facts import recipe_facts

ONE = """
[run]
seed = 7
[encoder]
backbone = { use = "bert", init = "random", size = "tiny" }
pooler = { use = "mean" }
[[stage]]
name = "nli"
loss = { use = "info-nce" }
"""
TWO = """
run.seed = 1
[encoders.en]
backbone = { use = "bert", model = "pkg:a/b" }
pooler = { use = "first" }
[encoders.zh]
backbone = { use = "t5", model = "./zh" }
pooler = { use = "mean" }
[[stage]]
name = "a"
loss = { use = "queue" }
[[stage]]
name = "b"
loss = { use = "momentum" }
"""


def test_a_report_says_model_pooler_loss_and_seed():
    assert recipe_facts(ONE) == (
        ("model", "bert, tiny, random weights"),
        ("pooler", "mean"),
        ("loss", "info-nce"),
        ("seed", "7"),
    )


def test_of_several_encoders_and_stages_each_is_named():
    assert recipe_facts(TWO) == (
        ("model of en", "bert, pkg:a/b"),
        ("pooler of en", "first"),
        ("model of zh", "t5, ./zh"),
        ("pooler of zh", "mean"),
        ("loss of a", "queue"),
        ("loss of b", "momentum"),
        ("seed", "1"),
    )


@pytest.mark.parametrize(
    ("varied", "left"),
    [
        ("encoder.pooler.use", ["model", "loss", "seed"]),
        ("encoders.encoder.pooler.use", ["model", "loss", "seed"]),
        ("encoder", ["loss", "seed"]),
        ("encoder.backbone.model", ["pooler", "loss", "seed"]),
        ("stage.nli.loss.use", ["model", "pooler", "seed"]),
        ("stage.nli.loss.temperature", ["model", "pooler", "loss", "seed"]),
    ],
)
def test_what_cells_differ_in_is_left_out(varied, left):
    assert [name for name, _ in recipe_facts(ONE, {varied})] == left
