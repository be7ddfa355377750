"""Reader of tables of scores: CSV files with the columns `model`, `task` and `score`.

A table may also have the columns `revision`, `split`, `subset`, `metric`, `seed`, `software` and `data_revision`.
Lines that are equal in all of these but the seed are averaged.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

from sentbed_audit.score_rows import ScoreRow

REQUIRED = ("model", "task", "score")


def is_score_table(text: str) -> bool:
    """Whether a CSV file has the required columns."""
    header = next(csv.reader(io.StringIO(text[:100_000])), [])
    return set(REQUIRED) <= set(_columns(header))


def _columns(header: Iterable[str]) -> list[str]:
    """Return the names of columns in lower case and without surrounding white space."""
    return [name.strip().lower() for name in header]


def table_rows(text: str, file: str) -> Iterator[ScoreRow]:
    """Yield the score of each line.

    Raises:
        ValueError: if a required column occurs twice; or, with its line, if a score or a seed is no number.
    """
    reader = csv.DictReader(io.StringIO(text, newline=""))
    columns = _columns(reader.fieldnames or ())
    for name in REQUIRED:
        if columns.count(name) > 1:
            raise ValueError(f"there are {columns.count(name)} columns `{name}`")
    reader.fieldnames = columns
    for line in reader:
        try:
            yield _row(line, file)
        except (ValueError, csv.Error) as error:
            raise ValueError(f"line {reader.line_num}: {error}") from error


def _row(line: Mapping[str, str | None], file: str) -> ScoreRow:
    """Return the score of a line; raises `ValueError` if the score or the seed is no number."""

    def text(column: str, default: str = "") -> str:
        return (line.get(column) or default).strip()

    seed = None
    if text("seed"):
        seed = _seed(text("seed"))
    return ScoreRow(
        model=text("model"),
        revision=text("revision"),
        task=text("task"),
        split=text("split", "test"),
        subset=text("subset", "default"),
        metric=text("metric", "score"),
        score=_score(text("score")),
        software=text("software"),
        data_revision=text("data_revision"),
        layout="table",
        file=file,
        seed=seed,
    )


def _seed(written: str) -> int:
    """Return a seed; raises `ValueError` if it is no whole number."""
    try:
        return int(written)
    except ValueError:
        # Seeds that pandas has written beside missing ones end in `.0`.
        with suppress(ValueError):
            seed = float(written)
            if seed.is_integer():
                return int(seed)
    raise ValueError(f"the seed is {written!r:.80}, expected a whole number")


def _score(written: str) -> float:
    """Return a score; raises `ValueError` if it is no finite number."""
    try:
        number = float(written)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"the score is {written!r:.80}, expected a finite number")
    return number
