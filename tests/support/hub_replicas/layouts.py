"""The table of layouts, `layouts.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs


@attrs.frozen(kw_only=True)
class Layout:
    """One row of `layouts.toml`, which has the meaning of the fields."""

    name: str
    source: str
    architecture: str
    weights: tuple[str, ...]
    tokenizer: str
    tokenizer_files: tuple[str, ...]
    config: Mapping[str, Any] = attrs.field(factory=dict)
    old_pickle: bool = False
    shards: int = 1
    no_metadata: bool = False
    consolidated: bool = False
    dtype: str = "fp32"
    keys: tuple[tuple[str, str], ...] = ()
    without: tuple[str, ...] = ()
    more: tuple[str, ...] = ()
    rows: int = 0
    gated: bool = False
    other_files: tuple[str, ...] = ()

    @property
    def pickled_only(self):
        """Whether `main` has no safetensors."""
        return self.weights == ("pickle",)


def read_layouts():
    """Read the table of layouts, by id."""
    rows = tomllib.loads(Path(__file__).with_name("layouts.toml").read_text("utf-8"))[
        "repository"
    ]
    tables = {}
    for row in rows:
        ids = row.pop("ids")
        below = tables[row.pop("like")] if "like" in row else {}
        for name in ids:
            if name in tables:
                raise ValueError(f"`{name}` has two rows in layouts.toml; keep one")
            tables[name] = {**below, **row}
    layouts = {}
    for name, table in tables.items():
        fields = {}
        for key, value in table.items():
            fields[key.replace("-", "_")] = (
                tuple(value) if isinstance(value, list) else value
            )
        fields["keys"] = tuple(map(tuple, fields.get("keys", ())))
        layouts[name] = Layout(name=name, **fields)
    return layouts
