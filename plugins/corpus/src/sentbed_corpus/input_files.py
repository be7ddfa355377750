"""Input files of a corpus: how they are found, their formats, and how they are opened."""

from __future__ import annotations

import glob
import importlib.util
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal

import attrs
from sentbed.errors import DataError, RuntimeUnavailableError, listed, suggest
from sentbed.helpers import foreign
from sentbed_common import readable

Kind = Literal["text", "jsonl", "parquet"]

ENDINGS: dict[str, Kind] = {
    ".txt": "text",
    ".txt.gz": "text",
    ".jsonl": "jsonl",
    ".jsonl.gz": "jsonl",
    ".parquet": "parquet",
}


@attrs.frozen
class Source:
    """Input file, with the hash that it had when it was cut into shards."""

    path: str
    digest: str
    """BLAKE2b of the uncompressed text; for a Parquet file, of its bytes."""
    rows: int


@attrs.frozen
class Shard:
    """Consecutive rows of one file, which are encoded together."""

    number: int
    """Index of the shard among the shards of all files, from 0."""
    source: Source
    row: int
    """Index of the first row within the file, from 0."""
    rows: int
    start: int = 0
    """Byte offset of the first row in the uncompressed text; 0 for Parquet files."""

    def __str__(self) -> str:
        return f"rows {self.row + 1} to {self.row + self.rows} of {self.source.path}"


def kind_of(path: Path) -> Kind:
    """Return the format of a file. Raises `DataError` if its ending is unknown."""
    for ending, kind in ENDINGS.items():
        if path.name.lower().endswith(ending):
            return kind
    raise DataError(
        f"the file's ending does not say how to read it; expected one of {listed(ENDINGS)}",
        path,
    )


def find_files(inputs: Sequence[str], output: Path) -> list[Path]:
    """Return the absolute paths of the files that match these paths and patterns, sorted within each input.

    From a directory, all files below it that have a known ending are taken, except hidden files. `output`, and
    files below it, are left out. A path without wildcards is returned even if nothing exists there: the error on
    reading it says why it cannot be read.

    Raises:
        DataError: if an input has no files, or a file is named twice.
    """
    files: list[Path] = []
    targets: list[Path] = []
    resolved_output = output.resolve()
    for path_or_pattern in inputs:
        matching, problem = _matching_files(path_or_pattern)
        outside_output = []
        for file in sorted(matching):
            target = file.resolve()
            if not target.is_relative_to(resolved_output):
                # The target's name may lack the ending, as in the cache of the hub: a link's own name has it.
                outside_output.append(file.parent.resolve() / file.name)
                targets.append(target)
        if not outside_output:
            raise DataError(f"{problem}; check the path", path_or_pattern)
        files += outside_output

    for file, times in Counter(targets).items():
        if times > 1:
            raise DataError(
                "the file is named twice, but its rows are to be encoded once; name it once",
                file,
            )

    return files


def _matching_files(path_or_pattern: str) -> tuple[list[Path], str]:
    """Return the files of an input, and the problem to report if none of them can be used."""
    path = Path(path_or_pattern)
    if path.is_dir():
        files = [file for file in path.rglob("*") if _is_input(file, path)]
        return files, f"the directory has no file that ends in {listed(ENDINGS)}"
    if path.exists() or not glob.has_magic(path_or_pattern):
        return [path], "the file is the output, or in its directory"
    # A pattern may be absolute, which `Path.glob` refuses.
    names = map(Path, glob.glob(path_or_pattern, recursive=True))  # noqa: PTH207
    return list(filter(Path.is_file, names)), "no file fits the pattern"


def _is_input(file: Path, below: Path) -> bool:
    """Whether a file has a known ending, and no part of its path below `below` is hidden."""
    hidden = any(part.startswith(".") for part in file.relative_to(below).parts)
    return file.is_file() and not hidden and file.name.lower().endswith(tuple(ENDINGS))


@contextmanager
def parquet_file(path: str | Path) -> Iterator[Any]:
    """Open a Parquet file. Raises `DataError` if it is not valid."""
    require_pyarrow()
    from pyarrow import parquet

    whole = foreign(
        partial(DataError, file=path),
        "the file cannot be read as Parquet",
        "write it again",
    )
    with (
        whole,
        readable(path),
        parquet.ParquetFile(path) as file,
    ):
        yield file


def require_pyarrow() -> None:
    """Raise `RuntimeUnavailableError` if pyarrow is not installed."""
    if importlib.util.find_spec("pyarrow") is None:
        raise RuntimeUnavailableError(
            "Parquet files need the package `pyarrow`, which is not installed; "
            "run `pip install 'sentbed-corpus[parquet]'`"
        )


def require_columns(
    names: Sequence[str],
    columns: Sequence[str],
    file: object,
    line: int | None,
) -> None:
    """Raise `DataError` for the first of `names` that is missing from `columns`."""
    for name in names:
        if name not in columns:
            choices = listed(columns) or "no columns"
            raise DataError(
                f"there is no column `{name}`; found {choices}.{suggest(name, columns)}",
                file,
                line,
            )
