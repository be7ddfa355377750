"""Texts keep what stands beside their ids, whatever is done with them; compared with lists of Python."""

from __future__ import annotations

from itertools import chain, pairwise

import attrs
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from sentbed.helpers import pad
from sentbed.protocols import TokenBatch, TokenIds

PAD = 99
TOKENS = st.lists(st.tuples(st.integers(0, 9), st.booleans()), min_size=1, max_size=6)


@attrs.frozen
class Text:
    """A text as a test sees it: its tokens, each an id and whether it is hidden."""

    tokens: list[tuple[int, bool]]
    auxiliary: list[tuple[int, bool]] | None = None


TEXT = st.builds(Text, TOKENS, TOKENS)
TEXTS = st.lists(TEXT, min_size=1, max_size=6)


def token_ids(texts):
    """Return texts with all fields."""
    ids = []
    hidden = []
    offsets = [0]
    prompts = []
    for text in texts:
        for number, is_hidden in text.tokens:
            ids.append(number)
            hidden.append(is_hidden)
        offsets.append(len(ids))
        if text.auxiliary is not None:
            prompts.append(Text(text.auxiliary))

    encoded = TokenIds(
        np.array(ids, np.int32),
        np.array(offsets),
        hidden=np.array(hidden),
    )
    if not prompts:
        return encoded
    return attrs.evolve(encoded, auxiliary=token_ids(prompts))


def pairs_of(tokens):
    """Return all tokens of token ids, each with whether it is hidden."""
    ids = tokens.ids.tolist()
    hidden = tokens.hidden.tolist()
    return list(zip(ids, hidden, strict=True))


def texts_of(tokens):
    """Return what is written in token ids, the prefix before each text."""
    prefix = []
    if tokens.prefix is not None:
        prefix = pairs_of(tokens.prefix)
    pairs = pairs_of(tokens)

    texts = []
    offsets = tokens.offsets.tolist()
    for start, stop in pairwise(offsets):
        texts.append(Text(prefix + pairs[start:stop]))
    if tokens.auxiliary is None:
        return texts
    return with_auxiliary(texts, texts_of(tokens.auxiliary))


def with_auxiliary(texts, prompts):
    """Return the texts with the tokens of their second prompts."""
    prompted = []
    for text, prompt in zip(texts, prompts, strict=True):
        prompted.append(attrs.evolve(text, auxiliary=prompt.tokens))
    return prompted


def rows_of(batch):
    """Return what is written in a batch, the prefix before each row and padding left out."""
    prefix = []
    if batch.prefix is not None:
        prefix = batch.prefix.tolist()

    texts = []
    for row, ids in enumerate(batch.input_ids.tolist()):
        length = len(ids)
        if batch.attention_mask is not None:
            mask = batch.attention_mask[row].tolist()
            length = sum(mask)
            padding = len(ids) - length
            assert mask == [1] * length + [0] * padding
            assert ids[length:] == [PAD] * padding

        hidden = batch.keywords["hidden"][row].tolist()
        assert len(hidden) == len(prefix) + len(ids)
        end = len(prefix) + length
        assert not any(hidden[end:])

        row_ids = prefix + ids[:length]
        texts.append(Text(list(zip(row_ids, hidden, strict=False))))
    if batch.auxiliary is None:
        return texts
    return with_auxiliary(texts, rows_of(batch.auxiliary))


@given(st.lists(TEXTS, min_size=1, max_size=4))
def test_joined_texts_are_those_of_the_parts_with_all_their_fields(parts):
    joined = TokenIds.join(list(map(token_ids, parts)))
    assert texts_of(joined) == list(chain.from_iterable(parts))
    assert (joined.ids.dtype, joined.offsets.dtype) == (np.int32, np.int64)


def test_of_a_part_without_hidden_tokens_no_token_is_hidden():
    bare = TokenIds(np.array([1, 2], np.int32), np.array([0, 2]))
    joined = TokenIds.join([bare, attrs.evolve(bare, hidden=np.array([True, False]))])
    assert joined.hidden.tolist() == [False, False, True, False]

    joined = TokenIds.join([bare, bare])
    assert (joined.hidden, joined.auxiliary) == (None, None)
    batch = pad(joined, np.array([0, 1]), PAD)
    assert (batch.attention_mask, batch.auxiliary, batch.keywords) == (None, None, {})


def texts_after(shared, tails):
    """Return the texts with the shared tokens before those of each."""
    texts = []
    for tail in tails:
        tokens = shared + tail.tokens
        texts.append(attrs.evolve(tail, tokens=tokens))
    return texts


@given(TOKENS, TEXTS)
def test_a_prefix_is_taken_out_of_every_text_with_what_is_hidden_in_it(shared, tails):
    texts = texts_after(shared, tails)
    whole = token_ids(texts)
    for count in range(len(shared) + 1):
        parted = whole.share_prefix(count)
        assert len(parted.prefix.ids) == count
        assert (parted.lengths == whole.lengths - count).all()
        assert texts_of(parted) == texts
        assert (parted.ids.dtype, parted.offsets.dtype) == (np.int32, np.int64)
    assert texts_of(whole) == texts


def draw_rows(data, count):
    """Draw some of `count` rows in any order, each any number of times."""
    row = st.sampled_from(range(count))
    return data.draw(st.lists(row, min_size=1, max_size=8))


@given(TOKENS, TEXTS, st.booleans(), st.data())
def test_padded_cut_and_widened_texts_keep_their_fields(shared, tails, shares, data):
    texts = texts_after(shared, tails)
    tokens = token_ids(texts)
    if shares:
        tokens = tokens.share_prefix(len(shared))

    order = draw_rows(data, len(texts))
    batch = pad(tokens, np.array(order), PAD)
    expected = [texts[row] for row in order]
    assert rows_of(batch) == expected
    lengths = {len(text.tokens) for text in expected}
    has_no_mask = batch.attention_mask is None
    assert has_no_mask == (len(lengths) == 1)

    chosen = draw_rows(data, len(order))
    part = batch.select(np.array(chosen))
    assert rows_of(part) == [expected[row] for row in chosen]
    middle = data.draw(st.integers(0, len(order)))
    first_half = batch.select(slice(middle))
    second_half = batch.select(slice(middle, None))
    assert rows_of(first_half) + rows_of(second_half) == expected

    rows, length = batch.input_ids.shape
    wide_rows = rows + data.draw(st.integers(0, 3))
    wide_length = length + data.draw(st.integers(0, 3))
    wide = batch.widened(wide_rows, wide_length, PAD)
    assert wide.input_ids.shape == (wide_rows, wide_length)

    rows_of_wide = rows_of(wide)
    assert rows_of_wide[:rows] == expected
    for filler in rows_of_wide[rows:]:
        assert filler.tokens[-1] == (PAD, False)


def test_a_widened_batch_has_a_mask_and_a_token_in_every_row():
    batch = TokenBatch(np.array([[1, 2]]), None)
    wide = batch.widened(2, 3, pad_id=0)
    assert wide.input_ids.tolist() == [[1, 2, 0], [0, 0, 0]]
    assert wide.attention_mask.tolist() == [[1, 1, 0], [1, 0, 0]]
