"""Building of SentBench's pair and contrast sets from the rows of a source.

All draws come from `random.Random` with an integer seed, and rows are ordered by BLAKE2 digests: the same
rows and seed give the same sets, whatever the version of NumPy and the seed of Python's own hashes.

StyleTransfer has lines that are the same in both forms. They give positive pairs with two equal sides, 1,197
of 20,822 (seed 0), without which the sizes of Table 1 are not reached. About 100 of its short lines are in
both `train` and `test`, in different pairs.
"""

from __future__ import annotations

import hashlib
import heapq
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias, TypeVar

import attrs
from sentbed.helpers import derive

from sentbed_evaluators.sentbench_sets.rows import Choice, Labelled, Row
from sentbed_evaluators.sentbench_sets.sources import SOURCES, Sizes

SPLITS = ("train", "valid", "test")

Pair: TypeAlias = tuple[str, str, int]
"""Two texts, and 1 if they belong together, else 0."""
Triple: TypeAlias = tuple[str, str, str]
"""A text, one that belongs to it and one that does not."""

_T = TypeVar("_T")

_DRAWS = 32
"""Random draws before all candidates are tried in order; the first draw nearly always works."""


class TooFewRowsError(ValueError):
    """A source has too few rows for one of the sets."""


def build_sets(
    task: str,
    pair_rows: Iterable[Row],
    contrast_rows: Iterable[Row],
    seed: int,
    limit: int | None = None,
) -> tuple[dict[str, list[Pair]], list[Triple]]:
    """Return a task's pairs by split, and its triples, in the paper's sizes or fewer if rows are lacking.

    `limit` is the largest number in each split and of triples. Raises `TooFewRowsError`.
    """
    source = SOURCES[task]
    sizes = source.sizes
    if limit is not None:
        sizes = Sizes(*(min(size, limit) for size in attrs.astuple(sizes)))
    pair_seed, contrast_seed = (
        derive(seed, task, what) for what in ("pairs", "contrast")
    )
    rows = choose(pair_rows, -(-sizes.pairs // source.a_row), pair_seed)
    pairs = build_pairs(rows, scaled(sizes, len(rows)), pair_seed)
    for split in SPLITS:
        if getattr(sizes, split) and len({label for _, _, label in pairs[split]}) < 2:
            raise TooFewRowsError(
                f"{len(rows)} rows are too few for the pairs of `{split}`"
            )
    # Equal texts belong together for every encoder.
    others = (
        row
        for row in contrast_rows
        if not isinstance(row, Choice) or row.right != row.text
    )
    triples = build_contrast(
        choose(others, sizes.contrast, contrast_seed), contrast_seed
    )
    if not triples:
        raise TooFewRowsError("no row of the contrast set has partners")
    return pairs, triples


def choose(rows: Iterable[Row], count: int, seed: int) -> list[Row]:
    """Return `count` rows, or all if there are fewer, in an order that depends on the seed alone.

    A row that repeats an earlier one is used only if there are not enough others; repeated rows come first,
    so that they are in the training set. Memory grows with `count`, plus one number per row.
    """
    kept = heapq.nsmallest(count, _keyed(rows, seed), key=lambda entry: entry[:2])
    times = Counter(identity for _, _, identity, _ in kept)
    kept.sort(key=lambda entry: (times[entry[2]] == 1, entry[1]))
    return [row for _, _, _, row in kept]


def _keyed(rows: Iterable[Row], seed: int) -> Iterator[tuple[bool, bytes, bytes, Row]]:
    """Yield whether a row repeats an earlier one, its sort key, the digest of its content, and the row."""
    seen: set[bytes] = set()
    for row in rows:
        if not row.text.strip() or (isinstance(row, Choice) and not row.right.strip()):
            continue
        identity = _digest(row.identity, seed)
        yield identity in seen, _digest(row.text, seed), identity, row
        seen.add(identity)


def _digest(text: str, seed: int) -> bytes:
    return hashlib.blake2b(
        text.encode(), digest_size=8, key=str(seed).encode()
    ).digest()


@attrs.define(eq=False)
class _Pool:
    """Rows that may be each other's partners."""

    rows: Sequence[Row]
    rng: random.Random
    _classes: dict[tuple[str, int], list[str]] = attrs.field(init=False)
    _numberings: dict[str, list[Labelled]] = attrs.field(init=False)
    _labels: dict[str, set[tuple[str, int]]] = attrs.field(init=False)
    _rights: dict[str, set[str]] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._classes, self._numberings = defaultdict(list), defaultdict(list)
        self._labels, self._rights = defaultdict(set), defaultdict(set)
        for row in self.rows:
            if isinstance(row, Labelled):
                self._classes[row.numbering, row.label].append(row.text)
                self._numberings[row.numbering].append(row)
                self._labels[row.text].add((row.numbering, row.label))
            else:
                self._rights[row.text].add(row.right)

    def right(self, row: Row) -> Iterator[str]:
        """Yield texts that belong to a row's text."""
        if isinstance(row, Choice):
            yield row.right
            return
        for text in self._draw(self._classes[row.numbering, row.label]):
            if text != row.text:
                yield text

    def wrong(self, row: Row) -> Iterator[str]:
        """Yield texts that do not belong to a row's text, excluding those that are right for it elsewhere."""
        if isinstance(row, Labelled):
            for other in self._draw(self._numberings[row.numbering]):
                if not self._labels[other.text] & self._labels[row.text]:
                    yield other.text
            return
        barred = {row.text, *self._rights[row.text]}
        if row.wrong:
            yield from (
                text
                for text in self._draw(row.wrong)
                if text.strip() and text not in barred
            )
            return
        for choice in self._draw(self.rows):
            assert isinstance(choice, Choice)
            if choice.right not in barred and choice.text != row.text:
                yield choice.right

    def _draw(self, candidates: Sequence[_T]) -> Iterator[_T]:
        for _ in range(_DRAWS):
            yield candidates[self.rng.randrange(len(candidates))]
        start = self.rng.randrange(len(candidates))
        for i in range(len(candidates)):
            yield candidates[(start + i) % len(candidates)]


def scaled(sizes: Sizes, rows: int) -> Sizes:
    """Return the sizes scaled to `rows` rows, of at most two pairs each, with the same shares."""
    pairs = min(sizes.pairs, 2 * rows)
    if pairs == sizes.pairs:
        return sizes
    train, valid = (
        sizes.train * pairs // sizes.pairs,
        sizes.valid * pairs // sizes.pairs,
    )
    return attrs.evolve(sizes, train=train, valid=valid, test=pairs - train - valid)


def build_pairs(rows: Sequence[Row], sizes: Sizes, seed: int) -> dict[str, list[Pair]]:
    """Return the pairs of each split, half of which belong together (one more or less if odd).

    The pairs are numbered, every second one belongs together, and pair `k` is made from row
    `k * rows / pairs`: a row's pairs are consecutive, and at most one row contributes to two neighbouring
    splits. Partners come from the rows of the same split. No pair of texts is in two splits.
    """
    rng = random.Random(seed)
    total = sizes.pairs
    seen: dict[tuple[str, str], str] = {}
    result: dict[str, list[Pair]] = {}
    start = 0
    for split in SPLITS:
        end = start + getattr(sizes, split)
        if start == end:
            result[split] = []
            continue
        places = [k * len(rows) // total for k in range(start, end)]
        pool = _Pool(rows[places[0] : places[-1] + 1], rng)
        pairs: list[Pair] = []
        for k, place in zip(range(start, end), places, strict=True):
            row, label = rows[place], (k + 1) % 2
            is_own_partner = isinstance(row, Choice) and (label == 1 or bool(row.wrong))
            # A repeated row of the source may give its own pairs again, but only in the same split.
            allowed_split = split if is_own_partner else ""
            partners = pool.right(row) if label else pool.wrong(row)
            for text in partners:
                key = (min(row.text, text), max(row.text, text))
                if seen.get(key, allowed_split) == allowed_split:
                    seen[key] = split
                    pairs.append((row.text, text, label))
                    break
        result[split] = _balanced(pairs, rng)
        start = end
    return result


def _balanced(pairs: list[Pair], rng: random.Random) -> list[Pair]:
    """Return the pairs in random order, without the surplus of the more frequent label."""
    rng.shuffle(pairs)
    ones = sum(label for _, _, label in pairs)
    excess = {
        1: max(0, 2 * ones - len(pairs) - 1),
        0: max(0, len(pairs) - 2 * ones - 1),
    }
    kept = []
    for pair in pairs:
        if excess[pair[2]] > 0:
            excess[pair[2]] -= 1
        else:
            kept.append(pair)
    return kept


def build_contrast(rows: Sequence[Row], seed: int) -> list[Triple]:
    """Return triples of different texts, one for each row with partners among `rows`."""
    rng = random.Random(seed)
    pool = _Pool(rows, rng)
    triples: list[Triple] = []
    for row in rows:
        right = next((text for text in pool.right(row) if text != row.text), None)
        wrong = next(
            (text for text in pool.wrong(row) if text not in (right, row.text)), None
        )
        if right is not None and wrong is not None:
            triples.append((row.text, right, wrong))
    return triples
