"""Request to encode a corpus: its files, the encoder and the settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import attrs
from attrs.validators import ge, in_
from sentbed.tools import WINDOW


@attrs.frozen
class Request:
    """Everything that determines how a corpus is encoded."""

    encoder: str
    """Directory of a saved encoder."""
    inputs: tuple[str, ...]
    """Files, directories and patterns such as `corpus/*.jsonl`, in the order of the output."""
    output: Path
    """Directory for the vectors."""
    runtime: Mapping[str, Any] = attrs.field(factory=lambda: {"use": "cpu"})
    """Recipe table of a runtime."""
    column: str = "text"
    """Column of the sentence in JSONL and Parquet."""
    keep: tuple[str, ...] = ()
    """Columns to copy into the output besides the vectors; only for Parquet."""
    format: Literal["npy", "parquet"] = attrs.field(
        default="npy", validator=in_(("npy", "parquet"))
    )
    dtype: Literal["float32", "float16"] = attrs.field(
        default="float32", validator=in_(("float32", "float16"))
    )
    shard_rows: int = attrs.field(default=WINDOW, validator=ge(1))
    """Number of rows encoded and written together, which are held in memory and lost if a worker dies."""
    trust_remote_code: bool = False
    """See `Encoder.load`."""
    prompt: str = ""
    """Key of the encoder's `task_prompts`, such as `query`; empty for its own prompt."""
    instruction: str = ""
    """Text in the place of `{instruction}` in that prompt."""


def counted(number: int, noun: str) -> str:
    """Return a number with a noun, which is in the plural unless the number is 1."""
    if number == 1:
        return f"1 {noun}"
    return f"{number} {noun}s"
