"""Keys of studies over the distributions of sentbed."""

from __future__ import annotations

from pathlib import Path

from sentbed.tools import components_of, computing_code, load_plugins, load_recipe

RECIPES = Path(__file__).resolve().parent.parent / "recipes"


def test_code_and_versions_of_a_recipe_are_those_of_what_computes() -> None:
    plugins = load_plugins()
    recipe = load_recipe(RECIPES / "quickstart.toml", plugins=plugins, look=False)
    code = computing_code(components_of(recipe), plugins)
    assert {"sentbed", "sentbed-common", "sentbed-backbones", "sentbed-hardware", "sentbed-losses"} <= set(
        code
    )
    libraries = {"numpy", "python", "scikit-learn", "scipy", "tokenizers", "torch", "transformers"}
    assert libraries <= set(code)
    shown = {"sentbed-report", "sentbed-studies", "sentbed-workbench", "sentbed-trackers", "rich", "click"}
    assert not shown & set(code)
