"""Training data within other data, and in files that locations name, is compared with test data."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from sentbed._cli.main import main

RECIPE = """
schema = 1
run = { name = "overlap" }
runtime = { use = "cpu" }
[encoder]
backbone = { use = "bert", init = "random", size = "tiny" }
pooler = { use = "mean" }
[[stage]]
name = "pairs"
data = DATA
loss = { use = "info-nce" }
optimizer = { use = "adamw", lr = 5e-5 }
schedule = { use = "constant" }
batch_size = 4
steps = 1
[[evaluate]]
use = "sts"
path = "PATH"
"""
PAIRS = 'use = "pairs", anchor = "sentence1", positive = "sentence2"'


@pytest.mark.parametrize(
    ("data", "path"),
    [
        (f'{{ {PAIRS}, path = "data:pairs.tsv" }}', "pairs.tsv"),
        (
            f'{{ use = "mix", sources = [{{ {PAIRS}, path = "other.tsv" }}, '
            f'{{ {PAIRS}, path = "./pairs.tsv" }}] }}',
            "data:pairs.tsv",
        ),
        (
            f'{{ {PAIRS}, path = "pkg:sentbed_data/sample/sts-test.tsv" }}',
            "pkg:sentbed_data/sample/sts-test.tsv",
        ),
    ],
    ids=["data", "mix", "pkg"],
)
def test_check_reports_training_on_test_data(data, path, tmp_path, monkeypatch):
    monkeypatch.setenv("SENTBED_DATA", str(tmp_path))
    for name in ("pairs.tsv", "other.tsv"):
        (tmp_path / name).write_text("sentence1\tsentence2\tscore\na\tb\t1\n")
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(RECIPE.replace("DATA", data).replace("PATH", path))

    result = CliRunner().invoke(main, ["check", str(recipe)])
    assert result.exit_code == 2, result.output
    assert "of the evaluation `sts`; train on other data" in result.output
    assert "recipe.toml:10 stage.pairs.data" in result.output

    result = CliRunner().invoke(
        main, ["check", str(recipe), "--set", "run.allow_overlap=true"]
    )
    assert result.exit_code == 0, result.output
