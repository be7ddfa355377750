"""Losses and gradient norms of ten steps of the short recipes, those of four papers among them."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator
from pathlib import Path

from doors import run_recipe
from records import Number, SkippedError
from training import run_numbers

CASES = tomllib.loads(Path(__file__).with_name("papers.toml").read_text("utf-8"))

RECIPES = Path(__file__).parents[2] / "recipes" / "mini"


def numbers(directory: Path) -> Iterator[Number]:
    """Yield the numbers of each recipe; raise `SkippedError` without real data."""
    if "SENTBED_DATA" not in os.environ:
        raise SkippedError("`SENTBED_DATA` names no directory with real data")

    for name, case in CASES.items():
        settings = ["runtime.precision=fp32", "runtime.threads=1", "evaluate="]
        for stage in case["stages"]:
            settings.append(f"stage.{stage}.steps=10")
        recipe = RECIPES / f"{case.get('recipe', name)}.toml"
        settings += case["settings"]
        yield from run_numbers(name, run_recipe(recipe, directory / name, settings))
