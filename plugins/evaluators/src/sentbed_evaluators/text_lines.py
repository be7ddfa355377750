"""Lines of text files, the words and the labels in them, and the digest of texts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from sentbed import DataError
from sentbed.errors import listed
from sentbed_common import text_lines


def texts_digest(texts: Sequence[str]) -> str:
    """Return the SHA-256 over a list of texts."""
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()


def single_spaced(text: str) -> str:
    """Return a text with one space between its words, as SentEval gives its texts to an encoder."""
    return " ".join(text.split())


def read_lines(path: Path, encoding: str = "utf-8") -> list[str]:
    """Return all lines of a file; raises `DataError` if the file is empty."""
    texts = [text for _, text in text_lines(path, encoding)]
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
            f"the label is {label!r:.40}, but one of {listed(classes)} was expected; repair the line",
            path,
            line,
        )
    return classes.index(label)
