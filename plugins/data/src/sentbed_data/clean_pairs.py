"""The source `clean-pairs`: pairs of another source, cleaned by rules and without duplicates."""

from __future__ import annotations

import hashlib
from array import array
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import attrs
from attrs.validators import ge, optional
from sentbed import DataError
from sentbed.errors import listed
from sentbed.protocols import Dataset, DataSource

from sentbed_data.columns_and_counts import chosen_columns, counts_text
from sentbed_data.mix import Mix
from sentbed_data.word_splitting import count_words

_BLOCK = 1024
"""Number of rows that are read at a time."""


@attrs.frozen(kw_only=True)
class CleanPairs(DataSource):
    """Pairs of another source, without duplicates, equal texts, and texts of too different lengths.

    A pair is counted for the first rule that leaves it out: equal texts, then `max_ratio`, then a pair that is
    the same as an earlier one. The manifest of a run records how many pairs were left out by each rule. Texts
    are not copied: a source with `stream = true` remains on disk, and cleaning needs 16 bytes of memory for each
    pair that the rules keep.
    """

    name: ClassVar[str] = "clean-pairs"

    source: DataSource
    """A source with the columns `anchor` and `positive`: `{ use = "parallel", ... }`. A `mix` is cleaned as a
    whole: a pair may be a duplicate of a pair from another of its sources."""
    max_ratio: float | None = attrs.field(default=None, validator=optional(ge(1.0)))
    """Largest ratio of the numbers of words in the longer and the shorter text, at least 1; default: no limit.
    Words are separated by white space; in Chinese, Japanese and Korean script every character is a word."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the source."""
        return self.source.columns

    def check(self) -> Iterator[str]:
        """Yield problems that show without reading the data."""
        if missing := {"anchor", "positive"}.difference(self.source.columns):
            yield f"`{self.source.name}` has no column {listed(sorted(missing))}; take a source of pairs"

        if isinstance(self.source, Mix) and self.source.batches == "single":
            yield (
                'the mix has `batches = "single"`, and a clean mix is shuffled as a whole; '
                "clean each of its sources"
            )

    def open(self) -> CleanedPairs:
        """Open the source, and read it once to find the pairs to keep.

        Raises:
            DataError: if the source cannot be read, if its texts change from epoch to epoch, or if no pair is
                left.
        """

        source = self.source.open()
        if source.varies:
            raise DataError(
                f"the texts of `{self.source.name}` change from epoch to epoch, and with them what is left "
                "out; expected texts that stay; take another source"
            )

        left_out = Counter(source.left_out)
        kept = self._kept(source, left_out)
        if not kept:
            raise DataError(
                f"nothing is left of the {len(source)} pairs of `{self.source.name}`; left out: "
                f"{counts_text(left_out)}; loosen the rules of `clean-pairs`"
            )

        # The unary plus drops counts of zero.
        return CleanedPairs(source, kept, dict(+left_out))

    def _kept(self, source: Dataset, left_out: Counter[str]) -> array[int]:
        """Return the indices of the pairs to keep, and count the other pairs in `left_out`, by reason."""
        import numpy as np

        indices = array("Q")
        digests = array("Q")
        for start in range(0, len(source), _BLOCK):
            block = source.rows(range(start, min(start + _BLOCK, len(source))))
            anchors, positives = block["anchor"], block["positive"]
            pairs = zip(anchors, positives, strict=True)
            for index, (anchor, positive) in enumerate(pairs, start):
                reason = self._reason_to_leave_out(anchor, positive)
                if reason is not None:
                    left_out[reason] += 1
                    continue

                indices.append(index)
                digests.append(_digest(anchor, positive))

        _, first = np.unique(digests, return_index=True)
        left_out["pairs of an earlier row"] += len(indices) - len(first)

        kept = array("Q")
        for place in np.sort(first):
            kept.append(indices[place])

        return kept

    def _reason_to_leave_out(self, anchor: str, positive: str) -> str | None:
        """Return the first rule that leaves a pair out; None if all rules keep it."""
        if anchor == positive:
            return "pairs with equal sides"

        if self.max_ratio is not None:
            shorter, longer = sorted((count_words(anchor), count_words(positive)))
            if longer > self.max_ratio * shorter:
                return f"pairs with a ratio of lengths above {self.max_ratio:g}"

        return None


@attrs.frozen(eq=False)
class CleanedPairs(Dataset):
    """A selection of the rows of another data set, in the same order."""

    source: Dataset
    kept: Sequence[int]
    """Indices of the selected rows in `source`, in ascending order."""
    left_out: Mapping[str, int] = attrs.field(factory=dict)
    """Number of rows that were left out, by reason."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the source."""
        return self.source.columns

    @property
    def fingerprint(self) -> str:
        """SHA-256 over the source's fingerprint and the indices of the selected rows."""
        digest = hashlib.sha256(self.source.fingerprint.encode())
        digest.update(array("Q", self.kept).tobytes())

        return digest.hexdigest()

    def __len__(self) -> int:
        return len(self.kept)

    def rows(
        self, indices: Sequence[int], epoch: int = 0
    ) -> Mapping[str, Sequence[Any]]:
        """Return the texts of these rows, by column."""
        rows = [self.kept[index] for index in indices]
        return self.source.rows(rows, epoch)

    def texts(self, columns: Collection[str] | None = None) -> Iterator[str]:
        """Yield every text, block by block."""
        names = chosen_columns(self.columns, columns)
        for start in range(0, len(self), _BLOCK):
            block = self.rows(range(start, min(start + _BLOCK, len(self))))
            for column in names:
                yield from block[column]


def _digest(anchor: str, positive: str) -> int:
    """Return a digest of 64 bits of a pair of texts."""
    # The length of the first text is included, so that it matters where the second text begins.
    content = f"{len(anchor)} {anchor}{positive}".encode()

    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")
