"""Pairs of another source, cleaned by rules and without duplicates."""

from __future__ import annotations

import hashlib
import sys
import unicodedata
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, ClassVar, Literal, TypeAlias

import attrs
from attrs.validators import and_, ge, gt, le, optional
from sentbed import DataError
from sentbed.protocols import Dataset, DataSource

from sentbed_data.columns_and_counts import chosen_columns, counts_text
from sentbed_data.csv_tsv_jsonl import shortened_list
from sentbed_data.mix import Mix
from sentbed_data.text_digests import first_of_equal, text_digest
from sentbed_data.word_splitting import count_words

Script: TypeAlias = Literal[
    "arabic",
    "armenian",
    "bengali",
    "cyrillic",
    "devanagari",
    "georgian",
    "greek",
    "han",
    "hangul",
    "hebrew",
    "hiragana",
    "katakana",
    "latin",
    "tamil",
    "telugu",
    "thai",
]

_BLOCK = 1024
"""Number of rows that are read at a time."""

_Rule: TypeAlias = tuple[str, Callable[[str, str], bool]]
"""A rule: a description of the pairs that it leaves out, and the function that decides it for a pair."""


@attrs.frozen(kw_only=True)
class CleanPairs(DataSource):
    """Pairs of another source, without duplicates, equal texts, and texts of the wrong length or script.

    A pair is counted for the first rule that leaves it out: equal texts, then numbers of words, then scripts.
    Duplicates are searched among the pairs that these rules keep. The manifest of a run records how many pairs
    were left out by each rule. Texts are not copied: a source with `stream = true` remains on disk, and
    cleaning needs 24 bytes of memory for each pair that the rules keep.
    """

    name: ClassVar[str] = "clean-pairs"

    source: DataSource
    """A source with the columns `anchor` and `positive`: `{ use = "parallel", ... }`. A `mix` is cleaned as a
    whole: a pair may be a duplicate of a pair from another of its sources. Its strategy must be
    `proportional`, and its batches mixed."""
    min_words: int | None = attrs.field(default=None, validator=optional(ge(1)))
    """Smallest number of words of each text, at least 1; default: no limit. Words are separated by white space;
    in Chinese, Japanese and Korean script every character is a word."""
    max_words: int | None = attrs.field(default=None, validator=optional(ge(1)))
    """Largest number of words of each text; default: no limit."""
    max_ratio: float | None = attrs.field(default=None, validator=optional(ge(1.0)))
    """Largest ratio of the numbers of words in the longer and the shorter text, at least 1; default: no limit."""
    anchor_scripts: tuple[Script, ...] = ()
    """Scripts of the anchor's language, such as `["latin"]` or `["han", "hiragana", "katakana"]`; default: any.
    They distinguish English from Chinese, but not English from French."""
    positive_scripts: tuple[Script, ...] = ()
    """Scripts of the positive's language; default: any."""
    script_share: float = attrs.field(default=0.5, validator=and_(gt(0.0), le(1.0)))
    """Smallest share of a text's letters that must be in its scripts, above 0 and at most 1. A text without
    letters is in no script."""
    copies: bool = False
    """Whether pairs of two equal texts are kept."""
    duplicates: Literal["pair", "anchor", "positive", "keep"] = "pair"
    """What makes a row a duplicate of an earlier row, so that it is left out: the same `pair`, the same
    `anchor` or the same `positive`. `keep`: duplicates are kept."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the source."""
        return self.source.columns

    def check(self) -> Iterator[str]:
        """Yield problems that show without reading the data."""
        if lacking := {"anchor", "positive"}.difference(self.source.columns):
            yield f"`{self.source.name}` has no column {shortened_list(sorted(lacking))}; take a source of pairs"

        if self.min_words and self.max_words and self.min_words > self.max_words:
            yield f"`min_words = {self.min_words}` is above `max_words = {self.max_words}`; exchange them"

        if isinstance(self.source, Mix) and self.source.strategy != "proportional":
            yield (
                f"the mix has the strategy {self.source.strategy!r}, whose shares would change with the rows "
                'that are left out; use `strategy = "proportional"`, or clean each of its sources'
            )

        if isinstance(self.source, Mix) and self.source.batches == "single":
            yield (
                'the mix has `batches = "single"`, and a clean mix is shuffled as a whole; '
                "clean each of its sources"
            )

        has_scripts = self.anchor_scripts or self.positive_scripts
        if self.script_share != 0.5 and not has_scripts:
            yield "`script_share` is for `anchor_scripts` and `positive_scripts`; add them, or remove it"

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
        pairs, digests = self._pairs_by_rules(source, left_out)
        kept = self._without_duplicates(pairs, digests, left_out)
        if not kept:
            raise DataError(
                f"nothing is left of the {len(source)} pairs of `{self.source.name}`; left out: "
                f"{counts_text(left_out)}; loosen the rules of `clean-pairs`"
            )

        # The unary plus drops counts of zero.
        return CleanedPairs(source, kept, dict(+left_out))

    def _pairs_by_rules(
        self, source: Dataset, left_out: Counter[str]
    ) -> tuple[array[int], bytearray]:
        """Return the indices of the pairs that the rules keep, and digests of these pairs to find duplicates."""
        rules = list(self._rules())
        kept = array("Q")
        digests = bytearray()
        for start in range(0, len(source), _BLOCK):
            block = source.rows(range(start, min(start + _BLOCK, len(source))))
            pairs = zip(block["anchor"], block["positive"], strict=True)
            for index, (anchor, positive) in enumerate(pairs, start):
                reason = _reason_to_leave_out(anchor, positive, rules)
                if reason is not None:
                    left_out[reason] += 1
                    continue

                kept.append(index)
                if self.duplicates == "pair":
                    digests += _digest(anchor, positive)
                elif self.duplicates == "anchor":
                    digests += _digest(anchor, "")
                elif self.duplicates == "positive":
                    digests += _digest("", positive)

        return kept, digests

    def _rules(self) -> Iterator[_Rule]:
        """Yield the rules in the order in which they are applied: the fastest ones come first."""
        if not self.copies:
            yield "pairs with equal sides", lambda anchor, positive: anchor == positive

        if (least := self.min_words) is not None:
            yield (
                f"pairs with a side below {least} words",
                lambda *pair: min(map(_words, pair)) < least,
            )

        if (most := self.max_words) is not None:
            yield (
                f"pairs with a side above {most} words",
                lambda *pair: max(map(_words, pair)) > most,
            )

        if (ratio := self.max_ratio) is not None:
            yield (
                f"pairs with a ratio of lengths above {ratio:g}",
                lambda *pair: max(map(_words, pair)) > ratio * min(map(_words, pair)),
            )

        if anchor_scripts := frozenset(self.anchor_scripts):
            yield (
                f"pairs whose anchor is not {' or '.join(self.anchor_scripts)}",
                lambda anchor, _: (
                    not _written_in(anchor, anchor_scripts, self.script_share)
                ),
            )

        if positive_scripts := frozenset(self.positive_scripts):
            yield (
                f"pairs whose positive is not {' or '.join(self.positive_scripts)}",
                lambda _, positive: (
                    not _written_in(positive, positive_scripts, self.script_share)
                ),
            )

    def _without_duplicates(
        self,
        kept: array[int],
        digests: bytearray,
        left_out: Counter[str],
    ) -> array[int]:
        """Return the indices in `kept` without those of duplicates, and count the duplicates in `left_out`."""
        if self.duplicates == "keep" or not kept:
            return kept

        import numpy as np

        is_first = first_of_equal(digests) == np.arange(len(kept))
        first = np.frombuffer(kept, np.uint64)[is_first]
        reason = f"pairs with the {self.duplicates} of an earlier row"
        if self.duplicates == "pair":
            reason = "pairs of an earlier row"

        left_out[reason] += len(kept) - len(first)
        return array("Q", first.tobytes())


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
        for index in self.kept:
            digest.update(index.to_bytes(8, "little"))

        return digest.hexdigest()

    def __len__(self) -> int:
        return len(self.kept)

    def rows(
        self, indices: Sequence[int], epoch: int = 0
    ) -> Mapping[str, Sequence[Any]]:
        """Return the texts of these rows, by column."""
        return self.source.rows([self.kept[index] for index in indices], epoch)

    def texts(self, columns: Collection[str] | None = None) -> Iterator[str]:
        """Yield every text, block by block."""
        names = chosen_columns(self.columns, columns)
        for start in range(0, len(self), _BLOCK):
            block = self.rows(range(start, min(start + _BLOCK, len(self))))
            for column in names:
                yield from block[column]


def _digest(anchor: str, positive: str) -> bytes:
    """Return a digest of a pair of texts."""
    first = anchor.encode()
    # The length of the first text is included, so that it matters where the second text begins.
    content = len(first).to_bytes(8, sys.byteorder) + first + positive.encode()
    return text_digest(content)


# Several rules count the words of both texts of the same pair, so the last two counts are cached.
_words = lru_cache(maxsize=2)(count_words)


def _written_in(
    text: str,
    scripts: frozenset[str],
    share: float,
) -> bool:
    """Whether a text has letters, and at least the share `share` of its letters is in these scripts."""
    letters = list(filter(str.isalpha, text))
    if not letters:
        return False

    count = 0
    for letter in letters:
        if _script(letter) in scripts:
            count += 1

    return count >= share * len(letters)


@cache
def _script(letter: str) -> str:
    """Return the script of a letter, such as `latin`: the beginning of its Unicode name, in lower case."""
    first, _, rest = unicodedata.name(letter, "").partition(" ")
    if first in ("FULLWIDTH", "HALFWIDTH"):
        first = rest.partition(" ")[0]

    if first in ("CJK", "IDEOGRAPHIC"):
        return "han"

    return first.partition("-")[0].lower()


def _reason_to_leave_out(
    anchor: str,
    positive: str,
    rules: Sequence[_Rule],
) -> str | None:
    """Return the description of the first rule that leaves a pair out; None if all rules keep it."""
    for reason, leaves_out in rules:
        if leaves_out(anchor, positive):
            return reason

    return None
