"""Every problem of a wrong recipe is reported where it stands: `wrong_recipes.toml` has the recipes."""

from __future__ import annotations

from pathlib import Path

import pytest
import tomli
from sentbed import RecipeError, load_recipe
from toy_plugin import RECIPE, TOWERS

CORPUS = tomli.loads(Path(__file__).with_name("wrong_recipes.toml").read_text("utf-8"))
RECIPES = {"plain": RECIPE, "towers": TOWERS, **CORPUS["recipes"]}


def text_of(case):
    text = case.get("text") or RECIPES[case.get("recipe", "plain")]
    for old, new in case.get("change", {}).items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    return text + case.get("add", "")


def place_of(problem, files):
    """Return path, file and the text of the line; for a problem without a line, the last is empty."""
    if problem.line is None:
        return problem.path, problem.file or "", ""
    lines = files[problem.file].split("\n")
    line = lines[problem.line - 1].strip()
    return problem.path, problem.file, line


@pytest.mark.parametrize(
    "case",
    CORPUS["case"],
    ids=lambda case: case["problems"][0]["at"],
)
def test_every_problem_of_a_wrong_recipe_is_reported_where_it_stands(
    case,
    put,
    plugins,
    tmp_path,
    monkeypatch,
):
    monkeypatch.chdir(tmp_path)
    files = {"recipe.toml": text_of(case)}
    files |= case.get("files", {})
    for name, text in files.items():
        put(name, text)
    overrides = case.get("set", ())
    with pytest.raises(RecipeError) as caught:
        load_recipe("recipe.toml", overrides, plugins)

    problems = caught.value.problems
    expectations = case["problems"]
    assert len(problems) == len(expectations), problems
    for problem, expected in zip(problems, expectations, strict=True):
        path, file, line = place_of(problem, files)
        assert path == expected["at"]
        assert file == expected.get("file", "recipe.toml")
        assert line == expected.get("line", "")
        for word in expected["words"]:
            assert word in problem.message


def test_bytes_that_are_no_utf_8_are_reported_with_their_line(put, plugins):
    path = put("recipe.toml", b"a = 1\nb = 'caf\xe9'\n")
    with pytest.raises(RecipeError, match=r"this is not UTF-8: .*recipe.toml:2"):
        load_recipe(path, (), plugins)


def test_three_problems_are_shown_in_the_order_of_their_lines(put, plugins):
    text = RECIPE.replace("seed = 7", "sede = 7").replace("epochs", "epoch")
    with pytest.raises(RecipeError) as caught:
        load_recipe(put("r.toml", text), ["run.name=3"], plugins)
    file = caught.value.problems[-1].file
    assert str(caught.value).splitlines() == [
        "3 problems in the recipe:",
        "  found 3, expected a string @ --set run.name",
        f"  unknown key `sede`. Did you mean `seed`? @ {file}:5 run.sede",
        f"  unknown key `epoch`. Did you mean `epochs`? @ {file}:22 stage.pull.epoch",
    ]
