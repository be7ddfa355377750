"""Files of sentence pairs, with gold scores or without."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import attrs
from sentbed import DataError
from sentbed_common import (
    Row,
    TableLayout,
    require_number,
    require_string,
    require_text,
    table_rows,
)


@attrs.frozen
class ScoredPairs:
    """Pairs of sentences with gold scores, in the order of the file."""

    first: tuple[str, ...]
    second: tuple[str, ...]
    scores: tuple[float, ...]
    dropped: int = 0
    """Number of pairs that were left out because they have no gold score."""

    def __len__(self) -> int:
        return len(self.scores)

    @classmethod
    def joined(cls, parts: Sequence[ScoredPairs]) -> ScoredPairs:
        """Return the pairs of all parts, one part after the other."""
        first: list[str] = []
        second: list[str] = []
        scores: list[float] = []
        dropped = 0
        for part in parts:
            first += part.first
            second += part.second
            scores += part.scores
            dropped += part.dropped
        return cls(tuple(first), tuple(second), tuple(scores), dropped)

    def take(self, places: Sequence[int]) -> ScoredPairs:
        """Return the pairs at these places, in their order."""
        first, second, scores = [], [], []
        for place in places:
            first.append(self.first[place])
            second.append(self.second[place])
            scores.append(self.scores[place])
        return ScoredPairs(tuple(first), tuple(second), tuple(scores))

    @property
    def texts(self) -> list[tuple[str, str]]:
        """The two sentences of each pair."""
        return list(zip(self.first, self.second, strict=True))


@attrs.frozen
class TextPairFile:
    """A file of text pairs: its location and its layout, see `sentbed_common.TableLayout`."""

    path: str
    columns: tuple[str, ...]
    """One column for each of `meanings`."""
    header: bool = True
    separator: str | None = None
    encoding: str = "utf-8"

    meanings: ClassVar[tuple[str, ...]] = ("first sentence", "second sentence")
    """What the columns hold, for messages."""

    def problems(self) -> Iterator[str]:
        """Yield problems that can be found from the settings or the first row, such as a missing column."""
        count = len(self.meanings)
        if len(set(self.columns)) != count:
            repeated = [
                name for name, times in Counter(self.columns).items() if times > 1
            ]
            fault = f"is {list(self.columns)!r}"
            if repeated:
                fault = f"names `{repeated[0]}` twice"
            yield (
                f"`columns` {fault}, but {count} different columns are needed; "
                f"give {', '.join(self.meanings)}"
            )
            return
        if self.separator == "":
            yield "`separator` is empty; give the characters that stand between two columns"
            return

        try:
            next(self.rows())
        except DataError as error:
            yield str(error)

    def rows(self) -> Iterator[Row]:
        """Yield the line number and the columns of each row.

        Raises:
            DataError: if a row is malformed, or there is none; with file and line.
        """
        layout = TableLayout(
            self.header, self.separator, self.encoding, further_fields=True
        )
        return table_rows(self.path, self.columns, layout)

    def read(self) -> Any:
        """Return the first and the second texts of all pairs.

        Raises:
            DataError: if a row is malformed or a text is blank; with file and line.
        """
        first, second = [], []
        for line, texts in self.rows():
            for text, column in zip(texts, self.columns, strict=True):
                require_text(text, column, self.path, line)
            first.append(texts[0])
            second.append(texts[1])
        return first, second


@attrs.frozen
class PairFile(TextPairFile):
    """A file of scored pairs: its location and its layout."""

    score_range: tuple[float, float] | None = None
    """Lowest and highest possible score, if known."""

    meanings = (*TextPairFile.meanings, "score")

    def read(self) -> ScoredPairs:
        """Read all pairs.

        Raises:
            DataError: if a row is malformed, or a score is no number or out of range; with file and line.
        """
        first, second, scores = [], [], []
        for line, (sentence1, sentence2, score) in self.rows():
            first.append(require_string(sentence1, "sentence", self.path, line))
            second.append(require_string(sentence2, "sentence", self.path, line))
            number = require_number(
                score, self.columns[2], self.path, line, self.score_range
            )
            scores.append(number)
        return ScoredPairs(tuple(first), tuple(second), tuple(scores))
