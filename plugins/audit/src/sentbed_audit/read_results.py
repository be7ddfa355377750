"""Reader of results of any format, from folders and single files."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs
from sentbed.errors import DataError, SentbedError, listed
from sentbed.helpers import reason_of
from sentbed_report.study.read_cell_run import REPORT
from sentbed_report.study.read_study_directory import is_study

from sentbed_audit.lm_eval_results import is_lm_eval_result, lm_eval_rows
from sentbed_audit.mteb_results import is_mteb_result, mteb_rows
from sentbed_audit.score_rows import COLUMNS, ScoreRow, Unreadable
from sentbed_audit.sentbed_results import run_rows, study_rows
from sentbed_audit.table_results import is_score_table, table_rows

if TYPE_CHECKING:
    import pandas


@attrs.frozen(eq=False)
class Results:
    """The scores of all files, and the files that could not be read."""

    rows: Sequence[ScoreRow]
    unreadable: tuple[Unreadable, ...]

    @cached_property
    def scores(self) -> pandas.DataFrame:
        """The scores as a frame, with the columns `score_rows.COLUMNS`."""
        import pandas

        records = [attrs.astuple(row) for row in self.rows]
        return pandas.DataFrame(records, columns=list(COLUMNS))

    @property
    def files(self) -> int:
        """Number of files that had scores."""
        return len({row.file for row in self.rows})


Content: TypeAlias = list[ScoreRow] | Unreadable
"""Scores of a file, or the reason why it cannot be read. A file that is no result file has no scores."""


def read_results(paths: Iterable[str | Path]) -> Results:
    """Read the results in folders and files. JSON files that are no results are skipped.

    Raises:
        DataError: if a path does not exist, or there is no score in any of them.
    """
    rows: list[ScoreRow] = []
    unreadable: list[Unreadable] = []
    places = [Path(path) for path in paths]
    for place in places:
        for content in _contents(place):
            if isinstance(content, Unreadable):
                unreadable.append(content)
            else:
                rows += content

    if not rows:
        reason = ""
        if unreadable:
            reason = f"; {unreadable[0].file}: {unreadable[0].reason}"
        raise DataError(
            f"found no scores in {listed(map(str, places))}{reason}; name folders of MTEB's "
            "results, directories of runs or studies, lm-eval's files, or a CSV with the columns model, task "
            "and score"
        )
    return Results(rows, tuple(unreadable))


def _contents(path: Path) -> Iterator[Content]:
    """Yield the content of each file at or below a path."""
    if not path.exists():
        raise DataError(
            "there is no such file or directory; name one that exists", path
        )
    if path.is_dir():
        yield from _of_directory(path)
    else:
        yield _of_file(path, PurePosixPath(path.as_posix()))


def _of_directory(directory: Path) -> Iterator[Content]:
    """Yield the content of a directory: the scores of a study or a run, or else of each file below it."""
    if is_study(directory):
        yield _of_records(directory, study_rows)
        return
    if (directory / REPORT).is_file():
        yield _of_records(directory, run_rows)
        return
    for entry in sorted(directory.iterdir()):
        if entry.is_dir():
            yield from _of_directory(entry)
        elif entry.suffix in (".json", ".csv"):
            yield _of_file(entry, PurePosixPath(entry.as_posix()))


def _of_records(
    directory: Path, read: Callable[[Path], Iterator[ScoreRow]]
) -> list[ScoreRow] | Unreadable:
    """Return the scores that `read` yields from the directory of a study or run, or why it cannot be read."""
    try:
        return list(read(directory))
    except (SentbedError, OSError) as error:
        return Unreadable(str(directory), reason_of(error))


def _of_file(file: Path, name: PurePosixPath) -> Content:
    """Return the content of a file; `name` is the path by which findings name it."""
    try:
        return _parsed(file.read_bytes(), name)
    except (SentbedError, OSError) as error:
        return Unreadable(str(name), reason_of(error))


def _parsed(content: bytes, name: PurePosixPath) -> Content:
    """Return the content of a file in the format that its suffix and its keys show."""
    try:
        if name.suffix == ".csv":
            text = content.decode("utf-8-sig")
            if is_score_table(text):
                return list(table_rows(text, str(name)))
            return []
        document: Any = json.loads(content)
        if is_mteb_result(document):
            return list(mteb_rows(document, name))
        if is_lm_eval_result(document):
            return list(lm_eval_rows(document, name))
    except (ValueError, OverflowError, csv.Error) as error:
        return Unreadable(str(name), str(error))

    return []
