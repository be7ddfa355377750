from __future__ import annotations

import json
import time
import tracemalloc
from collections import Counter
from contextlib import suppress
from itertools import chain, count, islice

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sentbed._run.batch_sampling import Sampler
from sentbed.errors import DataError
from sentbed.protocols import Dataset, Mixture
from toy_dataset import ToyDataset

KEY = (42, 1)


@attrs.frozen(eq=False)
class Numbered(Dataset):
    """So many rows, whose texts are their number and the epoch, and no other memory."""

    length: int
    mixture: Mixture | None = None
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


def mixed(sizes, takes, **how):
    return Numbered(sum(sizes), Mixture(tuple(sizes), tuple(takes), **how))


def epoch_of(sampler):
    return [sampler.next() for _ in range(sampler.batches_an_epoch)]


def rows_of(batches):
    return [row for batch in batches for row in batch.rows.tolist()]


def part_of(row, sizes):
    return int(np.searchsorted(np.cumsum(sizes), row, side="right"))


sizes_of_batches = st.integers(2, 12)
seeds = st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 3))
buffers = st.none() | st.integers(2, 70)


@st.composite
def mixtures(draw):
    sizes = draw(st.lists(st.integers(1, 30), min_size=2, max_size=4))
    takes = draw(st.lists(st.integers(2, 60), min_size=len(sizes), max_size=len(sizes)))
    return mixed(
        sizes, takes, in_turn=draw(st.booleans()), whole_batches=draw(st.booleans())
    )


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


# --- bounded shuffle ---


@given(
    rows=st.integers(2, 300),
    buffer=st.integers(2, 320),
    batch_size=sizes_of_batches,
    key=seeds,
)
def test_a_bounded_shuffle_has_every_row_once_an_epoch(rows, buffer, batch_size, key):
    sampler = Sampler(
        Numbered(rows), ["anchor"], batch_size, key, shuffle_buffer=buffer
    )
    for _ in range(2):
        drawn = rows_of(epoch_of(sampler))
        assert len(set(drawn)) == len(drawn) == rows - (rows % batch_size == 1)
        assert set(drawn) <= set(range(rows))


@given(rows=st.integers(2, 60), more=st.integers(0, 5), batch_size=sizes_of_batches)
def test_a_buffer_of_all_rows_is_the_full_shuffle(rows, more, batch_size):
    bounded = Sampler(
        Numbered(rows), ["anchor"], batch_size, KEY, shuffle_buffer=rows + more
    )
    full = Sampler(Numbered(rows), ["anchor"], batch_size, KEY)
    assert rows_of(epoch_of(bounded)) == rows_of(epoch_of(full))


def test_a_window_of_a_bounded_shuffle_comes_from_few_places_and_is_shuffled_itself():
    rows, buffer = 100_003, 3200
    sampler = Sampler(Numbered(rows), ["anchor"], buffer, KEY, shuffle_buffer=buffer)
    for batch in epoch_of(sampler):
        runs = 1 + np.count_nonzero(np.diff(np.sort(batch.rows)) > 1)
        assert runs <= 34
        assert np.count_nonzero(np.diff(batch.rows) == 1) < 20
    first, second = rows_of(epoch_of(sampler)), rows_of(epoch_of(sampler))
    assert first != second
    # Early and late batches have rows of all of the data: the mean of 32 places is near the middle.
    assert abs(np.mean(first[:buffer]) / rows - 0.5) < 0.25


def test_ten_million_rows_are_shuffled_in_little_memory_and_from_any_position_at_once():
    rows = 10_000_000
    tracemalloc.start()
    began = time.perf_counter()
    sampler = Sampler(Numbered(rows), ["anchor"], 64, KEY, shuffle_buffer=10_000)
    sampler.restore({**sampler.state(), "epoch": 7, "done": 120_000})
    for _ in range(500):
        sampler.next()
    seconds, (_, peak) = time.perf_counter() - began, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4e6  # all rows would be 80 MB
    assert seconds < 5


# --- mixtures ---


@given(data=mixtures(), batch_size=sizes_of_batches, buffer=buffers, key=seeds)
def test_every_part_gives_its_share_and_goes_through_all_rows_before_it_repeats(
    data, batch_size, buffer, key
):
    mixture = data.mixture
    sampler = Sampler(data, ["anchor"], batch_size, key, shuffle_buffer=buffer)
    drawn = [[] for _ in mixture.sizes]
    left_out = 0
    for _ in range(4):
        batches = epoch_of(sampler)
        counts = Counter(part_of(row, mixture.sizes) for row in rows_of(batches))
        if mixture.whole_batches:
            assert all(
                len({part_of(row, mixture.sizes) for row in batch.rows}) == 1
                for batch in batches
            )
            alone = [take % batch_size == 1 for take in mixture.takes]
            assert [counts[part] for part in range(len(alone))] == [
                take - out for take, out in zip(mixture.takes, alone, strict=True)
            ]
            left_out += sum(alone)
        else:
            out = sum(mixture.takes) % batch_size == 1
            assert sum(counts.values()) == sum(mixture.takes) - out
            assert all(
                0 <= take - counts[part] <= out
                for part, take in enumerate(mixture.takes)
            )
            left_out += out
        for row in rows_of(batches):
            drawn[part_of(row, mixture.sizes)].append(row)
    if not left_out:
        for size, rows in zip(mixture.sizes, drawn, strict=True):
            for start in range(0, len(rows) - size + 1, size):
                assert len(set(rows[start : start + size])) == size


@pytest.mark.parametrize("whole_batches", [False, True])
def test_parts_in_turn_alternate_until_they_are_used_up(whole_batches):
    scale = 4 if whole_batches else 1
    sizes, takes = (100, 100, 100), (3 * scale, 1 * scale, 2 * scale)
    sampler = Sampler(
        mixed(sizes, takes, in_turn=True, whole_batches=whole_batches),
        ["anchor"],
        4,
        KEY,
    )
    for _ in range(2):
        parts = [part_of(row, sizes) for row in rows_of(epoch_of(sampler))]
        assert parts[::scale] == [0, 1, 2, 0, 2, 0]


def test_parts_out_of_turn_come_in_another_order_in_every_epoch():
    sizes = (50, 50)
    sampler = Sampler(mixed(sizes, sizes), ["anchor"], 10, KEY)
    orders = [
        [part_of(row, sizes) for row in rows_of(epoch_of(sampler))] for _ in range(3)
    ]
    assert len({tuple(order) for order in orders}) == 3
    assert all(sorted(order) == [0] * 50 + [1] * 50 for order in orders)


def test_the_order_of_many_parts_is_exact_and_even_over_pieces():
    sizes = (150_000, 30_000, 1)
    sampler = Sampler(mixed(sizes, sizes), ["anchor"], 1000, KEY)
    batches = epoch_of(sampler)
    assert (
        len(set(rows_of(batches))) == len(rows_of(batches)) == 180_000
    )  # one row alone is left out
    shares = [np.mean(batch.rows < 150_000) for batch in batches]
    # Of 1,000 draws at 5/6 the standard deviation is 0.0118.
    assert 0.78 < min(shares) < max(shares) < 0.89
    assert 0.009 < np.std(shares) < 0.015


def test_the_place_of_a_single_row_is_evenly_distributed():
    """One row of part 1 among 19 of part 0: each place of the epoch is as likely as another."""
    sampler = Sampler(mixed((19, 1), (19, 1)), ["anchor"], 20, KEY)
    places = Counter(sampler.next().rows.tolist().index(19) for _ in range(4000))
    assert set(places) == set(range(20))
    # Chi-squared with 19 degrees of freedom is above 43.8 once in a thousand.
    assert sum((places[place] - 200) ** 2 / 200 for place in range(20)) < 43.8


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
    rows = list(zip(*batch.columns.values(), strict=True))
    return [
        (i, j)
        for j in range(len(rows))
        for i in range(j)
        if set(rows[i]) & set(rows[j])
    ]


def naive_distinct(table, batch_size, key):
    """Row by row, of those that wait up to four batches, then an endless list; None where no row fits."""
    rows, full_size = len(table), min(batch_size, len(table))
    stream = (
        row
        for e in count()
        for row in np.random.default_rng([*key, e]).permutation(rows).tolist()
    )
    texts = [{column[row] for column in table.data.values()} for row in range(rows)]
    waiting = []
    while True:
        batch = []
        later = []
        vain = 0
        for row in chain(waiting[: 4 * batch_size], stream):
            if any(texts[row] & texts[other] for other in batch):
                later = [other for other in later if other != row] + [row]
                vain += 1
            else:
                later = [other for other in later if other != row]
                batch.append(row)
                vain = 0
            if len(batch) == full_size:
                break
            if vain > 3 * rows:
                yield None
                return
        waiting = [
            row for row in waiting if row not in batch and row not in later
        ] + later
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


@given(
    table=tables(),
    data=mixtures(),
    buffer=buffers,
    batch_size=st.integers(2, 6),
    key=seeds,
)
def test_distinct_batches_of_mixtures_share_no_text(
    table, data, buffer, batch_size, key
):
    mixture = data.mixture

    class Mixed(Numbered):
        def rows(self, indices, epoch=0):
            return table.rows([i % len(table) for i in indices])

    sampler = Sampler(
        Mixed(len(data), mixture),
        ["anchor", "positive"],
        batch_size,
        key,
        distinct=True,
        shuffle_buffer=buffer,
    )
    with suppress(DataError):  # some of these have too few distinct rows
        for _ in range(12):
            batch = sampler.next()
            assert not clashes(batch)
            parts = {part_of(row, mixture.sizes) for row in batch.rows}
            assert len(parts) == 1 or not mixture.whole_batches
            assert 1 < len(batch.rows) <= batch_size


def test_a_row_that_clashes_waits_for_the_next_batch():
    texts = [*"aabcdefgh"]
    table = ToyDataset({"anchor": texts, "positive": [f"+{i}" for i in range(9)]})
    for seed in range(20):
        sampler = Sampler(table, table.columns, 3, (seed, 0), distinct=True)
        rows = rows_of(epoch_of(sampler))
        batch_of = {row: place // 3 for place, row in enumerate(rows)}
        assert batch_of[0] != batch_of[1] if {0, 1} <= set(rows) else {0, 1} & set(rows)
        assert len(set(rows)) == 9 or sampler.state()["lanes"][0]["deferred"]


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
    assert time.perf_counter() - began < 5
    assert len(sampler.state()["lanes"][0]["deferred"]) <= rows


# --- going on from a state ---


@given(
    data=mixtures() | st.integers(2, 40).map(Numbered),
    batch_size=sizes_of_batches,
    buffer=buffers,
)
def test_from_every_position_a_restored_sampler_goes_on_alike(data, batch_size, buffer):
    _goes_on_alike(
        lambda: Sampler(data, ["anchor"], batch_size, KEY, shuffle_buffer=buffer)
    )


@given(table=tables(), batch_size=st.integers(2, 6), buffer=buffers)
def test_from_every_position_a_restored_distinct_sampler_goes_on_alike(
    table, batch_size, buffer
):
    _goes_on_alike(
        lambda: Sampler(
            table, table.columns, batch_size, KEY, distinct=True, shuffle_buffer=buffer
        )
    )


def test_a_state_of_smaller_batches_is_refused_with_what_differs():
    data = Numbered(10)
    sampler = Sampler(data, ["anchor"], 2, KEY)
    for _ in range(4):
        sampler.next()
    larger = Sampler(data, ["anchor"], 5, KEY)
    with pytest.raises(DataError, match="with the data and the batch size of the run"):
        larger.restore(sampler.state())


def _goes_on_alike(make):
    def following(sampler, count):
        try:
            batches = [sampler.next() for _ in range(count)]
        except DataError as error:
            return [(str(error),)]
        return [(b.epoch, b.number, b.rows.tolist(), dict(b.columns)) for b in batches]

    whole = make()
    for _ in range(2 * whole.batches_an_epoch + 1):
        state = json.loads(json.dumps(whole.state()))
        restored = make()
        restored.restore(state)
        assert restored.state() == state
        if len(expected := following(restored, 3)) == 1:
            assert following(whole, 3) == expected
            return
        ahead = make()
        following(ahead, 2)  # wherever a sampler stands, restoring decides
        ahead.restore(state)
        assert following(ahead, 3) == expected
        assert following(whole, 1) == expected[:1]


def test_a_sampler_depends_on_each_part_of_its_key():
    orders = [
        rows_of(epoch_of(Sampler(Numbered(30), ["anchor"], 30, key)))
        for key in [(1, 0), (1, 1), (2, 0)]
    ]
    assert len({tuple(order) for order in orders}) == 3


def test_going_on_in_a_late_epoch_of_a_mixture_is_immediate():
    sampler = Sampler(
        mixed((200_000, 300_000), (300_000, 100_000)), ["anchor"], 64, KEY
    )
    sampler.restore({**sampler.state(), "epoch": 10_000, "done": 6000})
    began = time.perf_counter()
    assert sampler.next().epoch == 10_000
    assert time.perf_counter() - began < 2


# --- errors ---


def test_a_missing_column_is_an_error_before_the_first_batch():
    with pytest.raises(
        DataError, match="no column `negative`; it has anchor, positive"
    ):
        Sampler(Numbered(5), ["anchor", "negative"], 2, KEY)


@pytest.mark.parametrize("distinct", [False, True])
@pytest.mark.parametrize(
    "data",
    [
        Numbered(0),
        Numbered(1),
        mixed((5, 5), (1, 1), whole_batches=True),
        mixed((5, 5), (1, 0)),
    ],
)
def test_data_without_a_batch_are_an_error(data, distinct):
    with pytest.raises(DataError, match=r"row\(s\) an epoch, a batch needs at least 2"):
        Sampler(data, ["anchor"], 2, KEY, distinct=distinct)


@pytest.mark.parametrize("distinct", [False, True])
def test_a_source_that_runs_dry_is_named_with_epoch_and_batch(distinct):
    class Dry(Numbered):
        def rows(self, indices, epoch=0):
            return super().rows(indices[: len(indices) - epoch], epoch)

    sampler = Sampler(Dry(8), ["anchor"], 4, KEY, distinct=distinct)
    epoch_of(sampler)
    with pytest.raises(
        DataError,
        match=r"asked for 4 rows of `anchor`, it gave 3, in epoch 2, batch 1 of 2",
    ):
        sampler.next()


def test_the_state_of_other_data_is_refused():
    state = Sampler(Numbered(20), ["anchor"], 4, KEY).state()
    with pytest.raises(DataError, match="5 batches an epoch"):
        Sampler(Numbered(30), ["anchor"], 4, KEY).restore(state)


@pytest.mark.parametrize(
    "position",
    [
        {"done": "4"},
        {"done": [4]},
        {"done": 10**20},
        {"done": 1.5},
        {"epoch": None},
        {"epoch": -1},
        {"epoch": 10**20},
        {"lanes": [{"position": "x", "deferred": []}]},
        {"lanes": [{"position": 0, "deferred": ["x"]}]},
        {"lanes": [{"position": 0, "deferred": [30]}]},
    ],
)
def test_a_position_that_is_none_is_refused(position):
    sampler = Sampler(Numbered(30), ["anchor"], 4, KEY)
    with pytest.raises(
        DataError,
        match=r"of the sampler has the position .*, expected a whole number from 0 to",
    ):
        sampler.restore({**sampler.state(), **position})
