"""Sections of a study's report: sentences and tables of text, the same for the page and Markdown.

What a study decided, how sure it is and what it took are such sections; `study_sections.py` has them all.
"""

from __future__ import annotations

import attrs


@attrs.frozen
class SectionRow:
    """A row of a table."""

    name: str
    entries: tuple[str, ...]
    """Text below each heading but the first."""
    cell: str = ""
    """Name of the cell that it is on, which filters hide; empty for a row of several cells."""


@attrs.frozen
class SectionTable:
    """A table of text."""

    caption: str
    headings: tuple[str, ...]
    """The first is that of the names."""
    rows: tuple[SectionRow, ...]
    numbers: tuple[int, ...] = ()
    """Columns with numbers, from 1 for that of the first entries."""


@attrs.frozen
class Section:
    """A section: first its sentences, then its tables, then its remarks."""

    title: str
    sentences: tuple[str, ...] = ()
    tables: tuple[SectionTable, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def anchor(self) -> str:
        """Id of its heading on the page."""
        return "-".join(self.title.lower().split())
