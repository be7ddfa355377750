from __future__ import annotations

import math
from itertools import pairwise
from threading import Event

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sentbed._encoder import batching
from sentbed._encoder.batching import (
    BATCH_COST,
    PREFIX_PAYS,
    pad,
    plan_batches,
    shared_prefix_length,
)
from sentbed.protocols import BuildContext, TokenBatch, TokenIds
from toy_plugin import Average, Characters, CharacterTokenizer, Placed

LENGTHS = st.lists(st.integers(1, 40), min_size=1, max_size=60)


def plan(lengths, budget):
    return list(plan_batches(np.array(lengths, np.int64), budget))


# --- plan_batches ------------------------------------------------------------------------------------------


@given(LENGTHS, st.integers(1, 300))
def test_batches_have_every_row_once_longest_first_within_the_budget(lengths, budget):
    batches = plan(lengths, budget)
    order = np.concatenate(batches).tolist()
    assert order == sorted(range(len(lengths)), key=lambda row: -lengths[row])
    for rows in batches:
        longest = max(lengths[row] for row in rows)
        assert len(rows) == 1 or len(rows) * longest <= budget


def partitions(items):
    """Every way to cut a row of items into runs."""
    for cuts in range(2 ** (len(items) - 1)):
        runs = [[items[0]]]
        for position, item in enumerate(items[1:]):
            if cuts >> position & 1:
                runs.append([item])
            else:
                runs[-1].append(item)
        yield runs


def cheapest(lengths, budget):
    """The least cost over all partitions of the distinct lengths into neighbouring groups."""
    best = math.inf
    for groups in partitions(sorted(set(lengths), reverse=True)):
        cost = 0
        for group in groups:
            rows = sum(lengths.count(length) for length in group)
            cost += rows * group[0] + BATCH_COST * math.ceil(
                rows / max(1, budget // group[0])
            )
        best = min(best, cost)
    return best


@given(
    st.lists(st.sampled_from([1, 2, 5, 9, 20, 33, 60, 100]), min_size=1, max_size=40),
    st.sampled_from([1, 64, 120, 200, 400]),
)
def test_the_cuts_cost_as_little_as_the_best_of_all_partitions(lengths, budget):
    cost = 0
    for rows in plan(lengths, budget):
        longest = max(lengths[row] for row in rows)
        cost += len(rows) * longest + BATCH_COST
    # Batches of one group may pad less than the group's longest text.
    assert cost <= cheapest(lengths, budget)


def tokens(*rows):
    return TokenIds(
        np.array([i for row in rows for i in row], np.int32),
        np.cumsum([0, *(len(row) for row in rows)]).astype(np.int64),
    )


# --- shared_prefix_length ----------------------------------------------------------------------------------


def rows_of(token_ids):
    return [
        token_ids.ids[start:stop].tolist()
        for start, stop in pairwise(token_ids.offsets.tolist())
    ]


@pytest.mark.parametrize(
    ("rows", "shared"),
    [
        (["123456", "1234578", "123459"], 5),
        (["123499", "123459", "123459"], 4),
        (["12345", "12346"], 4),
        # Too few to pay, and none.
        (["1235", "1236"], 0),
        (["923456", "123456"], 0),
        # One token of each text is left.
        (["12345", "123456"], 4),
        (["1234", "123456"], 0),
        (["123456", ""], 0),
        # One text alone shares nothing.
        (["123456"], 0),
        ([], 0),
    ],
)
def test_the_shared_prefix_is_what_every_text_begins_with(rows, shared):
    assert PREFIX_PAYS == 4
    texts = tokens(*([int(digit) for digit in row] for row in rows))
    assert shared_prefix_length(texts) == shared


def test_a_token_that_only_some_texts_hide_is_not_shared():
    texts = tokens([1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 7])
    hidden = np.array([1, 1, 1, 1, 1, 0] * 2, bool)
    assert shared_prefix_length(attrs.evolve(texts, hidden=hidden)) == 5
    hidden[10] = False
    assert shared_prefix_length(attrs.evolve(texts, hidden=hidden)) == 4
    hidden[0] = False
    assert shared_prefix_length(attrs.evolve(texts, hidden=hidden)) == 0


# --- encode ------------------------------------------------------------------------------------------------

TEXTS = [
    "one",
    "three",
    "one",
    "",
    "a longer text, cut",
    "three",
    "a longer text, cut somewhere",
    "two",
    "one",
]


class Ahead(Placed):
    """An encoder that yields the vectors of a batch only when it has taken the one after the next."""

    asynchronous = True

    def encode_batches(self, batches):
        waiting = []
        for batch in batches:
            waiting.append(self.encode(batch))
            if len(waiting) > 2:
                yield waiting.pop(0)
        yield from waiting


@pytest.fixture
def placed():
    return Placed(
        Characters(6).build(BuildContext(tuple)), Average().build(6), None, False
    )


def encode_all(
    texts,
    encoder,
    budget=64,
    max_length=40,
    tokenizer=None,
    progress=None,
):
    tokenizer = tokenizer or CharacterTokenizer()
    return batching.encode(texts, tokenizer, encoder, max_length, budget, progress)


def one_by_one(placed, texts, max_length):
    """Encode naively: each text alone, without padding, batches or repeats."""
    tokenizer = CharacterTokenizer()
    alone = [
        pad(tokenizer.encode([text], max_length), np.arange(1), 0) for text in texts
    ]
    rows = [placed.encode(batch)[0] for batch in alone]
    placed.batches.clear()
    return np.stack(rows)


@pytest.mark.parametrize("kind", [Placed, Ahead])
@pytest.mark.parametrize("budget", [1, 20, 10_000])
@pytest.mark.parametrize("window", [1, 4, 100])
def test_every_text_has_its_own_vector_at_its_own_place_and_is_counted(
    window, budget, kind, placed, monkeypatch
):
    monkeypatch.setattr(batching, "WINDOW", window)
    encoder = kind(placed.backbone, placed.weights, None, False)
    done = []
    vectors = encode_all(TEXTS, encoder, budget, 12, progress=done.append)
    expected = one_by_one(placed, TEXTS, 12)
    np.testing.assert_allclose(vectors, expected, rtol=1e-6)
    assert (sum(done), len(done)) == (len(TEXTS), len(encoder.batches))


def test_a_repeated_text_is_encoded_once(placed):
    tokenizer = CharacterTokenizer()
    encode_all(TEXTS, placed, tokenizer=tokenizer)
    assert sorted(tokenizer.seen) == sorted(set(TEXTS))
    assert sum(len(batch.input_ids) for batch in placed.batches) == len(set(TEXTS))


def test_no_texts_need_no_batch(placed):
    done = []
    encode_all([], placed, progress=done.append)
    assert (done, placed.batches) == ([], [])


# --- encode with a shared prefix ----------------------------------------------------------------------


class Sharing(Placed):
    """An encoder that takes a prefix: it puts it back before every row."""

    shares_prefix = True

    def encode(self, batch):
        ids, mask, prefix = batch.input_ids, batch.attention_mask, batch.prefix
        if prefix is not None:
            ids = np.concatenate([np.tile(prefix, (len(ids), 1)), ids], axis=1)
            if mask is not None:
                mask = np.concatenate(
                    [np.ones((len(ids), len(prefix)), np.int64), mask], axis=1
                )
        vectors = super().encode(TokenBatch(ids, mask))
        self.batches[-1] = batch
        return vectors


def encoded_rows(encoder):
    """The ids of every row, with the prefix, without padding; sorted."""
    rows = []
    for batch in encoder.batches:
        mask = (
            np.ones_like(batch.input_ids)
            if batch.attention_mask is None
            else batch.attention_mask
        )
        prefix = [] if batch.prefix is None else batch.prefix.tolist()
        rows += [
            prefix + ids[kept == 1].tolist()
            for ids, kept in zip(batch.input_ids, mask, strict=True)
        ]
    return sorted(rows)


def prefix_lengths(encoder):
    return [
        None if batch.prefix is None else len(batch.prefix) for batch in encoder.batches
    ]


def ids_of(texts):
    return sorted(rows_of(CharacterTokenizer().encode(list(dict.fromkeys(texts)), 40)))


@pytest.fixture
def sharing(placed):
    return Sharing(placed.backbone, placed.weights, None, False)


@given(
    st.lists(st.text("ab", max_size=4), min_size=1, max_size=8),
    st.text("ab", max_size=6),
)
def test_every_row_is_whole_whatever_the_texts_share(texts, head):
    texts = [head + text for text in texts]
    parts = Characters(6).build(BuildContext(tuple)), Average().build(6), None, False
    sharing = Sharing(*parts)
    vectors = encode_all(texts, sharing, 20)
    assert encoded_rows(sharing) == ids_of(texts)
    np.testing.assert_allclose(
        vectors, one_by_one(Placed(*parts), texts, 40), rtol=1e-5, atol=1e-6
    )


def test_each_window_has_its_own_prefix(sharing, monkeypatch):
    monkeypatch.setattr(batching, "WINDOW", 2)
    texts = ["aaaaax", "aaaaay", "bbbbbbx", "bbbbbby", "ccccc"]
    encode_all(texts, sharing)
    assert prefix_lengths(sharing) == [6, 7, None]
    assert encoded_rows(sharing) == ids_of(texts)


# --- encode with an encoder that runs ahead of the host ------------------------------------------------


def test_the_next_window_is_tokenised_while_one_is_encoded(placed, monkeypatch):
    monkeypatch.setattr(batching, "WINDOW", 1)
    second = Event()

    class Tells(CharacterTokenizer):
        def encode(self, texts, max_length):
            if texts[0] == "two":
                second.set()
            return super().encode(texts, max_length)

    class Waits(Ahead):
        def encode(self, batch):
            assert second.wait(10), "nobody tokenises the second window"
            return super().encode(batch)

    waits = Waits(placed.backbone, placed.weights, None, False)
    encode_all(["one", "two", "three"], waits, tokenizer=Tells())
    assert len(waits.batches) == 3
