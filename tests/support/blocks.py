"""The fenced blocks of a Markdown page."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import attrs

ROOT = Path(__file__).parent.parent.parent

_FENCE = re.compile(
    r"(?:^<!-- (?P<note>.+?) -->\n+)?"
    r"^(?P<indent> *)```(?P<language>[\w-]*)(?: +title=\"(?P<title>[^\"]+)\")? *\n"
    r"(?P<text>.*?)^(?P=indent)``` *$",
    re.DOTALL | re.MULTILINE,
)
_NOT_RUN = "not run: "


@attrs.frozen
class Block:
    """One fenced block, and the comment `<!-- ... -->` in the line above it."""

    page: Path
    line: int
    language: str
    title: str | None
    text: str
    note: str | None

    @property
    def name(self):
        """Where it stands."""
        return f"{self.page.relative_to(ROOT).as_posix()}:{self.line}"

    @property
    def not_run(self):
        """Why it is read and not run: `<!-- not run: REASON -->`."""
        note = self.note or ""
        return note.removeprefix(_NOT_RUN) if note.startswith(_NOT_RUN) else None


def pages():
    """Return every page that a user reads."""
    patterns = [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "core/README.md",
        "docs/**/*.md",
        "plugins/*/README.md",
        "examples/**/README.md",
    ]
    return [page for pattern in patterns for page in sorted(ROOT.glob(pattern))]


def blocks(page):
    """Return the fenced blocks of a page in their order."""
    text = page.read_text("utf-8")
    fenced = []
    for match in _FENCE.finditer(text):
        line = text.count("\n", 0, match.start("language")) + 1
        body = textwrap.dedent(match["text"])
        fenced.append(
            Block(page, line, match["language"], match["title"], body, match["note"])
        )
    fences = len(re.findall(r"^ *```", text, re.MULTILINE))
    assert fences == 2 * len(fenced), (
        f"{page}: a fence is not closed, or written in a way that is not understood"
    )
    return fenced
