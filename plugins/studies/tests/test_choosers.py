"""Studies that run some of their cells: a sample, or those that Optuna chooses."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from sentbed._cli.main import main
from toy_plugin import TOWERS

STUDY = """
[[evaluate]]
use = "nearness"
encoder = "zh"
[study]
CHOOSER
seeds = [1, 2]
baseline = { lr = "0.25", noise = "0.5" }
decide = { test_data = true, tasks = ["near"] }
[study.axes.lr]
path = "stage.tune.optimizer.lr"
values = [1.0, 0.5, 0.25]
[study.axes.noise]
path = "stage.pairs.loss.noise"
values = [0.0, 0.5]
"""

pytestmark = pytest.mark.usefixtures("installed_toy", "quick")


def recipe_with(chooser):
    return TOWERS + STUDY.replace("CHOOSER", chooser)


def invoke(*words):
    return CliRunner().invoke(main, [*map(str, words)])


def cells_after_run(recipe, directory):
    """Run a study; return the names of the cells in its results, and what was printed on standard error."""
    result = invoke("study", recipe, "--out", directory, "--workers", 1)
    assert result.exit_code == 0, result.output
    results = json.loads((directory / "results.json").read_text())
    assert results["finished"] == results["total"] == 2 * len(results["cells"])
    return [cell["name"] for cell in results["cells"]], result.stderr


def test_a_sample_has_the_baseline_and_is_the_same_when_the_study_is_started_again(
    put, tmp_path
):
    recipe = put("study.toml", recipe_with("sample = 3"))
    assert invoke("check", recipe).exit_code == 0
    cells, _ = cells_after_run(recipe, tmp_path / "out")
    assert len(cells) == 3
    assert "0.25, 0.5" in cells
    again, lines = cells_after_run(recipe, tmp_path / "out")
    assert again == cells
    assert "3 cells x 2 seeds = 6 runs, 6 finished" in lines
    assert "nothing was left to run" in lines


def test_only_cells_of_the_sample_can_be_asked_for(put):
    recipe = put("study.toml", recipe_with("sample = 1"))
    refused = invoke("study", recipe, "--dry-run", "--only", "lr=1.0")
    assert "none of the cells asked for is in the `sample`" in refused.output
    assert invoke("study", recipe, "--dry-run", "--only", "lr=0.25").exit_code == 0


@pytest.mark.slow
def test_a_search_tries_cells_one_after_another_and_runs_none_of_them_again(
    put, tmp_path
):
    pytest.importorskip("optuna")
    recipe = put("study.toml", recipe_with('trials = 8\nkeep = "all"'))
    assert invoke("check", recipe).exit_code == 0
    cells, lines = cells_after_run(recipe, tmp_path / "out")
    assert 1 < len(cells) < 6
    assert "then: up to 8 cells by Optuna" in lines
    assert lines.count("the next cell is ") == len(cells) - 1
    # Cells with one noise have their first stage in common, also where they are tried one after another.
    noises = {cell.partition(", ")[2] for cell in cells}
    assert len(list((tmp_path / "out" / "shared").iterdir())) == 2 * len(noises)
    again, lines = cells_after_run(recipe, tmp_path / "out")
    assert again == cells
    assert "nothing was left to run" in lines
    refused = invoke("study", recipe, "--only", "lr=0.5")
    assert "`--only` chooses cells, and so does `trials`" in refused.output


@pytest.mark.parametrize(
    ("chooser", "message"),
    [
        ("sample = 0", "'sample' must be >= 1: 0"),
        ("sample = 2\ntrials = 2", "`sample` chooses the cells, too; take one"),
        ("trials = 2", "a search is led by a score; add `decide = {}`"),
    ],
)
def test_what_cannot_choose_is_found_by_check(put, chooser, message):
    text = recipe_with(chooser)
    if "decide" in message:
        text = text.replace("decide = {", "# {")
    result = invoke("check", put("study.toml", text))
    assert result.exit_code == 2
    assert message in result.output
