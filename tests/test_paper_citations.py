"""What recipes, documentation and docstrings cite of the four papers is there."""

from __future__ import annotations

import re
import tomllib

import pytest
from paper_citations import STRUCTURE, Citation, citations
from paper_coverage import COVERAGE
from paper_studies import PAPERS, ROOT

HYPERPARAMETERS = ROOT / "tests" / "papers" / "hyperparameters.toml"
HEADINGS = {
    "Sentence-T5": "sentence-t5",
    "PromptEOL": "prompteol",
    "SentBench": "sentbench",
    "Translation pairs": "translation-pairs",
}
"""Heading of docs/papers.md, or name in the table of hyperparameters -> paper."""


def one_text(comment):
    """Return a comment of several lines as running text."""
    return re.sub(r"\n#?\s*", " ", comment)


def of_recipes():
    for path in sorted(PAPERS.rglob("*.toml")):
        name = path.relative_to(PAPERS).as_posix()
        paper = next((paper for paper in STRUCTURE if name.startswith(paper)), None)
        for citation in citations(one_text(path.read_text("utf-8")), paper):
            yield name, citation


def of_hyperparameters():
    tables = tomllib.loads(HYPERPARAMETERS.read_text("utf-8"))
    for name, entry in tables.pop("training").items():
        for setting, value in entry.items():
            if setting not in ("of", "labels", "paper", "like"):
                for citation in citations(str(value[1]), paper_of(name)):
                    yield name, citation
    for part, entries in tables.items():
        for entry in entries:
            for citation in citations(entry.get("where", ""), None):
                yield part, citation


def paper_of(training):
    """Return the paper of an entry of `[training]`, or of the one that it is like; None for SimCSE."""
    entries = tomllib.loads(HYPERPARAMETERS.read_text("utf-8"))["training"]
    entry = entries[training]
    while "paper" not in entry:
        entry = entries[entry["like"]]
    return HEADINGS.get(entry["paper"])


def of_documentation():
    page = (ROOT / "docs" / "papers.md").read_text("utf-8")
    for section in re.split(r"^## ", page, flags=re.MULTILINE)[1:]:
        heading, _, text = section.partition("\n")
        for citation in citations(one_text(text), HEADINGS.get(heading)):
            yield f"docs/papers.md, {heading}", citation


def of_docstrings():
    for path in sorted(
        (*ROOT.glob("plugins/*/src/**/*.py"), *ROOT.glob("core/src/**/*.py"))
    ):
        for citation in citations(one_text(path.read_text("utf-8")), None):
            yield path.relative_to(ROOT).as_posix(), citation


@pytest.mark.parametrize(
    ("texts", "least"),
    [
        (of_recipes, 150),
        (of_hyperparameters, 120),
        (of_documentation, 30),
        (of_docstrings, 15),
    ],
    ids=["recipes", "hyperparameters", "documentation", "docstrings"],
)
def test_what_is_cited_of_a_paper_is_there(texts, least):
    cited = list(texts())
    assert len(cited) >= least
    assert [(place, citation) for place, citation in cited if not citation.exists] == []


def test_every_counted_table_is_one_of_the_paper():
    tables = [
        Citation(paper, "table", table.removeprefix("table-"))
        for paper in COVERAGE
        for table in COVERAGE[paper]
    ]
    assert len(tables) == 21
    assert all(citation.exists for citation in tables)
