"""Building of SentBench's pair and contrast sets from the rows of a source.

An entry of a pair set is two texts, and whether they belong together. An entry of a contrast set is a text, a
text that belongs to it, and a text that does not. All draws come from `random.Random` with an integer seed, and
rows are ordered by BLAKE2 digests. The same rows and seed therefore give the same sets, whatever the version of
NumPy and the seed of Python's own hashes.

StyleTransfer has lines that are equal in both forms. They are kept, and become positive pairs of two equal texts
(1,197 of 20,822 with seed 0); without them, there are fewer pairs than Table 1 of the SentBench paper reports.
About 100 short lines of StyleTransfer are in both `train` and `test`, in different pairs.
"""

from __future__ import annotations

import hashlib
import math
import random
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TypeAlias, TypeVar

import attrs
from sentbed import DataError
from sentbed.helpers import derive

from sentbed_evaluators.sentbench_sets.rows import Choice, Labelled, Row
from sentbed_evaluators.sentbench_sets.sources import SOURCES, Sizes

SPLITS = ("train", "valid", "test")

Pair: TypeAlias = tuple[str, str, int]
"""Two texts and a label: 1 if they belong together, else 0."""
Triple: TypeAlias = tuple[str, str, str]
"""A text, a text that belongs to it, and a text that does not."""

_T = TypeVar("_T")

_DRAWS = 32
"""Number of random candidates that are tried before all candidates are tried in order. The first random one is
nearly always suitable."""


def build_sets(
    task: str,
    pair_rows: Iterable[Row],
    contrast_rows: Iterable[Row],
    seed: int,
    limit: int | None = None,
) -> tuple[dict[str, list[Pair]], list[Triple]]:
    """Return a task's pairs by split, and its triples.

    Their numbers are those of the paper, or smaller if the source has too few rows. `limit` is the largest number
    of pairs in each split, and the largest number of triples.

    Raises:
        DataError: if a split would have pairs of one label only, or there would be no triple.
    """
    source = SOURCES[task]
    sizes = source.sizes
    if limit is not None:
        sizes = Sizes(*(min(size, limit) for size in attrs.astuple(sizes)))

    pair_seed = derive(seed, task, "pairs")
    contrast_seed = derive(seed, task, "contrast")

    rows = choose(pair_rows, math.ceil(sizes.pairs / source.pairs_per_row), pair_seed)
    pairs = build_pairs(rows, scaled(sizes, len(rows)), pair_seed)
    for split in SPLITS:
        labels = {label for _, _, label in pairs[split]}
        if getattr(sizes, split) and len(labels) < 2:
            raise DataError(
                f"{len(rows)} rows of `{task}` are too few for the pairs of `{split}`; "
                f"download the whole source, or raise `limit`"
            )

    rows = choose(filter(_has_contrast, contrast_rows), sizes.contrast, contrast_seed)
    triples = build_contrast(rows, contrast_seed)
    if not triples:
        raise DataError(
            f"no row of the contrast set of `{task}` has partners; download the whole source, or raise `limit`"
        )
    return pairs, triples


def _has_contrast(row: Row) -> bool:
    """Whether a row can be in a contrast set: its text must differ from the text that belongs to it."""
    return isinstance(row, Labelled) or row.right != row.text


def choose(
    rows: Iterable[Row],
    count: int,
    seed: int,
) -> list[Row]:
    """Return `count` rows, or all if there are fewer, in a pseudo-random order that depends on `seed`.

    A row that repeats an earlier row is chosen only if there are not enough distinct rows. Rows that are chosen
    more than once come first, so that all their copies are in the training split.
    """
    seen: set[str] = set()
    candidates = []
    for row in rows:
        is_blank = not row.text.strip()
        if isinstance(row, Choice):
            is_blank = is_blank or not row.right.strip()
        if is_blank:
            continue

        candidates.append((row.identity in seen, _digest(row.text, seed), row))
        seen.add(row.identity)

    # Sorting keeps the order of the file where digests are equal.
    candidates.sort(key=lambda candidate: candidate[:2])
    chosen = candidates[:count]
    times = Counter(row.identity for _, _, row in chosen)
    chosen.sort(key=lambda candidate: (times[candidate[2].identity] == 1, candidate[1]))
    return [row for _, _, row in chosen]


def _digest(text: str, seed: int) -> bytes:
    """Return an 8-byte digest of a text, which depends on the seed."""
    key = str(seed).encode()
    return hashlib.blake2b(text.encode(), digest_size=8, key=key).digest()


@attrs.define(eq=False)
class _Pool:
    """Rows whose texts may be combined into pairs and triples, indexed by what a search for partners needs."""

    rows: Sequence[Row]
    rng: random.Random

    _texts_of_class: dict[tuple[str, int], list[str]] = attrs.field(init=False)
    """`(numbering, label)` of a class -> texts of the labelled rows of this class."""
    _classes_of_text: dict[str, set[tuple[str, int]]] = attrs.field(init=False)
    """Text of a labelled row -> its classes."""
    _rows_of_numbering: dict[str, list[Labelled]] = attrs.field(init=False)

    _right_of_text: dict[str, set[str]] = attrs.field(init=False)
    """Text of a row with choices -> the texts that belong to it."""

    def __attrs_post_init__(self) -> None:
        self._texts_of_class = defaultdict(list)
        self._rows_of_numbering = defaultdict(list)
        self._classes_of_text = defaultdict(set)
        self._right_of_text = defaultdict(set)
        for row in self.rows:
            if isinstance(row, Choice):
                self._right_of_text[row.text].add(row.right)
                continue

            row_class = row.numbering, row.label
            self._texts_of_class[row_class].append(row.text)
            self._rows_of_numbering[row.numbering].append(row)
            self._classes_of_text[row.text].add(row_class)

    def right(self, row: Row) -> Iterator[str]:
        """Yield texts that belong to a row's text, in random order; a text may come more than once."""
        if isinstance(row, Choice):
            yield row.right
            return

        for text in self._draw(self._texts_of_class[row.numbering, row.label]):
            if text != row.text:
                yield text

    def wrong(self, row: Row) -> Iterator[str]:
        """Yield texts that do not belong to a row's text, in random order; a text may come more than once.

        If other rows have the same text as this row, what belongs to them is left out, too.
        """
        if isinstance(row, Labelled):
            classes = self._classes_of_text[row.text]
            for other in self._draw(self._rows_of_numbering[row.numbering]):
                if classes.isdisjoint(self._classes_of_text[other.text]):
                    yield other.text

            return

        not_wrong = {row.text, *self._right_of_text[row.text]}
        if row.wrong:
            for text in self._draw(row.wrong):
                if text.strip() and text not in not_wrong:
                    yield text

            return

        for choice in self._draw(self.rows):
            assert isinstance(choice, Choice)
            if choice.right not in not_wrong and choice.text != row.text:
                yield choice.right

    def _draw(self, candidates: Sequence[_T]) -> Iterator[_T]:
        """Yield `_DRAWS` random candidates, then every candidate once."""
        for _ in range(_DRAWS):
            yield candidates[self.rng.randrange(len(candidates))]

        start = self.rng.randrange(len(candidates))
        yield from candidates[start:]
        yield from candidates[:start]


def scaled(sizes: Sizes, rows: int) -> Sizes:
    """Return the sizes, reduced in proportion if `rows` rows with two pairs each are too few for them."""
    pairs = min(sizes.pairs, 2 * rows)
    if pairs == sizes.pairs:
        return sizes

    train = sizes.train * pairs // sizes.pairs
    valid = sizes.valid * pairs // sizes.pairs
    return attrs.evolve(
        sizes,
        train=train,
        valid=valid,
        test=pairs - train - valid,
    )


def build_pairs(
    rows: Sequence[Row],
    sizes: Sizes,
    seed: int,
) -> dict[str, list[Pair]]:
    """Return the pairs of each split; the numbers of matching and other pairs differ by one at most.

    The first text of pair k is that of row `k * len(rows) // pairs`, and the two texts belong together if k is
    even. The pairs of a row are therefore consecutive, and two neighbouring splits share at most one row. The
    second text comes from the rows of the same split. No pair of texts is in two splits.
    """
    rng = random.Random(seed)
    split_of_pair: dict[tuple[str, str], str] = {}
    pairs_by_split: dict[str, list[Pair]] = {}
    start = 0
    for split in SPLITS:
        end = start + getattr(sizes, split)
        pairs: list[Pair] = []
        if end > start:
            first_row = start * len(rows) // sizes.pairs
            last_row = (end - 1) * len(rows) // sizes.pairs
            pool = _Pool(rows[first_row : last_row + 1], rng)
            for k in range(start, end):
                row = rows[k * len(rows) // sizes.pairs]
                label = 1 if k % 2 == 0 else 0
                pairs += _pair(row, label, split, pool, split_of_pair)

        pairs_by_split[split] = _balanced(pairs, rng)
        start = end

    return pairs_by_split


def _pair(
    row: Row,
    label: int,
    split: str,
    pool: _Pool,
    split_of_pair: dict[tuple[str, str], str],
) -> Iterator[Pair]:
    """Yield a pair with the text of a row, if there is a partner for it, and add the pair to `split_of_pair`.

    The label says whether the texts belong together. A pair that exists already is yielded again only if the row
    names its partner itself and the pair is in the same split: the source then repeats the row.
    """
    names_partner = isinstance(row, Choice) and (label == 1 or bool(row.wrong))
    partners = pool.right(row) if label else pool.wrong(row)
    for text in partners:
        pair = min(row.text, text), max(row.text, text)
        may_repeat = names_partner and split_of_pair.get(pair) == split
        if pair not in split_of_pair or may_repeat:
            split_of_pair[pair] = split
            yield row.text, text, label
            return


def _balanced(pairs: list[Pair], rng: random.Random) -> list[Pair]:
    """Return the pairs in random order; the more frequent label keeps at most one pair more than the other."""
    rng.shuffle(pairs)
    counts = Counter(label for _, _, label in pairs)
    surplus = {0: counts[0] - counts[1] - 1, 1: counts[1] - counts[0] - 1}
    kept = []
    for pair in pairs:
        label = pair[2]
        if surplus[label] > 0:
            surplus[label] -= 1
        else:
            kept.append(pair)

    return kept


def build_contrast(rows: Sequence[Row], seed: int) -> list[Triple]:
    """Return a triple of different texts for each row for which `rows` has both a right and a wrong text."""
    pool = _Pool(rows, random.Random(seed))
    triples: list[Triple] = []
    for row in rows:
        right = _first_other(pool.right(row), {row.text})
        wrong = _first_other(pool.wrong(row), {row.text, right})
        if right is not None and wrong is not None:
            triples.append((row.text, right, wrong))

    return triples


def _first_other(texts: Iterable[str], excluded: Collection[str | None]) -> str | None:
    """Return the first text that is not excluded; None if there is none."""
    for text in texts:
        if text not in excluded:
            return text

    return None
