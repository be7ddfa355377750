"""Rendering of a page as Markdown without figures (`report.md`), for terminals and pull requests."""

from __future__ import annotations

from collections.abc import Iterator

from sentbed_report.page.report_page import Page
from sentbed_report.page.sections import Section
from sentbed_report.tables.markdown import escape, fenced, to_markdown


def page_markdown(page: Page) -> str:
    """Return a page as Markdown; sections that have only figures are left out."""
    blocks = [f"# {escape(page.title)}", escape(f"{page.status} {page.summary}")]

    answer = []
    for line in page.answer:
        question = ""
        if line.question:
            question = f"**{escape(line.question)}**: "
        answer.append(f"- {question}{escape(line.answer)}")
    facts = []
    for name, value in page.facts:
        facts.append(f"- {escape(name)}: {escape(value)}")
    for lines in filter(None, (answer, facts)):
        blocks.append("\n".join(lines))

    for section in page.sections:
        if section.sentences or section.tables or section.notes or section.texts:
            blocks += _blocks(section)
    return "\n\n".join(blocks) + "\n"


def _blocks(section: Section) -> Iterator[str]:
    """Yield the Markdown of a section, block by block."""
    yield f"## {escape(section.title)}"
    if section.summary:
        yield f"{escape(section.summary[:1].upper() + section.summary[1:])}."
    yield from map(escape, section.sentences)
    for table in section.tables:
        yield to_markdown(table).rstrip("\n")
    yield from map(escape, section.notes)
    for text in section.texts:
        if text.title:
            yield f"**{escape(text.title)}**"
        yield fenced(text.text, text.language)
