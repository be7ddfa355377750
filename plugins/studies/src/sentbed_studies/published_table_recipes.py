"""Finds the recipes that reproduce tables of papers, and compares measured numbers with the published ones."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs
from sentbed.errors import RunError, suggest
from sentbed_report.formatting import count, expected_digits, signed
from sentbed_report.formatting import number as formatted
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
"""Name of the recipe with those rows of a paper that need no training: a study with one cell per check."""

WITHIN = "within"
NOT_WITHIN = "not within"
NOT_MEASURED = "not measured"
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
    current = Path.cwd()
    above = [parent / PLACE for parent in (current, *current.parents)]
    for place in (*above, INSTALLED, CLONED):
        if place.is_dir():
            return place
    raise RunError(
        f"there is no `{PLACE}` here or above; name the directory of the papers' recipes (`--recipes`)"
    )


def papers_in(papers: Path) -> list[str]:
    """Return the names of the papers that have recipes."""
    return sorted(place.name for place in papers.iterdir() if place.is_dir())


def find_table(papers: Path, paper: str, table: str) -> Path:
    """Return the recipe of a table or figure, by file name. Raises `RunError`."""
    tables = tables_of(papers, paper)
    name = f"table-{table}" if table.isdigit() else table.lower().replace(" ", "-")
    if name not in tables:
        raise RunError(
            f"there is no recipe of `{table}` of `{paper}`.{suggest(name, list(tables))}"
        )
    return tables[name]


def tables_of(papers: Path, paper: str) -> dict[str, Path]:
    """Return the recipes of a paper by name: tables, figures, sections, appendices. Raises `RunError`."""
    names = papers_in(papers)
    if paper not in names:
        raise RunError(
            f"there are no recipes of `{paper}` in `{papers}`.{suggest(paper, names)}"
        )
    tables = {}
    for kind in KINDS:
        for file in sorted(
            (papers / paper).glob(f"{kind}-*.toml"), key=_number_and_name
        ):
            tables[file.stem] = file
    return tables


def _number_and_name(file: Path) -> tuple[int, str]:
    _, _, name = file.stem.partition("-")
    digits = re.sub(r"\D", "", name)
    return int(digits or 0), name


def published_of(study: Study) -> Iterator[str]:
    """Yield a line on each published table of a study: how many numbers, on which hardware."""
    for title, published in study.table.expected.items():
        line = f"{title}: {sum(map(len, published.cells.values()))} numbers"
        if published.hardware:
            line += f", {published.hardware}"
        if published.hours is not None:
            line += f", about {published.hours:g} hours a cell"
        yield line


def published_table(study: Study) -> Iterator[str]:
    """Yield the lines of a table: the published numbers of a study's cells, with their tolerance."""
    names = set(study.names)
    rows = [("cell", "score", "theirs", "tolerance")]
    remarks = []
    for title, published in study.table.expected.items():
        for cell, numbers in published.cells.items():
            if cell not in names:
                continue
            tolerance = (
                "" if published.tolerance is None else f"{published.tolerance:g}"
            )
            if cell in published.contradicted:
                tolerance = CONTRADICTED
                remarks.append(
                    f"{CONTRADICTED}: {title}, {cell}: {published.contradicted[cell]}"
                )
            rows += [
                (cell, key, f"{value:g}", tolerance) for key, value in numbers.items()
            ]
    if len(rows) > 1:
        yield from aligned(rows, left=2)
    yield from remarks


def numbers_of(data: StudyData) -> tuple[Number, ...]:
    """Return the published numbers of finished cells with the numbers found."""
    finished = {
        run.cell for cell in data.cells for run in cell.runs if run.status == "finished"
    }
    # Without a baseline there is no resampling.
    summaries = summarise(attrs.evolve(data, baseline=None))
    return tuple(
        number
        for number in published_numbers(data, summaries)
        if number.cell in finished
    )


def verdict(number: Number) -> str:
    """Return a word on whether a number was reproduced."""
    row = number.row
    if row.found is None:
        return NOT_MEASURED if row.fits == 1 else f"the key fits {row.fits} scores"
    if row.contradicted:
        return CONTRADICTED
    if row.tolerance is None:
        return "shown only"
    return WITHIN if row.met else NOT_WITHIN


def comparison(numbers: Sequence[Number]) -> Iterator[str]:
    """Yield the lines of a table: our number, the published one, difference, tolerance and verdict."""
    rows = [("cell", "score", "ours", "theirs", "difference", "tolerance", "")]
    verdicts: Counter[str] = Counter()
    decided = 0
    reasons: dict[str, None] = {}
    for number in numbers:
        row = number.row
        digits = expected_digits(row)
        tolerance = "" if row.tolerance is None else formatted(row.tolerance, digits)
        ours, theirs = formatted(row.found, digits), formatted(row.value, digits)
        word = verdict(number)
        difference = signed(row.difference, digits)
        rows.append((number.cell, row.key, ours, theirs, difference, tolerance, word))
        verdicts[word] += 1
        decided += _decides(number)
        if word == CONTRADICTED:
            reasons[
                f"{CONTRADICTED}: {row.source}, {number.cell}: {row.contradicted}"
            ] = None
    yield from aligned(rows, left=2)

    line = f"{verdicts[WITHIN]} of {count(decided, 'number')} within their tolerance"
    if verdicts[NOT_MEASURED]:
        line += f"; {verdicts[NOT_MEASURED]} not measured"
    if verdicts[CONTRADICTED]:
        line += f"; {verdicts[CONTRADICTED]} contradicted, which do not count"
    yield line
    yield from reasons


def missed(numbers: Sequence[Number]) -> bool:
    """Whether a number with a tolerance was measured but not reproduced."""
    return any(_decides(number) and verdict(number) != WITHIN for number in numbers)


def _decides(number: Number) -> bool:
    """Whether a number has a tolerance and matches at least one score."""
    return number.row.decides and (number.row.found is not None or number.row.fits > 1)
