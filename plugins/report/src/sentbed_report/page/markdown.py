"""Rendering of a page as Markdown without figures (`report.md`), for terminals and pull requests."""

from __future__ import annotations

from collections.abc import Iterator

from sentbed_report.page.report_page import Page
from sentbed_report.page.sections import Section
from sentbed_report.tables.markdown import escape, fenced, to_markdown


def page_markdown(page: Page) -> str:
    """Return a page as Markdown; sections that have only figures are left out."""
    blocks = [f"# {escape(page.title)}"]
    blocks.append(escape(f"{page.status} {page.summary}"))
    if page.answer:
        blocks.append(_answer(page))
    for section in page.sections:
        if section.tables or section.notes or section.texts:
            blocks += _blocks(section)
    return "\n\n".join(blocks) + "\n"


def _answer(page: Page) -> str:
    """Return the lines of a page's answer as a list."""
    lines = []
    for line in page.answer:
        answer = escape(line.answer)
        if line.question:
            answer = f"**{escape(line.question)}**: {answer}"
        lines.append(f"- {answer}")
    return "\n".join(lines)


def _blocks(section: Section) -> Iterator[str]:
    """Yield the Markdown of a section, block by block."""
    yield f"## {escape(section.title)}"
    if section.summary:
        first_letter = section.summary[0].upper()
        summary = first_letter + section.summary[1:]
        yield f"{escape(summary)}."
    for table in section.tables:
        yield to_markdown(table).rstrip("\n")
    yield from map(escape, section.notes)
    for text in section.texts:
        if text.title:
            yield f"**{escape(text.title)}**"
        yield fenced(text.text, text.language)
