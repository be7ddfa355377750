"""Sections of a report: sentences, tables, figures and texts, the same for the page and Markdown."""

from __future__ import annotations

import attrs

from sentbed_report.figures.plot import Plot
from sentbed_report.tables.table import Table


@attrs.frozen
class Text:
    """A text that is shown as it is, such as a recipe."""

    text: str
    language: str = "text"
    title: str = ""


@attrs.frozen(eq=False)
class Section:
    """A part of a report. The page shows its title and summary, and the rest when it is opened."""

    title: str
    summary: str = ""
    """What it says, in a few words."""
    sentences: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()
    """Sentences behind the tables."""
    plots: tuple[Plot, ...] = ()
    """Figures, which only the page has."""
    texts: tuple[Text, ...] = ()
    is_open: bool = False
    """Whether the page shows it from the beginning."""
