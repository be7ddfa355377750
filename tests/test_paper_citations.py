"""What recipes, documentation and docstrings cite of the four papers is there."""

from __future__ import annotations

import re
import tomllib

import pytest
from paper_citations import KINDS, STRUCTURE, Citation, citations
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
        (of_docstrings, 20),
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


@pytest.mark.parametrize(
    ("text", "paper", "expected"),
    [
        (
            "as in sections 3.2 and 4.2",
            "translation-pairs",
            ["section 3.2", "section 4.2"],
        ),
        (
            "SimCSE's numbers (appendix B): section 5.1",
            "prompteol",
            ["appendix B", "section 5.1"],
        ),
        ("Gao et al. (2021), section 9", "prompteol", []),
        ("Sentence-T5, section 5.1", None, ["section 5.1"]),
        ("tables 1 to 3", "sentbench", ["table 1", "table 3"]),
        ("section 8", None, []),
    ],
)
def test_a_citation_is_of_the_paper_that_its_clause_names(text, paper, expected):
    assert [
        f"{citation.kind} {citation.number}" for citation in citations(text, paper)
    ] == expected


@pytest.mark.parametrize(
    ("citation", "exists"),
    [
        (Citation("prompteol", "section", "5.1"), True),
        (Citation("sentence-t5", "section", "5.1"), False),
        (Citation("sentence-t5", "table", "7"), False),
        (Citation("prompteol", "appendix", "D"), True),
        (Citation("sentbench", "appendix", "A"), False),
    ],
)
def test_a_place_that_a_paper_lacks_is_known_as_such(citation, exists):
    assert set(KINDS) >= {citation.kind}
    assert citation.exists is exists
