"""The papers that a recipe cites, from its components and stages."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Any

from sentbed import PluginError
from sentbed.protocols import Component, Stage
from sentbed.tools import parts_in

_KEY = re.compile(r"@\w+\s*\{\s*([^\s,]+)\s*,")
"""Pattern for the beginning of a BibTeX entry, with its key."""


def bibliography(*parts: Any) -> tuple[str, ...]:
    """Return the distinct BibTeX entries that components and stages cite, including the components in them.

    Raises:
        PluginError: if a citation is neither a BibTeX entry nor the key of an entry in `sentbed/citations.bib`.
    """
    core_entries = _core_entries()
    cited: dict[str, str] = {}
    for _, part in parts_in(parts):
        if not isinstance(part, Component | Stage):
            continue
        for citation in part.cites:
            entry = citation.strip()
            if not entry.startswith("@"):
                entry = core_entries.get(citation, "")
            key = _key(entry)
            if key is None:
                raise PluginError(
                    f"`{type(part).__name__}` cites {citation!r}, which is no key of "
                    "`sentbed/citations.bib`; put the whole BibTeX entry, which begins with `@` and has a "
                    "key, into its `cites`"
                )
            cited.setdefault(key, entry)

    return tuple(cited.values())


def _core_entries() -> dict[str, str]:
    """Return the entries in `sentbed/citations.bib`, by key."""
    text = (files("sentbed") / "citations.bib").read_text("utf-8")
    entries = {}
    for block in re.split(r"^(?=@)", text, flags=re.MULTILINE):
        entry = block.strip()
        if (key := _key(entry)) is not None:
            entries[key] = entry
    return entries


def _key(entry: str) -> str | None:
    if match := _KEY.match(entry):
        return match[1]
    return None
