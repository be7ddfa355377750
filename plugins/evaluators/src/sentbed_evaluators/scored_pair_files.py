"""Strict reader of files of sentence pairs with gold scores."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs
from sentbed import DataError, locate

from sentbed_evaluators.column_files import ColumnFile
from sentbed_evaluators.text_lines import Hashes

_RARE = 100
"""Scores are rare if they are at most one of so many."""

_FEWEST = 20
"""Smallest number of scores that show their scale."""


@attrs.frozen
class ScoredPairs:
    """Pairs of sentences with gold scores, in the order of the file."""

    first: tuple[str, ...]
    second: tuple[str, ...]
    scores: tuple[float, ...]
    dropped: int = 0
    """Number of pairs that were left out because they have no gold score."""
    clusters: tuple[str, ...] = ()
    """Cluster of each pair: the name of the passage, speaker or the like from which it was drawn. Empty if the
    file has no such column."""
    lines: tuple[int, ...] = ()
    """Line of each pair in its file. Empty if the pairs are from several files."""

    def __len__(self) -> int:
        return len(self.scores)

    @classmethod
    def joined(cls, parts: Sequence[ScoredPairs]) -> ScoredPairs:
        """Return the pairs of all parts, one part after the other, without their clusters."""
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

    def remarks(self, path: Path) -> Iterator[str]:
        """Yield what is doubtful about the scores of pairs that were read from the file `path`, with the line.

        A score is doubtful if it is rare and far from the others, or negative; a pair, if it has two scores that
        differ by more than half of the scale. `lines` must not be empty.
        """
        ordered = sorted(self.scores)
        rare = max(1, len(ordered) // _RARE)
        common = ordered[rare:-rare]
        if len(ordered) < _FEWEST or common[0] == common[-1]:
            return

        low, high = common[0], common[-1]
        width = high - low
        far, negative, contradicting = [], [], []
        score_of: dict[tuple[str, str], float] = {}
        for row, score in enumerate(self.scores):
            if not low - width <= score <= high + width:
                far.append(row)
            elif score < 0 <= low:
                negative.append(row)
            earlier = score_of.setdefault((self.first[row], self.second[row]), score)
            if abs(score - earlier) > width / 2:
                contradicting.append(row)

        doubtful = {
            f"far from the others, which go from {low:g} to {high:g}": far,
            "that are negative, unlike the others": negative,
            "opposite to that of an earlier line with the same pair": contradicting,
        }
        for what, rows in doubtful.items():
            if rows:
                first = rows[0]
                yield (
                    f"gold scores {what}: {len(rows):,} of {len(self):,}, such as {self.scores[first]:g}; repair "
                    f"or remove these pairs, on which correlations depend @ {path}:{self.lines[first]}"
                )

    @property
    def texts(self) -> list[tuple[str, str]]:
        """The two sentences of each pair."""
        return list(zip(self.first, self.second, strict=True))


@attrs.frozen
class PairFile(ColumnFile):
    """A file of scored pairs: its path and its layout."""

    score_range: tuple[float, float] | None = None
    """Lowest and highest possible score, if known."""

    meanings = (*ColumnFile.meanings, "score")

    def read(self, hashes: Hashes | None = None) -> ScoredPairs:
        """Read all pairs. For `hashes` see `text_lines.lines`.

        Raises:
            DataError: if a row is malformed, or a score is no number or out of range; with file and line.
        """
        path, is_text = locate(self.path), self._suffix != ".jsonl"
        first, second, scores, numbers = [], [], [], []
        clusters: list[str] = []
        for line, (sentence1, sentence2, score, *more) in self.rows(hashes):
            if isinstance(score, bool | str) and not is_text:
                raise DataError(
                    f"`{self.columns[2]}` is {score!r}, but a number was expected; write it without quotes",
                    path,
                    line,
                )
            numbers.append(line)
            first.append(sentence1)
            second.append(sentence2)
            scores.append(parse_score(score, path, line, self.score_range))
            for cluster in more:
                if not isinstance(cluster, str | int) or cluster == "":
                    raise DataError(
                        f"`{self.columns[3]}` is {cluster!r}, expected the name of what the pair was drawn "
                        "from; write it, or remove the pair",
                        path,
                        line,
                    )
                clusters.append(str(cluster))
        return ScoredPairs(
            tuple(first),
            tuple(second),
            tuple(scores),
            clusters=tuple(clusters),
            lines=tuple(numbers),
        )


@attrs.frozen
class ClusteredPairFile(PairFile):
    """A file of scored pairs with a further column, which names the cluster of each pair."""

    meanings = (*PairFile.meanings, "cluster")


def parse_score(
    written: object,
    path: Path,
    line: int,
    score_range: tuple[float, float] | None = None,
) -> float:
    """Return a score as a number; raises `DataError`, with file and line, if it is not finite or out of range."""
    try:
        # `float` reads "1_0" as 10, as in Python source; in a data file it is a typing error.
        text = written.replace("_", "?") if isinstance(written, str) else written
        value = float(text)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if not math.isfinite(value):
        raise DataError(
            f"the score is {written!r}, but a finite number was expected; repair or remove the pair",
            path,
            line,
        )
    if score_range is not None and not score_range[0] <= value <= score_range[1]:
        low, high = score_range
        raise DataError(
            f"the score is {value:g}, but scores here go from {low:g} to {high:g}; check the columns",
            path,
            line,
        )
    return value
