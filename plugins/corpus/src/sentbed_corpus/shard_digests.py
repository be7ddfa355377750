"""Hashes of the files of shards: `vectors.sha256`, in the format of the program `sha256sum`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from sentbed.errors import DataError, RunError
from sentbed.helpers import cannot_write, read_file, sha256, write_atomic

from sentbed_corpus.vector_writer import VECTORS

FILE = "vectors.sha256"
LARGEST = 1 << 28
"""Largest size in bytes of the file of hashes that is read; it is enough for some million shards."""
_LINE = re.compile(rf"([0-9a-f]{{64}})  {VECTORS}/(part-[0-9]+\.[a-z]+)")


def read_digests(directory: Path) -> dict[str, str] | None:
    """Return name -> SHA-256 of each shard's file; None if the file of hashes is missing or cannot be opened.

    A damaged line is left out, so that its shard counts as damaged.

    Raises:
        RunError: if the file of hashes is larger than `LARGEST`.
    """
    file = directory / FILE
    if not file.is_file():
        return None
    try:
        lines = read_file(file, LARGEST).decode("ascii", errors="replace").split("\n")
    except OSError:
        return None
    except DataError as error:
        raise RunError(f"{error}; start again with `--overwrite`") from error

    digests = {}
    for line in lines:
        match = _LINE.fullmatch(line)
        if match is not None:
            digest, name = match.groups()
            digests[name] = digest
    return digests


def write_digests(directory: Path, digests: Mapping[str, str]) -> None:
    """Write the file of hashes: name of a shard's file -> its hash."""
    lines = [_line(name, digest) for name, digest in sorted(digests.items())]
    write_atomic(directory / FILE, "".join(lines))


def add_digest(
    directory: Path,
    name: str,
    digest: str,
) -> None:
    """Append the hash of a file that was just written. Raises `RunError` if the disk is full."""
    path = directory / FILE
    try:
        with path.open("a", encoding="ascii") as stream:
            stream.write(_line(name, digest))
    except OSError as error:
        raise RunError(cannot_write(path, error)) from error


def is_intact(path: Path, digests: Mapping[str, str]) -> bool:
    """Whether the file of a shard exists and has the hash that `digests` states."""
    try:
        return path.name in digests and sha256(path) == digests[path.name]
    except OSError:
        return False


def _line(name: str, digest: str) -> str:
    return f"{digest}  {VECTORS}/{name}\n"
