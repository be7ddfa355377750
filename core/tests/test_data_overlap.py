"""A file that a stage trains on is no test data."""

from __future__ import annotations

import json

import pytest
from sentbed import RecipeError, run
from sentbed._recipe.data_overlap import choosing_on_test_data
from sentbed._recipe.remarks import remarks_of
from sentbed._run import runner
from sentbed.tools import go_on, train_first_stages
from toy_plugin import RECIPE, Gap

TRAINED = 'stage.pull.data={ use = "table", path = "pairs.tsv" }'
CHOOSING = '{ every = 2, keep = "best", with = { use = "gap", development = true } }'
PAIRS = "anchor\tpositive\nabc\tnop\nbcd\topq\n"


@pytest.fixture
def pairs(put):
    """A file of pairs that the recipe may train on."""
    return put("pairs.tsv", PAIRS)


@pytest.fixture
def read_by_gap(monkeypatch):
    """Let the evaluator `gap` read a file."""
    return lambda path: monkeypatch.setattr(Gap, "files", lambda _: [path])


@pytest.mark.parametrize("name", ["pairs.tsv", "link.tsv"])
def test_training_on_test_data_is_a_problem_of_the_recipe(
    name, pairs, read_by_gap, recipe_of
):
    if name == "link.tsv":
        (pairs.parent / name).symlink_to(pairs)
    read_by_gap(pairs.parent / name)
    with pytest.raises(RecipeError, match=r"trains on .*pairs.tsv.*allow_overlap") as e:
        recipe_of(RECIPE, TRAINED)
    (problem,) = e.value.problems
    assert problem.path == "stage.pull.data"
    assert "of the evaluation `gap`" in problem.message
    assert recipe_of(RECIPE, TRAINED, "run.allow_overlap=true").stage


def test_development_data_may_be_trained_on(pairs, read_by_gap, recipe_of, monkeypatch):
    read_by_gap(pairs)
    development = RECIPE.replace('use = "gap"\n', 'use = "gap"\ndevelopment = true\n')
    assert recipe_of(development, TRAINED).stage
    monkeypatch.setattr(Gap, "development_files", lambda _: [pairs])
    assert recipe_of(RECIPE, TRAINED).stage


@pytest.mark.parametrize(("keep", "count"), [("best", 1), ("last", 0)])
def test_choosing_weights_by_test_data_is_a_warning_in_the_report(
    keep, count, pairs, read_by_gap, out, run_recipe
):
    read_by_gap(pairs)
    run_recipe(RECIPE, f"stage.pull.validate={CHOOSING.replace('best', keep)}")
    warnings = json.loads((out / "report.json").read_text())["warnings"]
    assert len(warnings) == count
    for warning in warnings:
        assert "pairs.tsv`, which is test data of the evaluation `gap`" in warning


def test_check_remarks_on_weights_chosen_by_test_data(pairs, read_by_gap, recipe_of):
    read_by_gap(pairs)
    validate = '{ every = 2, with = { use = "gap", development = true } }'
    recipe = recipe_of(RECIPE, f"stage.pull.validate={validate}")
    (remark,) = remarks_of([recipe])
    assert remark.level == "remark"
    assert "pairs.tsv`, which is test data of the evaluation `gap`" in remark.message


def test_test_data_is_not_hashed_where_nothing_chooses(recipe_of, monkeypatch):
    def files(_):
        raise AssertionError("the files of an evaluation were asked for")

    monkeypatch.setattr(Gap, "files", files)
    start = RECIPE.index("[[stage]]")
    evaluation = RECIPE[RECIPE.index("[[evaluate]]") :]
    recipe = recipe_of(RECIPE[:start] + evaluation.replace('"start", ', ""))
    assert list(choosing_on_test_data(recipe)) == []


@pytest.mark.parametrize(("is_test_data", "count"), [(True, 1), (False, 0)])
def test_a_run_from_shared_stages_has_the_warnings_of_its_own_evaluations(
    is_test_data, count, pairs, read_by_gap, recipe_of, plugins, out
):
    read_by_gap(pairs)
    settings = [f"stage.pull.validate={CHOOSING}", 'evaluate.0.at=["end"]']
    recipes = {
        True: recipe_of(RECIPE, *settings),
        False: recipe_of(RECIPE, *settings, "evaluate.0.development=true"),
    }
    # The stages are those of a run with other evaluations.
    train_first_stages(recipes[not is_test_data], 1, out, plugins)
    go_on(recipes[is_test_data], out, plugins)
    text = (out / "report.json").read_text()
    choosing = [w for w in json.loads(text)["warnings"] if "chooses its weights" in w]
    assert len(choosing) == count


def test_training_on_a_copy_of_test_data_is_an_error_before_anything_is_built(
    pairs, read_by_gap, put, recipe_of, plugins, out, monkeypatch
):
    copy = put("copy.tsv", PAIRS)
    read_by_gap(copy)
    recipe = recipe_of(RECIPE, TRAINED)

    def build(*_):
        raise AssertionError("an encoder was built")

    monkeypatch.setattr(runner, "build_encoders", build)
    with pytest.raises(RecipeError, match=r"pairs.tsv`, the test data `.*copy.tsv`"):
        run(recipe, out, plugins)
