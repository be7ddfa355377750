"""Rows of SentBench's sources, from readers to builders."""

from __future__ import annotations

from typing import TypeAlias

import attrs


@attrs.frozen
class Choice:
    """A text and another one that belongs to it."""

    text: str
    right: str
    wrong: tuple[str, ...] = ()
    """Wrong alternatives in the source; if empty, the texts that belong to other rows are wrong."""

    @property
    def identity(self) -> str:
        """A key that is equal for rows with the same content."""
        return f"{self.text}\0{self.right}"


@attrs.frozen
class Labelled:
    """A text and its class; it belongs to every text of that class."""

    text: str
    label: int
    numbering: str = ""
    """The numbering of classes to which `label` belongs; texts of different numberings are never compared."""

    @property
    def identity(self) -> str:
        """A key that is equal for rows with the same content."""
        return self.text


Row: TypeAlias = Choice | Labelled
