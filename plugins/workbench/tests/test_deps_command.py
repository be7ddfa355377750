from __future__ import annotations

from importlib.metadata import version

import pytest
import tomli
from click.testing import CliRunner
from sentbed import RecipeError, load_recipe
from sentbed._cli import main as cli
from toy_plugin import RECIPE


def test_the_table_of_a_recipe_has_the_distributions_of_its_components(
    installed_toy, put
):
    path = put("recipe.toml", RECIPE)
    result = CliRunner().invoke(cli.main, ["deps", str(path)])
    assert result.exit_code == 0, result.output
    table, command = result.output.strip().split("\n\n")
    assert tomli.loads(table) == {"requires": {"toy": ">=1.0"}}
    assert command == "pip install 'toy>=1.0'"
    # What it prints is met.
    assert load_recipe(
        put("requiring.toml", RECIPE.replace("[run]", f"{table}\n[run]", 1))
    ).requires == {"toy": ">=1.0"}


def test_tables_of_plugins_are_needed_too(installed_toy, put):
    study = '\n[study.axes.width]\npath = "encoder.backbone.width"\nvalues = [4, 8]\n'
    path = put("recipe.toml", RECIPE + study)
    result = CliRunner().invoke(cli.main, ["deps", str(path)])
    assert result.exit_code == 0, result.output
    assert f'sentbed-studies = ">={version("sentbed-studies")}"' in result.output


@pytest.mark.parametrize(
    ("requirement", "message"),
    [
        ('sentbed = ">=0.0.1"', None),
        ('sentbed = ""', None),
        (
            'sentbed = ">=99"',
            f"needs sentbed>=99, and {version('sentbed')} is installed; `pip install 'sentbed>=99'`",
        ),
        (
            'sentbed-attention-of-mars = ">=0.2,<1"',
            "which is not installed; `pip install 'sentbed-attention-of-mars<1,>=0.2'`",
        ),
        ('sentbed = "newest"', "found the versions 'newest', expected such as"),
        ('"not a name" = ">=1"', "'not a name' is no name of a distribution"),
    ],
)
def test_a_requirement_that_is_not_met_is_a_problem_of_the_recipe(
    installed_toy, put, requirement, message
):
    path = put(
        "recipe.toml", RECIPE.replace("[run]", f"[requires]\n{requirement}\n[run]", 1)
    )
    if message is None:
        assert load_recipe(path).requires is not None
        return
    with pytest.raises(RecipeError) as caught:
        load_recipe(path)
    (problem,) = caught.value.problems
    assert message in problem.message
    assert problem.path.startswith("requires.")
    assert problem.line is not None


def test_a_missing_component_is_told_together_with_what_it_is_in(installed_toy, put):
    text = RECIPE.replace('"average"', '"martian"', 1)
    path = put(
        "recipe.toml", text.replace("[run]", '[requires]\nmars = ">=0.2"\n[run]', 1)
    )
    with pytest.raises(RecipeError) as caught:
        load_recipe(path)
    messages = [problem.message for problem in caught.value.problems]
    assert any("martian" in message for message in messages)
    assert any("pip install 'mars>=0.2'" in message for message in messages)
