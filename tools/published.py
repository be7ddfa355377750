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
SAID = ("tolerance", "source", "hardware", "hours", "note")
"""What a table says besides its cells, in this order."""


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
                table = tables.setdefault(line["paper"], {}).setdefault(
                    line["table"], []
                )
                before = (
                    table[-1].column if table and table[-1].row == line["row"] else ""
                )
                table.append(
                    Number(
                        line["row"],
                        line["column"],
                        float(line["value"]),
                        line["note"] or "",
                        before,
                    )
                )
            except (KeyError, TypeError, ValueError) as error:
                message = f"{path}:{i}: expected paper, table, row, column, a number and a note, found {line!r}"
                raise FaultsError(message) from error
    return tables


def fragments(
    numbers: Mapping[str, Sequence[Number]], mapping: Mapping[str, Any]
) -> dict[str, str]:
    """Return the name of each study's file -> its content. Raises `FaultsError` with all that is wrong."""
    written: dict[str, list[str]] = {}
    references: dict[str, dict[str, dict[str, dict[str, float]]]] = {}
    faults: list[str] = []
    for table, found in numbers.items():
        name = table.replace(" ", "-")
        if name not in mapping:
            faults.append(f"there is no `[{name}]`")
            continue
        own = {**mapping[name], **_columns(mapping, mapping[name])}
        wrong = list(_faults(found, own))
        faults += [f"`[{name}]`: {fault}" for fault in wrong]
        if not wrong:
            for study, said in {
                name: own,
                **own.get("studies", {}),
                **_verified(own),
            }.items():
                written.setdefault(f"{study}.toml", []).append(
                    _fragment(table, found, {**said, "columns": own["columns"]})
                )
            for study, rows in own.get("references", {}).items():
                systems = references.setdefault(study, {})
                for _, system, key, value, _ in _scores(
                    found, {"rows": rows, "columns": own["columns"]}
                ):
                    systems.setdefault(system, {}).setdefault(table, {})[key] = value
    for study, systems in references.items():
        parts = written.setdefault(f"{study}.toml", [])
        parts += (_reference(system, tables) for system, tables in systems.items())
    known = {table.replace(" ", "-") for table in numbers} | {
        "columns",
        "left_out_columns",
    }
    faults += [
        f"`[{name}]` is no table of the paper" for name in mapping if name not in known
    ]
    if faults:
        raise FaultsError(*faults)
    head = f"# Written by tools/published.py from ../{MAPPING} and the published numbers: change those.\n"
    return {name: head + "\n".join(parts) for name, parts in written.items()}


def _columns(
    paper: Mapping[str, Any], table: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """Return `columns` and `left_out_columns`, those of the table before those of the paper."""
    taken, left = table.get("columns", {}), table.get("left_out_columns", {})
    return {
        "columns": {k: v for k, v in paper.get("columns", {}).items() if k not in left}
        | taken,
        "left_out_columns": {
            k: v for k, v in paper.get("left_out_columns", {}).items() if k not in taken
        }
        | left,
    }


def rows_of(own: Mapping[str, Any]) -> dict[str, set[str]]:
    """Return the places of a table -> their rows: `rows`, `elsewhere`, `left_out`, and each of `studies`."""
    places = {place: set(own.get(place, {})) for place in PLACES["row"]}
    return places | {
        f"studies.{name}": set(said.get("rows", {})) for name, said in _studies(own)
    }


def _verified(own: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return `verify` as a study, if the table has it."""
    return {VERIFY: own[VERIFY]} if VERIFY in own else {}


def _studies(own: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield from own.get("studies", {}).items()


def _faults(numbers: Sequence[Number], own: Mapping[str, Any]) -> Iterator[str]:
    known = (
        *SAID,
        *PLACES["row"],
        *PLACES["column"],
        "contradicted",
        "studies",
        "references",
        VERIFY,
    )
    yield from (f"unknown key `{key}`" for key in own if key not in known)
    for name, study in _studies(own):
        for key in study:
            if key not in (*SAID, "rows", "contradicted"):
                yield f"unknown key `studies.{name}.{key}`"
    for key in own.get(VERIFY, {}):
        if key not in (*SAID, "rows", "contradicted"):
            yield f"unknown key `{VERIFY}.{key}`"
    for place in (own, *own.get("studies", {}).values(), *_verified(own).values()):
        for row in place.get("contradicted", {}):
            if row not in place.get("rows", {}):
                yield f"the row {row!r} of `contradicted` is not in the `rows` beside it"
    rows, columns = (
        dict.fromkeys(n.row for n in numbers),
        dict.fromkeys(n.column for n in numbers),
    )
    names_of = {place: set(own.get(place, {})) for place in PLACES["column"]}
    for what, names, places in (
        ("row", rows, rows_of(own)),
        ("column", columns, names_of),
    ):
        *most, last = (f"`{place}`" for place in places)
        for name in names:
            having = [f"`{place}`" for place, there in places.items() if name in there]
            if len(having) != 1:
                found = (
                    f"both {' and '.join(having)}"
                    if having
                    else f"none of {', '.join(most)} and {last}"
                )
                yield f"the {what} {name!r} is in {found}"
    named = [*rows_of(own).values(), *map(set, own.get("references", {}).values())]
    named += [set(verified.get("rows", {})) for verified in _verified(own).values()]
    yield from (
        f"there is no row {n!r}" for there in named for n in there if n not in rows
    )
    for number in numbers:
        keys = own["columns"].get(number.column, "")
        if not isinstance(keys, str) and number.before not in keys:
            yield f"{number.column!r} of {number.row!r} is after {number.before!r}, and has no key for it"
            return
    values: dict[tuple[str, str, str], float] = {}
    for name, said in (("", own), *_studies(own), *_verified(own).items()):
        for row, cell, key, value, _ in _scores(
            numbers, {**said, "columns": own["columns"]}
        ):
            if values.setdefault((name, cell, key), value) != value:
                yield f"{cell!r} has {key!r} {values[name, cell, key]} and, in the row {row!r}, {value}"


def key_of(columns: Mapping[str, Any], column: str, before: str) -> str | None:
    """Return the key of the score that a column has, by the column before it; None if it is left out."""
    key: str | Mapping[str, str] | None = columns.get(column)
    return key[before] if isinstance(key, Mapping) else key


def _scores(
    numbers: Sequence[Number], own: Mapping[str, Any]
) -> Iterator[tuple[str, str, str, float, str]]:
    """Yield row, cell, key, value and note of each number that the recipes are to have."""
    for number in numbers:
        cells = own.get("rows", {}).get(number.row, [])
        key = key_of(own["columns"], number.column, number.before)
        for cell in [cells] if isinstance(cells, str) else cells:
            if key is not None:
                yield number.row, cell, key, number.value, number.note


def _fragment(table: str, numbers: Sequence[Number], own: Mapping[str, Any]) -> str:
    lines = [
        f"[study.expected.{_text(table)}]",
        *(f"{key} = {_value(own[key])}" for key in SAID if key in own),
    ]
    cells: dict[str, dict[str, float]] = {}
    notes: dict[str, dict[str, None]] = {}
    for _, cell, key, value, note in _scores(numbers, own):
        cells.setdefault(cell, {})[key] = value
        if note:
            notes.setdefault(cell, {})[note] = None
    if contradicted := _contradicted(own):
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


def _contradicted(own: Mapping[str, Any]) -> dict[str, str]:
    """Return cell -> why it is not to meet the numbers of its row."""
    reasons = {}
    for row, reason in own.get("contradicted", {}).items():
        cells = own["rows"][row]
        for cell in [cells] if isinstance(cells, str) else cells:
            reasons[cell] = reason
    return reasons


def _reference(system: str, tables: Mapping[str, Mapping[str, float]]) -> str:
    """Return what a study has of a system: table -> key of a score -> number."""
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
    """Write or compare the files of every paper; 1 where something does not fit."""
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
    """Write the files of one paper and take away those of no table, or return what differs."""
    there = {path.name: path.read_text("utf-8") for path in directory.glob("*.toml")}
    if check:
        differ = [
            name
            for name in {**written, **there}
            if written.get(name) != there.get(name)
        ]
        return [
            f"{directory / name} is not what the table gives; run this without --check"
            for name in differ
        ]
    directory.mkdir(exist_ok=True)
    for name in there.keys() - written.keys():
        (directory / name).unlink()
    for name, content in written.items():
        (directory / name).write_text(content, "utf-8")
    return []


if __name__ == "__main__":
    sys.exit(main())
