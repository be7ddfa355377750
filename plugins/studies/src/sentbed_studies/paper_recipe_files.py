"""Files of the recipes that reproduce tables and figures of papers."""

from __future__ import annotations

import re
from pathlib import Path

from sentbed.errors import RunError, suggest

PLACE = Path("recipes") / "papers"
"""Directory of the papers' recipes. It has a directory per paper, with a file per table or figure."""
INSTALLED = Path(__file__).parent / PLACE
"""`PLACE` in an installed distribution, where `hatch_build.py` puts it."""
CLONED = Path(__file__).parents[4] / PLACE
"""`PLACE` in a clone whose distributions are installed in editable form."""

KINDS = ("table", "figure", "section", "appendix")
"""Parts of a paper that may have a recipe, in the order in which they are listed. The recipe of a section or
an appendix reproduces the numbers in the text of that part."""

CHECKS = "verify.toml"
"""Name of a paper's recipe for the rows of its tables that need no training: a study with one cell per row."""


def find_papers() -> Path:
    """Return the directory of the papers' recipes.

    It is `PLACE` in the current directory, in the nearest directory above that has it, or in the installed
    distribution.

    Raises:
        RunError: if there is no such directory.
    """
    current = Path.cwd()
    places = [directory / PLACE for directory in (current, *current.parents)]
    for place in (*places, INSTALLED, CLONED):
        if place.is_dir():
            return place

    raise RunError(
        f"there is no `{PLACE}` here or above; name the directory of the papers' recipes (`--recipes`)"
    )


def papers_in(papers: Path) -> list[str]:
    """Return the names of the papers that have recipes."""
    return sorted(place.name for place in papers.iterdir() if place.is_dir())


def find_table(
    papers: Path,
    paper: str,
    table: str,
) -> Path:
    """Return the recipe of a table or figure of a paper. Raises `RunError` if there is none.

    `table` is the number of a table, such as `2`, or the name of a recipe without its suffix, such as `figure-4`.
    """
    tables = tables_of(papers, paper)
    name = table.lower().replace(" ", "-")
    if table.isdigit():
        name = f"table-{table}"
    if name not in tables:
        raise RunError(
            f"there is no recipe of `{table}` of `{paper}`.{suggest(name, list(tables))}"
        )
    return tables[name]


def tables_of(papers: Path, paper: str) -> dict[str, Path]:
    """Return the recipes of a paper: file name without suffix -> file. Its `CHECKS` come last.

    Raises:
        RunError: if the paper has no recipes.
    """
    names = papers_in(papers)
    if paper not in names:
        raise RunError(
            f"there are no recipes of `{paper}` in `{papers}`.{suggest(paper, names)}"
        )

    tables = {}
    for kind in KINDS:
        files = (papers / paper).glob(f"{kind}-*.toml")
        for file in sorted(files, key=_number_and_name):
            tables[file.stem] = file
    checks = papers / paper / CHECKS
    if checks.is_file():
        tables[checks.stem] = checks
    return tables


def _number_and_name(file: Path) -> tuple[int, str]:
    """Return the key that sorts `table-2` before `table-10`."""
    _, _, name = file.stem.partition("-")
    digits = re.sub(r"\D", "", name)
    return int(digits or 0), name
