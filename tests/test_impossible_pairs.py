"""`sentbed check` refuses parts that cannot work together, and says why."""

from __future__ import annotations

import pytest
import sentbed

PAIRS = [
    ("bert", "decoder", "a decoder that reads the encoded text"),
    ("opt", "decoder", "a decoder that reads the encoded text"),
    ("opt", "mask", "a mask token in the vocabulary"),
    ("t5", "mask", "a mask token in the vocabulary"),
    (
        "bert",
        "prompt-eol",
        "the state from which the next word is predicted",
    ),
    (
        "t5",
        "prompt",
        "the state from which the next word is predicted",
    ),
    (
        "opt",
        "first",
        "the first token has seen nothing of the text",
    ),
    (
        "causal",
        "cls-mlp",
        "the first token has seen nothing of the text",
    ),
]

RECIPE = """\
schema = 1
[run]
name = "pair"
[runtime]
use = "cpu"
[encoder]
backbone = {{ use = "{backbone}", init = "random" }}
pooler = {{ use = "{pooler}" }}
{more}
"""


def problems(tmp_path, backbone, pooler, more="", *settings):
    file = tmp_path / "recipe.toml"
    file.write_text(RECIPE.format(backbone=backbone, pooler=pooler, more=more))
    try:
        sentbed.load_recipe(file, settings)
    except sentbed.RecipeError as error:
        return list(error.problems)
    return []


@pytest.mark.sweep(3)
@pytest.mark.parametrize(("backbone", "pooler", "reason"), PAIRS)
def test_a_pair_that_cannot_work_is_refused_with_a_reason(
    tmp_path, backbone, pooler, reason
):
    (problem,) = problems(tmp_path, backbone, pooler)
    assert problem.path == "encoder.pooler"
    assert problem.line == 8
    assert f"the pooler `{pooler}` needs" in problem.message
    assert reason in problem.message
    assert problem.message.endswith("choose another of the two")


@pytest.mark.parametrize(
    ("backbone", "pooler", "reads"),
    [
        ("bert", "mean-first-last", "layers of its own"),
        ("t5", "decoder", "the decoder"),
    ],
)
def test_layers_that_the_pooler_does_not_read_are_refused(
    tmp_path, backbone, pooler, reads
):
    (problem,) = problems(
        tmp_path, backbone, pooler, "", "encoder.backbone.layers=[-2, -1]"
    )
    assert problem.path == "encoder.backbone"
    assert (
        problem.message
        == f"the pooler reads {reads}, and `layers` would have no effect; take it out"
    )
    assert (
        problems(tmp_path, backbone, "mean", "", "encoder.backbone.layers=[-2, -1]")
        == []
    )


STAGE = """
[[stage]]
name = "s"
data = { use = "sample" }
loss = { use = "info-nce" }
optimizer = { use = "adamw", lr = 1e-3 }
schedule = { use = "constant" }
batch_size = 8
steps = 2
"""


def test_a_stage_on_weights_below_fp32_is_refused_before_anything_is_loaded(
    tmp_path,
):
    half = "encoder.backbone.dtype=bf16"
    (problem,) = problems(tmp_path, "bert", "mean", STAGE, half)
    assert problem.path == "stage.s"
    assert "held in bf16, in which small updates are lost" in problem.message
    assert (
        problems(tmp_path, "bert", "mean", STAGE, half, "encoder.backbone.lora={}")
        == []
    )
    assert problems(tmp_path, "bert", "mean", "", half) == []
