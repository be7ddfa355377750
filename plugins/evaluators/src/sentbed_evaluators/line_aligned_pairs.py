"""Pairs from two line-aligned files: the first ones aligned, the others with a random partner."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs
from sentbed import DataError, locate

from sentbed_evaluators.text_lines import (
    Hashes,
    encoding_problems,
    read_lines,
    text_file_problems,
)


@attrs.frozen
class ParallelFiles:
    """Two files in which equal lines are translations of each other.

    Pair i has line i of the first file. The first `positives` pairs have line i of the second file; the
    others have a random line, drawn without replacement from those after the first `positives`, and never
    line i itself (as in the appendix of the translation-pairs paper).
    """

    first: str
    second: str
    pairs: int
    positives: int
    seed: int
    encoding: str = "utf-8"

    @property
    def task(self) -> str:
        """The files' names without suffix; only one if they are equal, as for `val.en` and `val.zh`."""
        names = (Path(self.first).stem, Path(self.second).stem)
        return "-".join(dict.fromkeys(names))

    def problems(self) -> Iterator[str]:
        """Yield problems that are seen without reading the files."""
        yield from text_file_problems(self.first, self.second)
        if not 1 <= self.positives <= self.pairs:
            yield (
                f"`positives` is {self.positives} and `pairs` is {self.pairs}; "
                f"give at least one positive pair, and no more than there are pairs"
            )
        yield from encoding_problems(self.encoding)

    def read(self, hashes: Hashes | None = None) -> tuple[list[str], list[str]]:
        """Return the first and the second sentences of the pairs; raises `DataError` that names the file.

        For `hashes` see `text_lines.lines`.
        """
        paths = locate(self.first), locate(self.second)
        first, second = (read_lines(path, self.encoding, hashes) for path in paths)
        if len(first) != len(second):
            raise DataError(
                f"the file has {len(second)} lines, `{paths[0]}` has {len(first)}, but line n of one must be "
                f"the translation of line n of the other; repair them",
                paths[1],
            )
        needed = self.pairs
        if self.pairs > self.positives:
            # The last pair must not have only its own line left to draw.
            needed = max(self.pairs, self.positives + 2)
        if len(first) < needed:
            raise DataError(
                f"the file has {len(first)} lines, but {self.pairs} pairs with {self.positives} positives "
                f"need {needed}; lower `pairs` and `positives`",
                paths[0],
            )
        partners = [*range(self.positives), *self._partners(len(first))]
        return (
            _taken(first, range(self.pairs), paths[0]),
            _taken(second, partners, paths[1]),
        )

    def _partners(self, lines: int) -> list[int]:
        """Return the line of the second file for each pair that is not aligned."""
        generator = random.Random(self.seed)
        rows = range(self.positives, self.pairs)
        while True:
            drawn = generator.sample(range(self.positives, lines), len(rows))
            if all(a != b for a, b in zip(drawn, rows, strict=True)):
                return drawn


def _taken(lines: Sequence[str], indices: Sequence[int], path: Path) -> list[str]:
    """Return these lines; raises `DataError` if one is blank."""
    for index in indices:
        if not lines[index].strip():
            raise DataError(
                "the line is empty; remove it from both files", path, index + 1
            )
    return [lines[index] for index in indices]
