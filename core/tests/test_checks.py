"""What parts say of themselves in checks, and the encoders of a stage; see `test_wrong_recipes.py`."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from sentbed import RecipeError, RuntimeUnavailableError, run
from sentbed._cli.main import main
from toy_plugin import RECIPE, TOWERS, Average, Characters, Toy

DUAL = ('stage.pairs.train=["en", "zh"]', "stage.pairs.freeze=")


def problems(load, text, *overrides):
    with pytest.raises(RecipeError) as caught:
        load(text, *overrides)
    return caught.value.problems


# --- recipes that are right --------------------------------------------------------------------------------

MODES = {
    "shared": ("stage.pairs.train=zh", "stage.pairs.freeze=", "stage.pairs.columns="),
    "shared, said": (
        "stage.pairs.freeze=",
        'stage.pairs.columns={ anchor = "zh", positive = "zh" }',
    ),
    "dual": DUAL,
    "frozen": (),
}


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_of_two_towers_is_a_recipe(mode, recipe_of):
    recipe = recipe_of(TOWERS, *MODES[mode])
    towers = recipe.towers(recipe.stage[0])
    assert towers == {"anchor": "zh" if "shared" in mode else "en", "positive": "zh"}
    trained = ("en", "zh") if mode == "dual" else ("zh",)
    assert recipe.trained(recipe.stage[0]) == trained


# --- what backbones and runtimes say of themselves ---------------------------------------------------------

BITS = "it is held in 3 bits; take 4"
TWICE = 'encoder.prompt={ template = "{text} again: {text}" }'


@pytest.mark.parametrize(
    ("part", "name", "value", "path"),
    [
        (Characters, "untrainable", BITS, "stage.pull"),
        (Toy, "untrainable", BITS, "stage.pull"),
        (Toy, "offers", frozenset({"vector"}), "runtime"),
        (Toy, "offers", frozenset({"tokens", "marked-tokens"}), "runtime"),
    ],
)
def test_what_a_part_cannot_do_is_a_misfit(
    part, name, value, path, recipe_of, monkeypatch
):
    monkeypatch.setattr(Characters, "offers", frozenset({"span"}))
    assert recipe_of(RECIPE, TWICE).encoders["encoder"].marks
    monkeypatch.setattr(part, name, value)
    (problem,) = problems(recipe_of, RECIPE, TWICE)
    assert (problem.path, problem.level) == (path, "misfit")


@pytest.mark.parametrize(
    ("part", "path"),
    [
        (Toy, "runtime"),
        (Characters, "encoder.backbone"),
        (Average, "encoder.pooler"),
    ],
)
def test_a_part_says_which_encoders_it_does_not_fit(part, path, recipe_of, monkeypatch):
    sentence = "it has no graph of characters; take another"
    monkeypatch.setattr(part, "misfits", lambda self, place: iter([sentence]))
    (problem,) = problems(recipe_of, RECIPE)
    assert (problem.path, problem.message) == (path, sentence)


def test_texts_longer_than_the_positions_are_a_problem_before_anything_is_built(
    recipe_of, monkeypatch
):
    monkeypatch.setattr(Characters, "most_tokens", lambda self: 12)
    for override, path in (
        ("encoder.max_length=16", "encoder.max_length"),
        ("stage.pull.max_length=1300", "stage.pull.max_length"),
    ):
        (problem,) = problems(recipe_of, RECIPE, "encoder.max_length=12", override)
        assert problem.path == path
        assert "positions for 12 tokens; set `max_length` to 12" in problem.message
    recipe_of(RECIPE, "encoder.max_length=12", "stage.pull.max_length=12")


def test_a_run_on_an_unavailable_runtime_writes_nothing(
    put, installed_toy, recipe_of, plugins, tmp_path, monkeypatch
):
    reason = "there is no toy here; buy one"
    monkeypatch.setattr(Toy, "unavailable", lambda self: reason)
    with pytest.raises(RuntimeUnavailableError, match=f"^{reason}$"):
        run(recipe_of(RECIPE), tmp_path / "out", plugins)
    assert not (tmp_path / "out").exists()

    result = CliRunner().invoke(main, ["check", str(put("r.toml", RECIPE))])
    assert result.exit_code == 0
    assert result.output.endswith(f"  not on this machine: {reason}\n")
