"""Write what the papers publish into their recipes: one fragment a table, none of its numbers typed by hand.

    python tools/published.py CSV [--paper NAME ...] [--check]

CSV has the columns paper, table, row, column, value and note. `recipes/papers/PAPER/published.toml` says what
recipes call them; from both comes `recipes/papers/PAPER/published/TABLE.toml`, for the `extends` of a study:

    [columns]                       # column -> key of a score, as in `[expected]`; for all tables of a paper
    "STS-B" = "STSB"
    [left_out_columns]              # column -> why it is no score of ours
    Avg = "the report has an average of its own"
    [table-2]                       # what `[study.expected."table 2"]` is to say besides its cells
    tolerance = 0.5
    hardware = "Cloud TPU-v3"
    [table-2.rows]                  # row -> cell, or several: the labels of the axes, joined with ", "
    "ST5-Enc mean | N/A" = "mean, none"
    [table-2.contradicted]          # row of `rows` -> why its cell is not to meet its numbers
    "ST5-Enc mean | N/A" = "table 3 of another paper has 30.87 for 38.78"
    [table-2.studies.table-2-baselines]         # a further study with rows of this table, with what it says
    tolerance = 1.0
    [table-2.studies.table-2-baselines.rows]
    "SBERT-NLI | NLI" = "SBERT"
    [table-2.verify]                # besides, rows that need no training, for `verify.toml`
    tolerance = 0.1
    [table-2.verify.rows]
    "SBERT-NLI | NLI" = "SBERT"
    [table-2.references.figure-1]   # row -> system beside the cells of a study, in tables and plots
    "SBERT-NLI | NLI" = "SBERT"
    [table-2.elsewhere]             # row -> the study of another paper that has it, and the cell there
    "SimCSE | NLI" = "sentence-t5/table-3: simcse, base, bert, cls-mlp"
    [table-2.left_out]              # row -> why no recipe has it
    "InferSent | NLI" = "a recurrent network"

A column that a row has twice has a key for each column that stands before it: `Avg = { MRPC =
"AVG/accuracy", SICK-R = "AVG/spearman" }`. A table may have `columns` and `left_out_columns` of its own,
which go before those of the paper. Every row and every column is in one of its places; a row of
`references`, `contradicted` or `verify` is so besides. What a study has of a system in several tables becomes
one reference.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

PAPERS = Path(__file__).parent.parent / "recipes" / "papers"
MAPPING = "published.toml"
PLACES = {
    "row": ("rows", "elsewhere", "left_out"),
    "column": ("columns", "left_out_columns"),
}
VERIFY = "verify"
"""Name of a paper's recipe with its rows that need no training."""
SETTINGS = ("tolerance", "source", "hardware", "hours", "note")
"""Keys that a table passes on to its study, in the order of the output."""


class Number(NamedTuple):
    """One published number."""

    row: str
    column: str
    value: float
    note: str
    before: str = ""
    """The column before it in its row; empty in the first one."""


Tables = dict[str, dict[str, list[Number]]]
"""Paper -> table -> its numbers, in the file's order."""


class FaultsError(Exception):
    """The CSV and the mapping do not fit together; each argument is one sentence."""


def read_numbers(path: Path) -> Tables:
    """Read the CSV file. Raises `FaultsError`."""
    tables: Tables = {}
    with path.open(encoding="utf-8", newline="") as file:
        for i, line in enumerate(csv.DictReader(file), start=2):
            try:
                row, column, value = line["row"], line["column"], float(line["value"])
                table = tables.setdefault(line["paper"], {}).setdefault(
                    line["table"], []
                )
                before = ""
                if table and table[-1].row == row:
                    before = table[-1].column
                table.append(Number(row, column, value, line["note"] or "", before))
            except (KeyError, TypeError, ValueError) as error:
                message = f"{path}:{i}: expected paper, table, row, column, a number and a note, found {line!r}"
                raise FaultsError(message) from error
    return tables


def fragments(
    numbers: Mapping[str, Sequence[Number]], mapping: Mapping[str, Any]
) -> dict[str, str]:
    """Return the content of each study's file by its name. Raises `FaultsError` with every fault."""
    written: dict[str, list[str]] = {}
    references: dict[str, dict[str, dict[str, dict[str, float]]]] = {}
    faults: list[str] = []
    for table, of_table in numbers.items():
        name = table.replace(" ", "-")
        if name not in mapping:
            faults.append(f"there is no `[{name}]`")
            continue

        table_mapping = {**mapping[name], **_columns(mapping, mapping[name])}
        faults_of_table = [
            f"`[{name}]`: {fault}" for fault in _faults(of_table, table_mapping)
        ]
        if faults_of_table:
            faults += faults_of_table
            continue

        columns = table_mapping["columns"]
        for study, settings in _tables(name, table_mapping).items():
            part = _fragment(table, of_table, {**settings, "columns": columns})
            written.setdefault(f"{study}.toml", []).append(part)
        for study, rows in table_mapping.get("references", {}).items():
            systems = references.setdefault(study, {})
            scores = _scores(of_table, {"rows": rows, "columns": columns})
            for _, system, key, value, _ in scores:
                systems.setdefault(system, {}).setdefault(table, {})[key] = value

    for study, systems in references.items():
        parts = written.setdefault(f"{study}.toml", [])
        parts += (_reference(system, tables) for system, tables in systems.items())
    names_of_tables = {table.replace(" ", "-") for table in numbers} | set(
        PLACES["column"]
    )
    unknown = [name for name in mapping if name not in names_of_tables]
    faults += [f"`[{name}]` is no table of the paper" for name in unknown]
    if faults:
        raise FaultsError(*faults)
    head = f"# Written by tools/published.py from ../{MAPPING} and the published numbers: change those.\n"
    return {name: head + "\n".join(parts) for name, parts in written.items()}


def _columns(
    paper: Mapping[str, Any], table: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """Return `columns` and `left_out_columns`; those of the table override those of the paper."""
    result = {}
    for place, other in (PLACES["column"], PLACES["column"][::-1]):
        of_table, overridden = table.get(place, {}), table.get(other, {})
        of_paper = paper.get(place, {}).items()
        inherited = {key: value for key, value in of_paper if key not in overridden}
        result[place] = inherited | of_table
    return result


def rows_of(settings: Mapping[str, Any]) -> dict[str, set[str]]:
    """Return the places of a table -> their rows: `rows`, `elsewhere`, `left_out`, and each of `studies`."""
    places = {place: set(settings.get(place, {})) for place in PLACES["row"]}
    return places | {
        f"studies.{name}": set(study.get("rows", {}))
        for name, study in settings.get("studies", {}).items()
    }


def _tables(name: str, settings: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return study -> its settings: the one of the table itself, which is called `name`, and the further ones."""
    tables = {name: settings, **settings.get("studies", {})}
    if VERIFY in settings:
        tables[VERIFY] = settings[VERIFY]
    return tables


def _faults(numbers: Sequence[Number], settings: Mapping[str, Any]) -> Iterator[str]:
    yield from _unknown_keys(settings)
    yield from _contradictions_without_row(settings)
    yield from _misplaced_names(numbers, settings)
    yield from _unknown_rows(numbers, settings)

    for number in numbers:
        keys = settings["columns"].get(number.column, "")
        if not isinstance(keys, str) and number.before not in keys:
            yield f"{number.column!r} of {number.row!r} is after {number.before!r}, and has no key for it"
            return

    yield from _unequal_values(numbers, settings)


def _unknown_keys(settings: Mapping[str, Any]) -> Iterator[str]:
    lists = (*PLACES["row"], *PLACES["column"])
    keys = (*SETTINGS, *lists, "contradicted", "studies", "references", VERIFY)
    tables = [("", settings, keys)]
    of_a_study = (*SETTINGS, "rows", "contradicted")
    for name, study in settings.get("studies", {}).items():
        tables.append((f"studies.{name}.", study, of_a_study))
    tables.append((f"{VERIFY}.", settings.get(VERIFY, {}), of_a_study))
    for prefix, table, names in tables:
        for key in table:
            if key not in names:
                yield f"unknown key `{prefix}{key}`"


def _contradictions_without_row(settings: Mapping[str, Any]) -> Iterator[str]:
    for table in _tables("", settings).values():
        for row in table.get("contradicted", {}):
            if row not in table.get("rows", {}):
                yield f"the row {row!r} of `contradicted` is not in the `rows` beside it"


def _misplaced_names(
    numbers: Sequence[Number], settings: Mapping[str, Any]
) -> Iterator[str]:
    """Yield the rows and the columns that are not in exactly one place."""
    rows = dict.fromkeys(number.row for number in numbers)
    columns = dict.fromkeys(number.column for number in numbers)
    places_of_columns = {
        place: set(settings.get(place, {})) for place in PLACES["column"]
    }
    for what, names, places in (
        ("row", rows, rows_of(settings)),
        ("column", columns, places_of_columns),
    ):
        *most, last = (f"`{place}`" for place in places)
        for name in names:
            taken = [f"`{place}`" for place, there in places.items() if name in there]
            if not taken:
                yield f"the {what} {name!r} is in none of {', '.join(most)} and {last}"
            elif len(taken) > 1:
                yield f"the {what} {name!r} is in both {' and '.join(taken)}"


def _unknown_rows(
    numbers: Sequence[Number], settings: Mapping[str, Any]
) -> Iterator[str]:
    rows = {number.row for number in numbers}
    mapped = [*rows_of(settings).values(), *settings.get("references", {}).values()]
    mapped.append(settings.get(VERIFY, {}).get("rows", {}))
    for names in mapped:
        yield from (f"there is no row {name!r}" for name in names if name not in rows)


def _unequal_values(
    numbers: Sequence[Number], settings: Mapping[str, Any]
) -> Iterator[str]:
    """Yield the cells to which two rows give different values of one score."""
    for study in _tables("", settings).values():
        values: dict[tuple[str, str], float] = {}
        table = {**study, "columns": settings["columns"]}
        for row, cell, key, value, _ in _scores(numbers, table):
            first = values.setdefault((cell, key), value)
            if first != value:
                yield f"{cell!r} has {key!r} {first} and, in the row {row!r}, {value}"


def key_of(columns: Mapping[str, Any], column: str, before: str) -> str | None:
    """Return the key of the score that a column has, by the column before it; None if it is left out."""
    key: str | Mapping[str, str] | None = columns.get(column)
    return key[before] if isinstance(key, Mapping) else key


def _scores(
    numbers: Sequence[Number], settings: Mapping[str, Any]
) -> Iterator[tuple[str, str, str, float, str]]:
    """Yield row, cell, key, value and note of each number for the recipes."""
    for number in numbers:
        cells = settings.get("rows", {}).get(number.row, [])
        key = key_of(settings["columns"], number.column, number.before)
        for cell in [cells] if isinstance(cells, str) else cells:
            if key is not None:
                yield number.row, cell, key, number.value, number.note


def _fragment(
    table: str, numbers: Sequence[Number], settings: Mapping[str, Any]
) -> str:
    lines = [
        f"[study.expected.{_text(table)}]",
        *(f"{key} = {_value(settings[key])}" for key in SETTINGS if key in settings),
    ]
    cells: dict[str, dict[str, float]] = {}
    notes: dict[str, dict[str, None]] = {}
    for _, cell, key, value, note in _scores(numbers, settings):
        cells.setdefault(cell, {})[key] = value
        if note:
            notes.setdefault(cell, {})[note] = None
    if contradicted := _contradicted(settings):
        lines += ["", f"[study.expected.{_text(table)}.contradicted]"]
        lines += [
            f"{_text(cell)} = {_text(reason)}" for cell, reason in contradicted.items()
        ]
    for cell, scores in cells.items():
        lines += ["", *(f"# {note}" for note in notes.get(cell, ()))]
        lines.append(f"[study.expected.{_text(table)}.cells.{_text(cell)}]")
        lines += [f"{_key(key)} = {value!r}" for key, value in scores.items()]
    if not cells:
        lines.append("cells = {}")
    return "\n".join(lines) + "\n"


def _contradicted(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the reasons why cells need not reproduce the numbers of their rows."""
    reasons = {}
    for row, reason in settings.get("contradicted", {}).items():
        cells = settings["rows"][row]
        for cell in [cells] if isinstance(cells, str) else cells:
            reasons[cell] = reason
    return reasons


def _reference(system: str, tables: Mapping[str, Mapping[str, float]]) -> str:
    """Return the table of a system that a study shows beside its cells."""
    name = f"study.references.{_text(system)}"
    lines = [
        f"[{name}]",
        f"source = {_text(', '.join(tables))}",
        "",
        f"[{name}.scores]",
    ]
    lines += [
        f"{_key(key)} = {value!r}"
        for scores in tables.values()
        for key, value in scores.items()
    ]
    return "\n".join(lines) + "\n"


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _text(key)


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _value(value: Any) -> str:
    return _text(value) if isinstance(value, str) else repr(value)


def main() -> int:
    """Write or compare the files of every paper; return 1 if there are faults."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("csv", type=Path, help="the published numbers")
    parser.add_argument(
        "--paper", action="append", help="only this paper; may be repeated"
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="write nothing; fail where a file would change",
    )
    parser.add_argument(
        "--recipes",
        type=Path,
        default=PAPERS,
        help="the directory with one directory a paper",
    )
    options = parser.parse_args()
    faults: list[str] = []
    try:
        tables = read_numbers(options.csv)
    except (OSError, FaultsError) as error:
        print(error, file=sys.stderr)
        return 1
    faults += [
        f"the table has no paper {name!r}"
        for name in options.paper or ()
        if name not in tables
    ]
    for paper, numbers in tables.items():
        if options.paper and paper not in options.paper:
            continue
        directory = options.recipes / paper
        try:
            mapping = tomllib.loads((directory / MAPPING).read_text("utf-8"))
            written = fragments(numbers, mapping)
        except (OSError, tomllib.TOMLDecodeError) as error:
            faults.append(f"{directory / MAPPING}: {error}")
        except FaultsError as error:
            faults += [f"{directory / MAPPING}: {fault}" for fault in error.args]
        else:
            faults += _put(directory / "published", written, options.check)
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


def _put(directory: Path, written: Mapping[str, str], check: bool) -> list[str]:
    """Write the files of one paper and delete those of no table, or return the files that differ."""
    there = {path.name: path.read_text("utf-8") for path in directory.glob("*.toml")}
    if check:
        names = {**written, **there}
        return [
            f"{directory / name} is not what the table gives; run this without --check"
            for name in names
            if written.get(name) != there.get(name)
        ]
    directory.mkdir(exist_ok=True)
    for name in there.keys() - written.keys():
        (directory / name).unlink()
    for name, content in written.items():
        (directory / name).write_text(content, "utf-8")
    return []


if __name__ == "__main__":
    sys.exit(main())
