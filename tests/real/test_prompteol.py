"""PromptEOL on real files."""

from __future__ import annotations

from pathlib import Path

import pytest
import sentbed

RECIPES = Path(__file__).parents[2] / "recipes"
pytestmark = pytest.mark.usefixtures("data_directory")


def test_a_small_opt_learns_to_say_it_in_one_word(tmp_path, spearman):
    recipe = sentbed.load_recipe(RECIPES / "mini" / "prompteol.toml")
    values = spearman(sentbed.run(recipe, tmp_path / "run"))
    assert values["encoder/STSB-dev"] - values["encoder@start/STSB-dev"] > 2
