"""Strict reader of the lines of text files, one at a time; errors name file and line."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from sentbed import DataError
from sentbed.errors import listed
from sentbed.helpers import sha256
from sentbed_common import readable, text_lines

Hashes: TypeAlias = dict[Path, str]
"""SHA-256 of each file, over all bytes that were read from it."""


def texts_digest(texts: Sequence[str]) -> str:
    """Return the SHA-256 over a list of texts."""
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()


def single_spaced(text: str) -> str:
    """Return a text with one space between its words, as SentEval gives its texts to an encoder."""
    return " ".join(text.split())


def lines(
    path: Path,
    encoding: str = "utf-8",
    hashes: Hashes | None = None,
) -> Iterator[tuple[int, str]]:
    """Yield the number and the text of each line, as `sentbed_common.text_lines`.

    If `hashes` is given, the SHA-256 of the file is put into it.
    """
    if hashes is not None:
        with readable(path):
            hashes[path] = sha256(path)
    return text_lines(path, encoding)


def read_lines(
    path: Path,
    encoding: str = "utf-8",
    hashes: Hashes | None = None,
) -> list[str]:
    """Return all lines of a file, as `lines` yields them; raises `DataError` if the file is empty."""
    texts = [text for _, text in lines(path, encoding, hashes)]
    if not texts:
        raise DataError("the file is empty; check the download", path)
    return texts


def class_number(
    label: str,
    classes: Sequence[str],
    path: Path,
    line: int,
) -> int:
    """Return the class number of a label; raises `DataError` for an unknown label."""
    if label not in classes:
        raise DataError(
            f"the label is {label!r}, but one of {listed(classes)} was expected; repair the line",
            path,
            line,
        )
    return classes.index(label)
