"""Rows of SentBench's sources, as the readers return them and the builders need them."""

from __future__ import annotations

from typing import TypeAlias

import attrs


@attrs.frozen
class Choice:
    """A text, a second text that belongs to it, and often texts that do not."""

    text: str
    right: str
    wrong: tuple[str, ...] = ()
    """Texts that the source gives as wrong alternatives. If there are none, the `right` texts of other rows are
    wrong."""

    @property
    def identity(self) -> str:
        """A key that is equal for rows with the same content."""
        return f"{self.text}\0{self.right}"


@attrs.frozen
class Labelled:
    """A text and its class. Two texts belong together if they have the same class."""

    text: str
    label: int
    numbering: str = ""
    """Name of the numbering of classes to which `label` belongs. Texts of different numberings are never
    paired."""

    @property
    def identity(self) -> str:
        """A key that is equal for rows with the same content."""
        return self.text


Row: TypeAlias = Choice | Labelled
