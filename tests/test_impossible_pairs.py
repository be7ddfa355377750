"""`sentbed check` refuses parts that cannot work together, says why, and names what would."""

from __future__ import annotations

import re

import pytest
import sentbed

PAIRS = [
    ("bert", "decoder", "a decoder that reads the encoded text", "t5"),
    ("opt", "decoder", "a decoder that reads the encoded text", "t5"),
    ("opt", "mask", "a mask token in the vocabulary", "bert"),
    ("t5", "mask", "a mask token in the vocabulary", "bert"),
    (
        "bert",
        "prompt-eol",
        "the state from which the next word is predicted",
        "causal` or `opt",
    ),
    (
        "t5",
        "prompt",
        "the state from which the next word is predicted",
        "causal` or `opt",
    ),
    (
        "opt",
        "first",
        "the first token has seen nothing of the text",
        "bert`, `static` or `t5",
    ),
    (
        "causal",
        "cls-mlp",
        "the first token has seen nothing of the text",
        "bert`, `static` or `t5",
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
@pytest.mark.parametrize(("backbone", "pooler", "reason", "instead"), PAIRS)
def test_a_pair_that_cannot_work_is_refused_with_a_reason_and_alternatives_that_pass(
    tmp_path, backbone, pooler, reason, instead
):
    (problem,) = problems(tmp_path, backbone, pooler)
    assert problem.path == "encoder.pooler"
    assert problem.line == 8
    assert f"the pooler `{pooler}` needs" in problem.message
    assert reason in problem.message
    assert (
        f"use the backbone `{instead}` with this pooler, or the pooler "
        in problem.message
    )
    backbones, poolers = (
        re.findall(r"`([a-z0-9-]+)`", part)
        for part in problem.message.partition("; use the backbone")[2].split(
            " with this pooler"
        )
    )
    assert len(poolers) > 2
    for name in backbones:
        assert problems(tmp_path, name, pooler) == []
    for name in set(poolers) - {backbone}:
        assert problems(tmp_path, backbone, name) == []


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
