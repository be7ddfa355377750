"""Reader of results of any format, from folders, archives and single files."""

from __future__ import annotations

import csv
import json
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Any, TypeAlias

import attrs
from sentbed.errors import DataError, SentbedError, listed
from sentbed.helpers import read_file, reason_of

from sentbed_audit.declared_training import DeclaredTraining, declared_training
from sentbed_audit.lm_eval_results import is_lm_eval_result, lm_eval_rows
from sentbed_audit.mteb_results import is_mteb_result, mteb_rows
from sentbed_audit.score_rows import COLUMNS, ScoreRow, Unreadable
from sentbed_audit.sentbed_results import run_rows, study_rows
from sentbed_audit.table_results import is_score_table, table_rows

if TYPE_CHECKING:
    import pandas

LARGEST_FILE = 64 << 20
"""Maximum size of a result file in bytes. Even files of retrieval tasks have only a few hundred kB."""

LARGEST_ARCHIVE = 512 << 20
"""Maximum size of all result files in an archive, in bytes: a small archive may unpack to any size. The results
of MTEB's English benchmark have a quarter of it."""

ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".txz", ".tar.bz2", ".zip")
RUN, STUDY = "report.json", "study.json"


@attrs.frozen(eq=False)
class Results:
    """The scores of all files, the files that could not be read, and declared training data."""

    rows: Sequence[ScoreRow]
    unreadable: tuple[Unreadable, ...]
    declared: tuple[DeclaredTraining, ...] = ()
    """Training data that models declare, with one entry per model and revision."""

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


Content: TypeAlias = list[ScoreRow] | DeclaredTraining | Unreadable
"""Content of a file: its scores, the training data that it declares, or the reason why it cannot be read. A
file that is no result file has no scores."""


def read_results(paths: Iterable[str | Path]) -> Results:
    """Read the results in folders, archives and files.

    JSON files that are no results are skipped. Archives are read as streams: nothing is unpacked to the disk.
    Links are not followed.

    Raises:
        DataError: if a path does not exist, or there is no score in any of them.
    """
    rows: list[ScoreRow] = []
    unreadable: list[Unreadable] = []
    declared: list[DeclaredTraining] = []
    places = [Path(path) for path in paths]
    for place in places:
        for content in _contents(place):
            if isinstance(content, Unreadable):
                unreadable.append(content)
            elif isinstance(content, DeclaredTraining):
                declared.append(content)
            else:
                rows += content

    if not rows:
        reason = ""
        if unreadable:
            reason = f"; {unreadable[0].file}: {unreadable[0].reason}"
        raise DataError(
            f"found no scores in {listed(map(str, places))}{reason}; name folders or archives of MTEB's "
            "results, directories of runs or studies, lm-eval's files, or a CSV with the columns model, task "
            "and score"
        )
    return Results(rows, tuple(unreadable), tuple(declared))


def _contents(path: Path) -> Iterator[Content]:
    """Yield the content of each file at or below a path."""
    if not path.exists():
        raise DataError(
            "there is no such file or directory; name one that exists", path
        )
    if path.is_dir():
        yield from _of_directory(path)
    elif path.name.endswith(ARCHIVES):
        yield from _of_archive(path)
    else:
        yield _of_file(path, PurePosixPath(path.as_posix()))


def _of_directory(directory: Path) -> Iterator[Content]:
    """Yield the content of a directory: the scores of a study or a run, or else of each file below it."""
    if (directory / STUDY).is_file():
        yield _of_records(directory, study_rows)
        return
    if (directory / RUN).is_file():
        yield _of_records(directory, run_rows)
        return
    for entry in sorted(directory.iterdir()):
        if entry.is_symlink():
            continue
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
        return _parsed(read_file(file, LARGEST_FILE), name)
    except (SentbedError, OSError) as error:
        return Unreadable(str(name), reason_of(error))


def _of_archive(path: Path) -> Iterator[Content]:
    """Yield the content of each file of an archive, unpacked in memory one by one."""
    members = _tar_members
    if path.name.endswith(".zip"):
        members = _zip_members
    total = 0
    try:
        for name, size, stream in members(path):
            if name.suffix not in (".json", ".csv"):
                continue
            if size > LARGEST_FILE:
                yield Unreadable(str(name), f"it has more than {LARGEST_FILE:,} bytes")
                continue
            total += size
            if total > LARGEST_ARCHIVE:
                yield Unreadable(
                    str(path),
                    f"its results have more than {LARGEST_ARCHIVE:,} bytes; the rest is not read, unless you "
                    "unpack it and name the folder",
                )
                return
            yield _parsed(stream.read(LARGEST_FILE), name)
    except (
        tarfile.TarError,
        zipfile.BadZipFile,
        zlib.error,
        lzma.LZMAError,
        EOFError,
        OSError,
        RuntimeError,
    ) as error:
        # Damaged bytes raise the exceptions of zlib and lzma, which are no `OSError`.
        # The message of `tarfile` has a further line for each compression that it tried.
        reason = str(error).partition("\n")[0].removesuffix(":")
        yield Unreadable(str(path), f"the archive is damaged: {reason}")


def _tar_members(path: Path) -> Iterator[tuple[PurePosixPath, int, IO[bytes]]]:
    """Yield the path, the size and the stream of each regular file in a tar archive."""
    with tarfile.open(path, mode="r:*") as archive:
        for member in archive:
            if not member.isreg():
                continue
            stream = archive.extractfile(member)
            if stream is not None:
                yield PurePosixPath(member.name), member.size, stream


def _zip_members(path: Path) -> Iterator[tuple[PurePosixPath, int, IO[bytes]]]:
    """Yield the path, the size and the stream of each file in a zip archive."""
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if not member.is_dir():
                with archive.open(member) as stream:
                    yield PurePosixPath(member.filename), member.file_size, stream


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
        declared = declared_training(document, name)
        if declared is not None:
            return declared
    except (ValueError, OverflowError, csv.Error) as error:
        return Unreadable(str(name), str(error))

    return []
