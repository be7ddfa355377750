"""What our texts cite of the four papers: sections, appendices, tables, figures, equations and footnotes."""

from __future__ import annotations

import re
import tomllib
from typing import Any, NamedTuple

from paper_studies import ROOT

STRUCTURE: dict[str, dict[str, Any]] = tomllib.loads(
    (ROOT / "tests" / "papers" / "structure.toml").read_text("utf-8")
)
"""Paper -> what it has, and what our texts call it."""
OTHERS = (
    *(
        "SimCSE",
        "Gao et al",
        "PromptBERT",
        "Jiang et al. (2022)",
        "LLM2Vec",
        "AnglE",
        "Li and Li",
        "Su et al",
    ),
    *(
        "Zhang and Li",
        "Muennighoff",
        "Conneau",
        "Reimers",
        "SBERT",
        "MoCo",
        "He et al",
        "Wang & Isola",
    ),
)
"""Names of papers whose structure is not known here."""
KINDS = {
    "section": "sections",
    "appendix": "appendices",
    "table": "tables",
    "figure": "figures",
    "equation": "equations",
    "footnote": "footnotes",
}
_NUMBER = r"(?:\d+(?:\.\d+)*|[A-D](?:\.\d+)?)\b"
_KIND = r"(section|appendix|appendice|table|figure|equation|footnote)s?"
_CITED = re.compile(
    rf"\b{_KIND} ({_NUMBER}(?:(?:, | and | to ){_NUMBER})*)", re.IGNORECASE
)
_CLAUSE_END = re.compile(r"[;:]|\((?!\d{4})|\.\s(?=[A-Z])")


class Citation(NamedTuple):
    """One place of a paper that a text names."""

    paper: str
    kind: str
    """One of `KINDS`."""
    number: str

    @property
    def exists(self):
        """Whether the paper has it."""
        has = STRUCTURE[self.paper][KINDS[self.kind]]
        if isinstance(has, str):
            return self.number in has.split()
        return self.number.isdecimal() and 1 <= int(self.number) <= has


def citations(text, paper):
    """Yield what a text cites of the four papers.

    A citation is of the paper that its clause names last before it, else of `paper`; it is left out if that
    is none of the four.
    """
    for match in _CITED.finditer(text):
        cited = _named_before(text[: match.start()], paper)
        if cited in STRUCTURE:
            kind = match[1].lower().replace("appendice", "appendix")
            for number in re.findall(_NUMBER, match[2]):
                yield Citation(cited, kind, number)


def _named_before(text, paper):
    clause = _CLAUSE_END.split(text)[-1] if paper is not None else text[-60:]
    named = {
        **{clause.rfind(name): None for name in OTHERS},
        **{
            clause.rfind(name): key
            for key, entry in STRUCTURE.items()
            for name in entry["names"]
        },
    }
    last = max(named)
    return paper if last < 0 else named[last]
