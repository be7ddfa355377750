from __future__ import annotations

import json
import time
from itertools import chain, combinations, count, islice

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sentbed._run.batch_sampling import Sampler
from sentbed.errors import DataError
from sentbed.protocols import Dataset
from toy_dataset import ToyDataset

KEY = (42, 1)


@attrs.frozen(eq=False)
class Numbered(Dataset):
    """So many rows, whose texts are their number and the epoch, and no other memory."""

    length: int
    columns: tuple[str, ...] = ("anchor", "positive")
    fingerprint: str = ""

    def __len__(self):
        return self.length

    def rows(self, indices, epoch=0):
        return {
            column: [f"{column} {i} {epoch}" for i in indices]
            for column in self.columns
        }

    def texts(self, columns=None):
        raise AssertionError("a sampler reads only the rows of a batch")


def epoch_of(sampler):
    return [sampler.next() for _ in range(sampler.batches_an_epoch)]


def rows_of(batches):
    rows = []
    for batch in batches:
        rows.extend(batch.rows.tolist())
    return rows


sizes_of_batches = st.integers(2, 12)
seeds = st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 3))


# --- a plain data set ---


@given(rows=st.integers(2, 60), batch_size=sizes_of_batches, key=seeds)
def test_an_epoch_is_the_permutation_of_its_key_cut_into_batches(rows, batch_size, key):
    sampler = Sampler(Numbered(rows), ["anchor"], batch_size, key)
    for epoch in range(3):
        order = np.random.default_rng([*key, epoch]).permutation(rows).tolist()
        expected = [
            order[start : start + batch_size] for start in range(0, rows, batch_size)
        ]
        if len(expected[-1]) == 1:
            expected.pop()
        batches = epoch_of(sampler)
        assert [batch.rows.tolist() for batch in batches] == expected
        assert [(batch.epoch, batch.number) for batch in batches] == [
            (epoch, number) for number in range(1, len(expected) + 1)
        ]


def test_a_batch_has_the_texts_of_the_wanted_columns_in_its_epoch():
    sampler = Sampler(Numbered(5), ["positive"], 4, KEY)
    epoch_of(sampler)
    batch = sampler.next()
    assert batch.columns == {"positive": [f"positive {row} 1" for row in batch.rows]}
    assert batch.rows.dtype == np.int64


# --- batches without a common text ---


@st.composite
def tables(draw):
    rows = draw(st.integers(2, 30))
    text = st.integers(0, draw(st.integers(3, 60))).map(str)
    column = st.lists(text, min_size=rows, max_size=rows)
    return ToyDataset(
        {"anchor": draw(column), "positive": draw(column), "negative": draw(column)}
    )


def clashes(batch):
    """The pairs of rows with a common text."""
    rows = list(zip(*batch.columns.values(), strict=True))
    pairs = []
    for first, second in combinations(rows, 2):
        if set(first) & set(second):
            pairs.append((first, second))
    return pairs


def naive_distinct(table, batch_size, key):
    """Row by row, of those that wait up to four batches, then an endless list; None where no row fits."""
    rows = len(table)
    texts = list(map(set, zip(*table.data.values(), strict=True)))

    def endless():
        for epoch in count():
            rng = np.random.default_rng([*key, epoch])
            yield from rng.permutation(rows).tolist()

    stream = endless()
    waiting = []
    while True:
        batch = []
        later = []
        in_vain = 0
        texts_of_batch = set()
        for row in chain(waiting[: 4 * batch_size], stream):
            if row in later:
                later.remove(row)
            if texts[row] & texts_of_batch:
                later.append(row)
                in_vain += 1
            else:
                batch.append(row)
                texts_of_batch |= texts[row]
                in_vain = 0
            if len(batch) == min(batch_size, rows):
                break
            if in_vain > 3 * rows:
                yield None
                return
        for row in (*batch, *later):
            if row in waiting:
                waiting.remove(row)
        waiting += later
        yield batch


@given(table=tables(), batch_size=st.integers(2, 6), key=seeds)
def test_distinct_batches_are_those_of_a_naive_loop(table, batch_size, key):
    sampler = Sampler(table, table.columns, batch_size, key, distinct=True)
    assert sampler.batches_an_epoch == max(1, len(table) // batch_size)
    for expected in islice(naive_distinct(table, batch_size, key), 12):
        if expected is None:
            with pytest.raises(DataError, match="distinct rows"):
                sampler.next()
            return
        batch = sampler.next()
        assert batch.rows.tolist() == expected
        assert batch.columns == table.rows(expected)
        assert not clashes(batch)


def test_texts_are_compared_across_columns_but_not_within_a_row_and_labels_not_at_all():
    crossed = ToyDataset(
        {"anchor": [*"abcd"], "positive": [*"xyzw"], "negative": [*"yuvs"]}
    )
    for seed in range(10):
        batch = Sampler(crossed, crossed.columns, 3, (seed, 0), distinct=True).next()
        assert not {0, 1} <= set(batch.rows.tolist())
    pairs = ToyDataset(
        {"anchor": [*"abcd"], "positive": [*"abcd"], "label": ["yes"] * 4}
    )
    assert len(Sampler(pairs, pairs.columns, 4, KEY, distinct=True).next().rows) == 4


def test_distinct_batches_that_cannot_be_filled_say_how_many_rows_are_distinct():
    table = ToyDataset(
        {"anchor": [*"aaaaabbbbbccccc"], "positive": [str(i) for i in range(15)]}
    )
    sampler = Sampler(table, table.columns, 4, KEY, distinct=True)
    with pytest.raises(
        DataError,
        match=r"4 rows .* only 3 distinct rows.* set `batch_size` to 3 or less",
    ):
        sampler.next()
    assert len(Sampler(table, table.columns, 3, KEY, distinct=True).next().rows) == 3


def test_a_text_that_most_rows_share_does_not_make_batches_slow():
    """Nine rows in ten wait; they are not all looked at for every batch."""
    rows = 20_000
    table = ToyDataset(
        {"anchor": ["same" if i % 10 else f"text {i}" for i in range(rows)]}
    )
    sampler = Sampler(table, ["anchor"], 8, KEY, distinct=True)
    began = time.perf_counter()
    for _ in range(1000):
        assert not clashes(sampler.next())
    assert time.perf_counter() - began < 10


def test_batches_of_most_of_the_data_are_filled_epoch_after_epoch():
    """Rows that share a text do not gather from epoch to epoch until a batch cannot be filled."""
    texts = ["same"] * 21 + [f"text {i}" for i in range(79)]
    sampler = Sampler(ToyDataset({"anchor": texts}), ["anchor"], 70, KEY, distinct=True)
    for _ in range(100):
        assert not clashes(sampler.next())


def test_batches_are_distinct_in_the_texts_of_their_own_epoch():
    """The texts of rows that wait are those of the epoch of the batch that they wait for."""

    class Varying(ToyDataset):
        def rows(self, indices, epoch=0):
            return {"anchor": [str(hash((epoch, i)) % 12) for i in indices]}

    table = Varying({"anchor": [str(i) for i in range(16)]})
    sampler = Sampler(table, ["anchor"], 4, KEY, distinct=True)
    for _ in range(40):
        assert not clashes(sampler.next())


# --- going on from a state ---


@pytest.mark.parametrize("distinct", [False, True])
@given(table=tables(), batch_size=st.integers(2, 6))
def test_from_every_position_a_restored_sampler_goes_on_alike(
    distinct, table, batch_size
):
    def make():
        return Sampler(table, table.columns, batch_size, KEY, distinct=distinct)

    def following(sampler):
        try:
            batches = [sampler.next() for _ in range(3)]
        except DataError as error:
            return str(error)
        return [(b.epoch, b.number, b.rows.tolist(), b.columns) for b in batches]

    positions = make()
    for _ in range(2 * positions.batches_an_epoch + 1):
        restored, whole = make(), make()
        restored.restore(json.loads(json.dumps(positions.state())))
        while whole.state() != positions.state():
            whole.next()
        expected = following(whole)
        assert following(restored) == expected
        if isinstance(expected, str):
            return
        positions.next()


def test_a_sampler_depends_on_each_part_of_its_key():
    orders = [
        rows_of(epoch_of(Sampler(Numbered(30), ["anchor"], 30, key)))
        for key in [(1, 0), (1, 1), (2, 0)]
    ]
    assert len({tuple(order) for order in orders}) == 3


# --- errors ---


def test_a_missing_column_is_an_error_before_the_first_batch():
    with pytest.raises(
        DataError, match="no column `negative`; it has anchor, positive"
    ):
        Sampler(Numbered(5), ["anchor", "negative"], 2, KEY)


@pytest.mark.parametrize("distinct", [False, True])
@pytest.mark.parametrize("rows", [0, 1])
def test_data_without_a_batch_are_an_error(rows, distinct):
    with pytest.raises(DataError, match="have no batch of at least 2"):
        Sampler(Numbered(rows), ["anchor"], 2, KEY, distinct=distinct)
