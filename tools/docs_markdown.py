"""Docstrings, fields and tables as Markdown."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from typing import Any

from sentbed_workbench.component_docs import (
    OPTIONAL,
    REQUIRED,
    keys_of,
    type_name,
)


def prose(text: str) -> str:
    """Turn a docstring into Markdown: nothing but code, lists and paragraphs has a meaning in it."""
    text = re.sub(
        r"^(Raises|Returns|Yields|Args):\n((?: {4}.*\n?)+)",
        _items,
        text,
        flags=re.MULTILINE,
    )
    parts = re.split(r"(`[^`]+`)", text)
    parts[::2] = [re.sub(r"([<*_\[\]])", r"\\\1", part) for part in parts[::2]]
    return "".join(parts)


def _items(match: re.Match[str]) -> str:
    lines = [line[4:] for line in match[2].splitlines()]
    return (
        f"{match[1]}:\n\n"
        + "\n".join(line if line.startswith(" ") else f"- {line}" for line in lines)
        + "\n"
    )


def cell(text: str) -> str:
    """Turn a docstring into what may stand in a table."""
    parts = re.split(r"(`[^`]+`)", prose(" ".join(text.split())))
    # Within code, a bar ends no cell.
    parts[::2] = [part.replace("|", "\\|") for part in parts[::2]]
    return "".join(parts)


def _type(hint: Any) -> str:
    """Return a type as a recipe's author reads it: choices as they are written, what may be left out."""
    text = re.sub(
        r"Literal\[(.*?)\]",
        lambda match: match[1].replace(", ", " | "),
        type_name(hint),
    )
    return re.sub(r"^Optional\[(.*)\]$", r"\1 | None", text).replace("'", '"')


def table(head: list[str], rows: Iterable[list[str]]) -> str:
    """Return a table of cells that are Markdown already."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def page(parts: list[str]) -> str:
    """Join the parts of a page; empty ones are passed over."""
    return "\n\n".join(part for part in parts if part) + "\n"


def fields(cls: type[Any], heading: str = "") -> list[str]:
    """Return the table of the fields of an attrs class, below a heading of this level where one is given."""
    rows = []
    for key in keys_of(cls):
        row = [f"`{key.name}`", f"`{_type(key.type)}`", _shown(key.default_text)]
        rows.append([*row, cell(key.documentation)])
    if not rows:
        return []
    title = heading and f"{heading} Fields"
    return [title, table(["field", "type", "default", "meaning"], rows)]


def _shown(default: str) -> str:
    return default if default in (REQUIRED, OPTIONAL) else f"`{default}`"


def first_line(thing: Any) -> str:
    """Return what a docstring begins with."""
    return (inspect.getdoc(thing) or "").partition("\n")[0]


def signature(name: str, function: Any) -> str:
    """Return how a function is called, with its types."""
    return f"{name}{inspect.signature(function)}".replace("'", "").replace(
        "<class tuple>", "tuple"
    )
