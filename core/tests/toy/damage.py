"""What can happen to a file on disk."""

from __future__ import annotations

from pathlib import Path


def flip(path: Path) -> None:
    """Turn one bit in the middle."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def truncate(path: Path) -> None:
    """Take the last byte."""
    path.write_bytes(path.read_bytes()[:-1])
