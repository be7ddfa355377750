from __future__ import annotations

import json
from itertools import combinations

import attrs
import numpy as np
import pytest
from hypothesis import assume, given
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


def distinct_sampler(table, batch_size, key=KEY):
    """Return a sampler of distinct batches; skip the example if too few rows are distinct."""
    try:
        return Sampler(table, table.columns, batch_size, key, distinct=True)
    except DataError:
        assume(False)


@given(table=tables(), batch_size=st.integers(2, 6), key=seeds)
def test_no_two_rows_of_a_distinct_batch_have_a_common_text(table, batch_size, key):
    batches = epoch_of(distinct_sampler(table, batch_size, key))
    rows = rows_of(batches)
    assert len(set(rows)) == len(rows)
    for batch in batches:
        assert len(batch.rows) == min(batch_size, len(table))
        assert batch.columns == table.rows(batch.rows.tolist())
        assert not clashes(batch)


@given(rows=st.integers(2, 60), batch_size=sizes_of_batches, key=seeds)
def test_distinct_batches_of_distinct_texts_are_the_whole_batches_of_an_epoch(
    rows, batch_size, key
):
    batch_size = min(rows, batch_size)
    plain = Sampler(Numbered(rows), ["anchor"], batch_size, key)
    distinct = Sampler(Numbered(rows), ["anchor"], batch_size, key, distinct=True)
    assert distinct.batches_an_epoch == rows // batch_size
    for batch in epoch_of(distinct):
        assert batch.rows.tolist() == plain.next().rows.tolist()


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


def test_a_row_waits_for_the_next_batch_and_most_rows_with_one_text_are_left_out():
    """Nine rows in ten have the same text; they neither make batches slow nor fill them."""
    rows = 20_000
    texts = ["same" if row % 10 else f"text {row}" for row in range(rows)]
    sampler = Sampler(ToyDataset({"anchor": texts}), ["anchor"], 8, KEY, distinct=True)
    batches = epoch_of(sampler)
    assert len(batches) > rows / 10 / 8
    of_same_text = [batch.columns["anchor"].count("same") for batch in batches]
    assert of_same_text == [1] * len(batches)


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
@given(rows=st.integers(8, 30), batch_size=st.integers(2, 4))
def test_from_every_position_a_restored_sampler_goes_on_alike(
    distinct, rows, batch_size
):
    table = ToyDataset({"anchor": [str(row // 2) for row in range(rows)]})

    def make():
        return Sampler(table, table.columns, batch_size, KEY, distinct=distinct)

    whole = make()
    for _ in range(2 * whole.batches_an_epoch + 1):
        state = json.loads(json.dumps(whole.state()))
        expected = whole.next()
        restored = make()
        restored.restore(state)
        batch = restored.next()
        assert (batch.epoch, batch.number) == (expected.epoch, expected.number)
        assert batch.rows.tolist() == expected.rows.tolist()
        assert batch.columns == expected.columns


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
    with pytest.raises(DataError, match="fill no batch"):
        Sampler(Numbered(rows), ["anchor"], 2, KEY, distinct=distinct)
