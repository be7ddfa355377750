"""Edits of a TOML file at known places, which leave everything else as it is."""

from __future__ import annotations

import re

import attrs

from sentbed.errors import RecipeError
from sentbed.toml import Document, KeyPath, Spans, parse, spans


@attrs.define
class Source:
    """A file's text, and the places of it that are to change."""

    text: str
    file: str
    edits: dict[tuple[int, int], str] = attrs.field(factory=dict, init=False)
    """Where -> what is to stand there."""
    document: Document = attrs.field(init=False)
    spans: Spans = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.document = parse(self.text.encode(), self.file)
        self.spans = spans(self.text)

    def rename(self, path: KeyPath, new: str) -> None:
        """Let the key at a path be called `new`, wherever the file has it.

        Raises:
            RecipeError: where the table has a key of that name already.
        """
        if (*path[:-1], new) in self.spans.keys:
            message = f"found both `{path[-1]}` and `{new}`, which is its name now; take one of them out"
            raise RecipeError([self.document.problem(message, path)])
        for span in self.spans.keys[path]:
            self.edits[span] = new if re.fullmatch(r"[A-Za-z0-9_-]+", new) else _quoted(new)

    def replace(self, path: KeyPath, value: str) -> None:
        """Let the string at a path be another one, in the same quotes."""
        start, end = self.spans.values[path]
        literal = self.text[start] == "'" and "'" not in value and value.isprintable()
        self.edits[start, end] = f"'{value}'" if literal else _quoted(value)

    def changed(self) -> Source:
        """Return what the edits make of the file."""
        text = self.text
        for (start, end), new in sorted(self.edits.items(), reverse=True):
            text = text[:start] + new + text[end:]
        return Source(text, self.file)


def _quoted(text: str) -> str:
    import tomli_w

    return tomli_w.dumps({"x": text}).removeprefix("x = ").removesuffix("\n")
