"""Reader of tables of scores: CSV files with the columns `model`, `task` and `score`.

A table may also have the columns `revision`, `split`, `subset`, `metric`, `seed` and `data_revision`. Lines that
are equal in all of these but the seed are averaged.
"""

from __future__ import annotations

import csv
import io

from sentbed_audit.score_rows import ScoreRow

REQUIRED = ("model", "task", "score")
OPTIONAL = {
    "revision": "",
    "split": "test",
    "subset": "default",
    "metric": "score",
    "seed": "",
    "data_revision": "",
}
"""Column -> value of a line without one."""


def score_table_rows(text: str, file: str) -> list[ScoreRow]:
    """Return the score of each line; a table that lacks a required column has none.

    Raises:
        ValueError: if a required column occurs twice; or, with its line, if a score is no number.
    """
    reader = csv.DictReader(io.StringIO(text, newline=""))
    columns = [name.strip().lower() for name in reader.fieldnames or ()]
    for name in REQUIRED:
        if name not in columns:
            return []
        if columns.count(name) > 1:
            raise ValueError(f"there are {columns.count(name)} columns `{name}`")

    reader.fieldnames = columns
    rows = []
    for line in reader:
        values = {}
        for name in ("model", "task", *OPTIONAL):
            values[name] = (line.get(name) or OPTIONAL.get(name, "")).strip()
        score = (line["score"] or "").strip()
        try:
            rows.append(ScoreRow(**values, score=float(score), file=file))
        except ValueError as error:
            raise ValueError(
                f"line {reader.line_num}: the score is {score!r:.80}, expected a number"
            ) from error
    return rows
