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
    """Files, directories, patterns such as `corpus/*.jsonl` and data sets of the hub, in the order in which they
    are encoded."""
    output: Path
    """Directory for the vectors, or the `.npy` file of `encode_array`."""
    runtime: Mapping[str, Any] = attrs.field(factory=lambda: {"use": "cpu"})
    """The runtime, as its table in a recipe."""
    column: str = "text"
    """Column with the text in tables."""
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
