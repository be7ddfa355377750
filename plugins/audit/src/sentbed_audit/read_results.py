"""Reader of results of any format, from folders and single files."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pandas
from sentbed.errors import DataError, listed

from sentbed_audit.findings import Finding
from sentbed_audit.lm_eval_results import is_lm_eval_result, lm_eval_rows
from sentbed_audit.mteb_results import is_mteb_result, mteb_rows
from sentbed_audit.score_rows import COLUMNS, ScoreRow
from sentbed_audit.table_results import score_table_rows


@attrs.frozen(eq=False)
class Results:
    """The scores of all files, and the files that could not be read."""

    scores: pandas.DataFrame
    """A row for each score, with the columns `score_rows.COLUMNS`."""
    unreadable: tuple[Finding, ...]


def read_results(paths: Iterable[str | Path]) -> Results:
    """Read the results in folders and files. Files that are no results are skipped.

    Raises:
        DataError: if a path does not exist, or there is no score in any of them.
    """
    rows: list[tuple[Any, ...]] = []
    unreadable: list[Finding] = []
    places = [Path(path) for path in paths]
    for place in places:
        for file in _files(place):
            try:
                # A damaged file has no row, also where it is damaged at its end.
                rows += [attrs.astuple(row) for row in _rows(file)]
            except (ValueError, OverflowError, OSError, csv.Error) as error:
                name = file.as_posix()
                unreadable.append(Finding("unreadable", name, str(error), (name,)))

    if not rows:
        reason = ""
        if unreadable:
            reason = f"; {unreadable[0].subject}: {unreadable[0].detail}"
        raise DataError(
            f"found no scores in {listed(map(str, places))}{reason}; name folders of MTEB's results, lm-eval's "
            "files, or a CSV with the columns model, task and score; `sentbed compare` compares runs and studies"
        )
    return Results(pandas.DataFrame(rows, columns=list(COLUMNS)), tuple(unreadable))


def _files(place: Path) -> Iterator[Path]:
    """Yield a file, or the JSON and CSV files below a directory."""
    if not place.exists():
        raise DataError(
            "there is no such file or directory; name one that exists", place
        )
    if place.is_file():
        yield place
        return
    for file in sorted(place.rglob("*")):
        if file.suffix in (".json", ".csv") and file.is_file():
            yield file


def _rows(file: Path) -> Iterable[ScoreRow]:
    """Return the scores of a file, in the format that its suffix and its keys show."""
    if file.suffix == ".csv":
        return score_table_rows(file.read_text("utf-8-sig"), file.as_posix())
    content: Any = json.loads(file.read_bytes())
    if is_mteb_result(content):
        return mteb_rows(content, file)
    if is_lm_eval_result(content):
        return lm_eval_rows(content, file)
    return ()
