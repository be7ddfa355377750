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
    """Files, directories and patterns such as `corpus/*.jsonl`, in the order in which they are encoded."""
    output: Path
    """Directory for the vectors."""
    runtime: Mapping[str, Any] = attrs.field(factory=lambda: {"use": "cpu"})
    """The runtime, as its table in a recipe."""
    column: str = "text"
    """Column with the text in JSONL and Parquet files."""
    keep: tuple[str, ...] = ()
    """Columns that are copied into the output beside the vectors; only for the format `parquet`."""
    format: Literal["npy", "parquet"] = attrs.field(
        default="npy", validator=in_(("npy", "parquet"))
    )
    """Format of the files with the vectors."""
    dtype: Literal["float32", "float16"] = attrs.field(
        default="float32", validator=in_(("float32", "float16"))
    )
    """Type of the vectors' numbers."""
    shard_rows: int = attrs.field(default=WINDOW, validator=ge(1))
    """Number of rows that are encoded, held in memory and written together. If a worker dies, at most this many
    rows are encoded again."""
    trust_remote_code: bool = False
    """See `Encoder.load`."""
    prompt: str = ""
    """Key in the encoder's `task_prompts`, such as `query`; if empty, texts get the encoder's usual prompt."""
    instruction: str = ""
    """Text in the place of `{instruction}` in this prompt."""
