"""Sentence pairs from two line-aligned files: the first pairs are aligned lines, the others random lines."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs
from sentbed import DataError, locate
from sentbed_common import local_file, text_lines

from sentbed_evaluators.text_lines import read_lines


@attrs.frozen
class ParallelFiles:
    """Two text files, in which line n of one is the translation of line n of the other, and pairs from them.

    Pair i has line i of the first file. Its second sentence is line i of the second file for the first
    `positives` pairs. For each further pair it is a random line of the second file: drawn without replacement
    from the lines after the first `positives`, and never line i. The appendix of the paper "Learning Universal
    Sentence Embeddings with Large-scale Parallel Translation Datasets" does the same.
    """

    first: str
    second: str
    pairs: int
    positives: int
    seed: int

    @property
    def task(self) -> str:
        """The files' names without suffix, joined by a hyphen; for `val.en` and `val.zh`, only `val`."""
        names = (Path(self.first).stem, Path(self.second).stem)
        return "-".join(dict.fromkeys(names))

    def problems(self) -> Iterator[str]:
        """Yield problems that can be found without reading the files."""
        for location in (self.first, self.second):
            try:
                next(text_lines(local_file(location)), None)
            except DataError as error:
                yield str(error)
                break
        if not 1 <= self.positives <= self.pairs:
            yield (
                f"`positives` is {self.positives} and `pairs` is {self.pairs}; "
                f"give at least one positive pair, and no more than there are pairs"
            )

    def read(self) -> tuple[list[str], list[str]]:
        """Return the first and the second sentences of the pairs.

        Raises:
            DataError: if a file cannot be read, is too short or has a blank line in a pair, or the files differ
                in their numbers of lines; with the file.
        """
        paths = locate(self.first), locate(self.second)
        first, second = (read_lines(path) for path in paths)
        if len(first) != len(second):
            raise DataError(
                f"the file has {len(second)} lines, `{paths[0]}` has {len(first)}, but line n of one must be "
                f"the translation of line n of the other; repair them",
                paths[1],
            )

        needed = self.pairs
        if self.pairs > self.positives:
            # With a single line after the aligned ones, a pair could draw only its own line.
            needed = max(self.pairs, self.positives + 2)
        if len(first) < needed:
            raise DataError(
                f"the file has {len(first)} lines, but {self.pairs} pairs with {self.positives} positives "
                f"need {needed}; lower `pairs` and `positives`",
                paths[0],
            )

        partners = [*range(self.positives), *self._random_partners(len(first))]
        first_sentences = _lines_at(range(self.pairs), first, paths[0])
        second_sentences = _lines_at(partners, second, paths[1])

        return first_sentences, second_sentences

    def _random_partners(self, lines: int) -> list[int]:
        """Return, for each pair that is not aligned, the index of its line in the second file."""
        generator = random.Random(self.seed)
        rows = range(self.positives, self.pairs)
        while True:
            drawn = generator.sample(range(self.positives, lines), len(rows))
            if all(a != b for a, b in zip(drawn, rows, strict=True)):
                return drawn


def _lines_at(
    indices: Sequence[int],
    lines: Sequence[str],
    path: Path,
) -> list[str]:
    """Return the lines with these indices; raises `DataError` if one is blank."""
    for index in indices:
        if not lines[index].strip():
            raise DataError(
                "the line is empty; remove it from both files", path, index + 1
            )
    return [lines[index] for index in indices]
