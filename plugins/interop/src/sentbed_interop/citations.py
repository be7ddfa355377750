"""The papers cited by a recipe, from the traits of its components and stages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any

import attrs
from sentbed import PluginError
from sentbed.protocols import Component
from sentbed.tools import Stage

_KEY = re.compile(r"@\w+\s*\{\s*([^\s,]+)\s*,")
"""Pattern of the key of a BibTeX entry."""


def bibliography(*parts: Any) -> tuple[str, ...]:
    """Return the distinct BibTeX entries that these parts and their parts cite.

    Raises:
        PluginError: if a part cites what is neither.
    """
    known = {_key(entry): entry for entry in _known()}
    found: dict[str, str] = {}
    for part in parts:
        saying = (one for one in parts_in(part) if isinstance(one, Component | Stage))
        for owner, citation in ((type(one).__name__, key) for one in saying for key in one.traits.cites):
            entry = citation.strip() if citation.lstrip().startswith("@") else known.get(citation)
            key = entry and _key(entry)
            if not entry or not key:
                raise PluginError(
                    f"`{owner}` cites {citation!r}, which is no key of `sentbed/citations.bib`; put the "
                    "whole BibTeX entry into its `cites`, which begins with `@` and has a key"
                )
            found.setdefault(key, entry)
    return tuple(found.values())


def _known() -> list[str]:
    text = (files("sentbed") / "citations.bib").read_text("utf-8")
    return [entry.strip() for entry in re.split(r"^(?=@)", text, flags=re.MULTILINE) if _key(entry)]


def _key(entry: str) -> str | None:
    found = _KEY.match(entry.strip())
    return found and found[1]


def parts_in(part: Any) -> Iterator[Any]:
    """Yield a part and all its parts, components or not."""
    if isinstance(part, Mapping):
        part = tuple(part.values())
    if isinstance(part, tuple):
        for item in part:
            yield from parts_in(item)
    elif attrs.has(type(part)):
        yield part
        for field in attrs.fields(type(part)):
            if not field.metadata.get("skip"):
                yield from parts_in(getattr(part, field.name))
