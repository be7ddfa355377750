"""What is to be encoded, and how."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import attrs
from attrs.validators import ge, in_
from sentbed.tools import WINDOW


@attrs.frozen
class Request:
    """What is to be encoded, and how."""

    encoder: str
    """The directory of a saved encoder."""
    inputs: tuple[str, ...]
    """Files, directories and patterns such as `corpus/*.jsonl`, in the order of their rows."""
    output: Path
    """The directory for the vectors."""
    runtime: Mapping[str, Any] = attrs.field(factory=lambda: {"use": "cpu"})
    """The recipe table of a runtime."""
    column: str = "text"
    """Where JSONL and Parquet have the sentence."""
    keep: tuple[str, ...] = ()
    """Columns that go into the output, beside the vectors; for Parquet."""
    format: Literal["npy", "parquet"] = attrs.field(default="npy", validator=in_(("npy", "parquet")))
    dtype: Literal["float32", "float16"] = attrs.field(
        default="float32", validator=in_(("float32", "float16"))
    )
    shard_rows: int = attrs.field(default=WINDOW, validator=ge(1))
    """Rows that are encoded and written together: what is lost when a worker dies, and held in memory."""
