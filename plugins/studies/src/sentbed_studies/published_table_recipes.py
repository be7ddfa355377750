"""Recipes of published tables, and comparison of their results with the published ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

import attrs
from sentbed.errors import RunError, suggest
from sentbed_report.formatting import count, expected_digits, number, signed
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.published_number_comparison import Number, published_numbers
from sentbed_report.study.study_data import StudyData
from sentbed_report.tables.terminal import aligned

from sentbed_studies.study import Study

PLACE = Path("recipes") / "papers"
"""Directory of papers' recipes, with one directory per paper and one file per table or figure."""
KINDS = ("table", "figure", "section", "appendix")
"""What of a paper has a recipe, in the order of lists: sections and appendices have numbers in their text."""
INSTALLED = Path(__file__).parent / PLACE
"""The same in an installed distribution; see `hatch_build.py`."""
CLONED = Path(__file__).parents[4] / PLACE
"""The same in a clone whose distributions are installed in editable form."""

CHECKS = "verify.toml"
"""Recipe of a paper with its rows that need no training: a study, a cell a check."""

WITHIN = "within"
NOT_WITHIN = "not within"
"""Verdicts on a measured number that has a tolerance."""
CONTRADICTED = "contradicted"
"""Verdict on a number that its cell is not to meet; see `Published.contradicted`."""


def find_papers(directory: str | Path | None = None) -> Path:
    """Return the directory of the papers' recipes.

    It is the given one, the nearest one above the current directory, or that of the installed distribution.

    Raises:
        RunError: where there is none.
    """
    if directory is not None:
        if not Path(directory).is_dir():
            raise RunError(
                f"there is no directory `{directory}`; name the one that holds the papers' recipes"
            )
        return Path(directory)
    here = Path.cwd()
    for place in (here, *here.parents):
        if (place / PLACE).is_dir():
            return place / PLACE
    if found := next((place for place in (INSTALLED, CLONED) if place.is_dir()), None):
        return found
    raise RunError(
        f"there is no `{PLACE}` here or above; name the directory of the papers' recipes (`--recipes`)"
    )


def find_table(papers: Path, paper: str, table: str) -> Path:
    """Return the recipe of a table or figure, by file name. Raises `RunError`."""
    found = tables_of(papers, paper)
    name = f"table-{table}" if table.isdigit() else table.lower().replace(" ", "-")
    if name not in found:
        raise RunError(f"there is no recipe of `{table}` of `{paper}`.{suggest(name, list(found))}")
    return found[name]


def tables_of(papers: Path, paper: str) -> dict[str, Path]:
    """Return the recipes of a paper by name: tables, figures, sections, appendices. Raises `RunError`."""
    names = sorted(place.name for place in papers.iterdir() if place.is_dir())
    if paper not in names:
        raise RunError(f"there are no recipes of `{paper}` in `{papers}`.{suggest(paper, names)}")
    files = chain.from_iterable((papers / paper).glob(f"{kind}-*.toml") for kind in KINDS)
    return {file.stem: file for file in sorted(files, key=_order)}


def _order(file: Path) -> tuple[int, int, str]:
    kind, _, rest = file.stem.partition("-")
    digits = "".join(c for c in rest if c.isdigit())
    return (KINDS.index(kind), int(digits or 0), rest)


def published_of(study: Study) -> Iterator[str]:
    """Yield a line on each published table of a study: how many numbers, on which hardware."""
    for title, found in study.table.expected.items():
        facts = [f"{sum(map(len, found.cells.values()))} numbers"]
        if found.hardware:
            facts.append(found.hardware)
        if found.hours is not None:
            facts.append(f"about {found.hours:g} hours a cell")
        yield f"{title}: {', '.join(facts)}"


def published_table(study: Study) -> Iterator[str]:
    """Yield the lines of a table: the published numbers of a study's cells, with their tolerance."""
    names = set(study.names)
    rows = [("cell", "score", "theirs", "tolerance")]
    remarks = []
    for title, found in study.table.expected.items():
        for cell, numbers in found.cells.items():
            if cell not in names:
                continue
            tolerance = "" if found.tolerance is None else f"{found.tolerance:g}"
            if cell in found.contradicted:
                tolerance = CONTRADICTED
                remarks.append(f"{CONTRADICTED}: {title}, {cell}: {found.contradicted[cell]}")
            rows += [(cell, key, f"{value:g}", tolerance) for key, value in numbers.items()]
    if len(rows) > 1:
        yield from aligned(rows, left=2)
    yield from remarks


def numbers_of(data: StudyData) -> tuple[Number, ...]:
    """Return the published numbers of finished cells with the numbers found."""
    finished = {cell.name for cell in data.cells if any(run.status == "finished" for run in cell.runs)}
    # Without a baseline there is no resampling.
    alone = attrs.evolve(data, baseline=None)
    return tuple(found for found in published_numbers(data, summarise(alone)) if found.cell in finished)


def verdict(found: Number) -> str:
    """Return a word on whether a number was reproduced."""
    row = found.row
    if row.found is None:
        return "not measured" if row.fits == 1 else f"the key fits {row.fits} scores"
    if row.contradicted:
        return CONTRADICTED
    if row.tolerance is None:
        return "shown only"
    return WITHIN if row.met else NOT_WITHIN


def comparison(numbers: Sequence[Number]) -> Iterator[str]:
    """Yield the lines of a table: our number, the published one, difference, tolerance and verdict."""
    rows = [("cell", "score", "ours", "theirs", "difference", "tolerance", "")]
    for found in numbers:
        row = found.row
        tolerance = "" if row.tolerance is None else number(row.tolerance, expected_digits(row))
        ours, theirs = number(row.found, expected_digits(row)), number(row.value, expected_digits(row))
        difference = signed(row.difference, expected_digits(row))
        rows.append((found.cell, row.key, ours, theirs, difference, tolerance, verdict(found)))
    yield from aligned(rows, left=2)
    decided = [found for found in numbers if _decided(found)]
    within = sum(verdict(found) == WITHIN for found in decided)
    left = sum(verdict(found) == "not measured" for found in numbers)
    contradicted = [found for found in numbers if verdict(found) == CONTRADICTED]
    beside = ""
    if left:
        beside += f"; {left} not measured"
    if contradicted:
        beside += f"; {len(contradicted)} contradicted, which do not count"
    yield f"{within} of {count(len(decided), 'number')} within their tolerance{beside}"
    reasons = dict.fromkeys((found.cell, found.row.source, found.row.contradicted) for found in contradicted)
    for cell, source, reason in reasons:
        yield f"{CONTRADICTED}: {source}, {cell}: {reason}"


def missed(numbers: Sequence[Number]) -> bool:
    """Whether a number with a tolerance was measured but not reproduced."""
    return any(_decided(found) and verdict(found) != WITHIN for found in numbers)


def _decided(found: Number) -> bool:
    """Whether a number has a tolerance and matches at least one score."""
    return found.row.decides and (found.row.found is not None or found.row.fits > 1)
