"""Puts the papers' recipes, which lie in the root of the repository, into builds of sentbed-studies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

RECIPES = "recipes/papers"


class Recipes(BuildHookInterface[Any]):
    """Adds `recipes/papers`; what is built from a source distribution has it there already."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the recipes, unless the distribution is installed in editable form and finds them itself."""
        source = Path(self.root).parents[1] / RECIPES
        if version != "editable" and source.is_dir():
            prefix = "src/" if self.target_name == "sdist" else ""
            build_data["force_include"][str(source)] = (
                f"{prefix}sentbed_studies/{RECIPES}"
            )
