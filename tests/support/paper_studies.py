"""Every recipe of the papers, read once for all tests. Nothing is built or downloaded."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path

from sentbed.tools import load_plugins, load_recipe
from sentbed_studies.study import read_study

ROOT = Path(__file__).parents[2]
PAPERS = ROOT / "recipes" / "papers"


@cache
def _plugins():
    return load_plugins()


def name_of(path):
    """Return `PAPER/FILE` of a file, below `recipes/papers` and without suffix."""
    return path.relative_to(PAPERS).with_suffix("").as_posix()


@cache
def files():
    """Return every recipe; what has no `schema` is a fragment that others extend."""
    paths = sorted(PAPERS.rglob("*.toml"))
    return tuple(
        path for path in paths if "schema" in tomllib.loads(path.read_text("utf-8"))
    )


@cache
def study(name):
    """Return the expanded and checked study `PAPER/FILE`."""
    return read_study(PAPERS / f"{name}.toml", plugins=_plugins(), check_files=False)


@cache
def cells(name):
    """Return the cells of a study; a recipe that is none is its only cell, without a name."""
    recipe = load_recipe(PAPERS / f"{name}.toml", check_files=False, plugins=_plugins())
    if "study" not in recipe.tables:
        return {"": recipe}
    return {cell.name: cell.recipe for cell in study(name).runs}
