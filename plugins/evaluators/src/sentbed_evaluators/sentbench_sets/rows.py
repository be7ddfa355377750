"""Rows of SentBench's sources: what a reader gives and a builder takes."""

from __future__ import annotations

from typing import TypeAlias

import attrs


@attrs.frozen
class Choice:
    """A text and the one that belongs to it."""

    text: str
    right: str
    wrong: tuple[str, ...] = ()
    """What the source offers instead; where it is empty, wrong is what belongs to another row."""

    @property
    def identity(self) -> str:
        """Equal for rows that say the same."""
        return f"{self.text}\0{self.right}"


@attrs.frozen
class Labelled:
    """A text and its class; it belongs to every text of that class."""

    text: str
    label: int
    numbering: str = ""
    """Which numbering of classes `label` is of; texts of two numberings are never compared."""

    @property
    def identity(self) -> str:
        """Equal for rows that say the same."""
        return self.text


Row: TypeAlias = Choice | Labelled
