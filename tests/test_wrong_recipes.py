"""Parts that cannot work together are refused where they stand: `wrong_recipes.toml` has the recipes."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from sentbed import RecipeError, load_recipe

CORPUS = tomllib.loads(
    Path(__file__).with_name("wrong_recipes.toml").read_text("utf-8")
)


def load(case, directory):
    """Write and load the recipe of a case."""
    text = CORPUS["recipes"][case["recipe"]]
    for part in case.get("add", ()):
        text += CORPUS["parts"][part]
    file = directory / "recipe.toml"
    file.write_text(text, "utf-8")
    return load_recipe(file, case.get("set", ()), check_files=case.get("files", True))


@pytest.mark.parametrize("case", CORPUS["case"], ids=lambda case: case["at"])
def test_what_cannot_work_is_the_only_problem_of_the_recipe(case, tmp_path):
    with pytest.raises(RecipeError) as caught:
        load(case, tmp_path)

    (problem,) = caught.value.problems

    assert problem.path == case["at"]

    for word in case["words"]:
        assert word in problem.message


@pytest.mark.parametrize("case", CORPUS["right"], ids=str)
def test_what_works_has_no_problem(case, tmp_path):
    load(case, tmp_path)
