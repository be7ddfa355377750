"""Texts keep what stands beside their ids, whatever is done with them; compared with lists of Python."""

from __future__ import annotations

from itertools import pairwise

import attrs
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from sentbed.helpers import pad
from sentbed.protocols import TokenBatch, TokenIds

PAD = 99
HIDDEN, READINGS, AUXILIARY = "hidden", "readings", "auxiliary"


@attrs.frozen
class Text:
    """A text as a test sees it: its tokens, each an id and whether it is hidden, and the layers it reads."""

    tokens: tuple[tuple[int, bool], ...]
    reading: int
    auxiliary: tuple[tuple[int, bool], ...] | None = None


TOKEN = st.tuples(st.integers(0, 9), st.booleans())
TOKENS = st.lists(TOKEN, min_size=1, max_size=6).map(tuple)
TEXT = st.builds(Text, TOKENS, st.integers(0, 3), TOKENS)
TEXTS = st.lists(TEXT, min_size=1, max_size=6)
FIELDS = st.sets(st.sampled_from([HIDDEN, READINGS, AUXILIARY]))
PART = st.tuples(TEXTS, FIELDS)


def token_ids(texts, fields):
    """Return texts with some of the fields; the others are None."""
    ids = []
    hidden = []
    lengths = []
    for text in texts:
        lengths.append(len(text.tokens))
        for number, is_hidden in text.tokens:
            ids.append(number)
            hidden.append(is_hidden)

    offsets = np.cumsum([0, *lengths])
    encoded = TokenIds(np.array(ids, np.int32), offsets)

    if HIDDEN in fields:
        encoded = attrs.evolve(encoded, hidden=np.array(hidden, bool))

    if READINGS in fields:
        readings = [text.reading for text in texts]
        encoded = attrs.evolve(encoded, readings=np.array(readings, np.int32))

    if AUXILIARY in fields:
        prompts = [Text(text.auxiliary or (), 0) for text in texts]
        auxiliary = token_ids(prompts, fields & {HIDDEN})
        encoded = attrs.evolve(encoded, auxiliary=auxiliary)

    return encoded


def without_other_fields(texts, fields):
    """Return the texts as they are where only some fields are told."""

    def reduced_tokens(tokens):
        if HIDDEN in fields:
            return tokens

        return tuple((number, False) for number, _ in tokens)

    reduced = []
    for text in texts:
        tokens = reduced_tokens(text.tokens)
        reading = text.reading if READINGS in fields else 0

        auxiliary = None
        if AUXILIARY in fields and text.auxiliary is not None:
            auxiliary = reduced_tokens(text.auxiliary)

        reduced.append(Text(tokens, reading, auxiliary))

    return reduced


def texts_of(tokens):
    """Return what is written in token ids, the prefix before each text."""
    prefix = ()
    if tokens.prefix is not None:
        prefix = texts_of(tokens.prefix)[0].tokens

    auxiliary = None
    if tokens.auxiliary is not None:
        auxiliary = texts_of(tokens.auxiliary)

    texts = []
    offsets = tokens.offsets.tolist()
    for row, (start, stop) in enumerate(pairwise(offsets)):
        ids = tokens.ids[start:stop].tolist()
        hidden = [False] * len(ids)
        if tokens.hidden is not None:
            hidden = tokens.hidden[start:stop].tolist()
        row_tokens = tuple(zip(ids, hidden, strict=True))

        reading = 0
        if tokens.readings is not None:
            reading = int(tokens.readings[row])

        row_auxiliary = None
        if auxiliary is not None:
            row_auxiliary = auxiliary[row].tokens

        text = Text(prefix + row_tokens, reading, row_auxiliary)
        texts.append(text)

    return texts


def rows_of(batch):
    """Return what is written in a batch, the prefix before each row and padding left out."""
    prefix = []
    if batch.prefix is not None:
        prefix = batch.prefix.tolist()

    auxiliary = None
    if batch.auxiliary is not None:
        auxiliary = rows_of(batch.auxiliary)

    texts = []
    for row, ids in enumerate(batch.input_ids.tolist()):
        length = len(ids)
        if batch.attention_mask is not None:
            mask = batch.attention_mask[row].tolist()
            length = sum(mask)
            padding = len(ids) - length
            assert mask == [1] * length + [0] * padding
            assert ids[length:] == [PAD] * padding

        end = len(prefix) + length
        hidden = [False] * end
        if HIDDEN in batch.keywords:
            width = len(prefix) + len(ids)
            assert batch.keywords[HIDDEN].shape == (len(batch.input_ids), width)
            hidden = batch.keywords[HIDDEN][row].tolist()
            assert not any(hidden[end:])
        tokens = tuple(zip(prefix + ids[:length], hidden, strict=False))

        reading = 0
        if READINGS in batch.keywords:
            reading = int(batch.keywords[READINGS][row])

        row_auxiliary = None
        if auxiliary is not None:
            row_auxiliary = auxiliary[row].tokens

        text = Text(tokens, reading, row_auxiliary)
        texts.append(text)

    return texts


@given(st.lists(PART, min_size=1, max_size=4))
def test_joined_texts_are_those_of_the_parts_with_all_their_fields(parts):
    all_have_auxiliary = all(AUXILIARY in fields for _, fields in parts)

    encoded = []
    expected = []
    joined_fields = set()
    for texts, fields in parts:
        kept_fields = fields
        if not all_have_auxiliary:
            kept_fields = fields - {AUXILIARY}

        encoded.append(token_ids(texts, kept_fields))
        expected += without_other_fields(texts, kept_fields)
        joined_fields |= kept_fields

    joined = TokenIds.join(encoded)
    assert texts_of(joined) == expected

    has_hidden = joined.hidden is not None
    assert has_hidden == (HIDDEN in joined_fields)
    has_readings = joined.readings is not None
    assert has_readings == (READINGS in joined_fields)
    assert (joined.ids.dtype, joined.offsets.dtype) == (np.int32, np.int64)


def texts_after(shared, tails):
    """Return the texts with the shared tokens before those of each."""
    texts = []
    for tail in tails:
        tokens = shared + tail.tokens
        texts.append(attrs.evolve(tail, tokens=tokens))

    return texts


@given(TOKENS, TEXTS, FIELDS)
def test_a_prefix_is_taken_out_of_every_text_with_what_is_hidden_in_it(
    shared, tails, fields
):
    texts = texts_after(shared, tails)
    whole = token_ids(texts, fields)
    expected = without_other_fields(texts, fields)
    assert texts_of(whole) == expected

    for count in range(len(shared) + 1):
        parted = whole.share_prefix(count)
        assert len(parted.prefix.ids) == count
        assert (parted.lengths == whole.lengths - count).all()
        assert texts_of(parted) == expected
        assert (parted.ids.dtype, parted.offsets.dtype) == (np.int32, np.int64)

    assert texts_of(whole) == expected


def draw_rows(data, count):
    """Draw some of `count` rows in any order, each any number of times."""
    row = st.sampled_from(range(count))
    return data.draw(st.lists(row, min_size=1, max_size=8))


@given(TOKENS, TEXTS, FIELDS, st.booleans(), st.data())
def test_padded_cut_and_widened_texts_keep_their_fields(
    shared, tails, fields, shares, data
):
    texts = texts_after(shared, tails)
    tokens = token_ids(texts, fields)
    if shares:
        tokens = tokens.share_prefix(len(shared))
    expected = without_other_fields(texts, fields)

    order = draw_rows(data, len(texts))
    batch = pad(tokens, np.array(order), PAD)
    rows_of_batch = rows_of(batch)
    assert rows_of_batch == [expected[row] for row in order]

    lengths = {len(texts[row].tokens) for row in order}
    has_no_mask = batch.attention_mask is None
    assert has_no_mask == (len(lengths) == 1)
    assert set(batch.keywords) == fields & {HIDDEN, READINGS}

    chosen = draw_rows(data, len(order))
    part = batch.select(np.array(chosen))
    assert rows_of(part) == [expected[order[row]] for row in chosen]

    middle = data.draw(st.integers(0, len(order)))
    first_half = batch.select(slice(middle))
    second_half = batch.select(slice(middle, None))
    assert rows_of(first_half) + rows_of(second_half) == rows_of_batch

    rows, length = batch.input_ids.shape
    wide_rows = rows + data.draw(st.integers(0, 3))
    wide_length = length + data.draw(st.integers(0, 3))
    wide = batch.widened(wide_rows, wide_length, PAD)
    assert wide.input_ids.shape == (wide_rows, wide_length)

    rows_of_wide = rows_of(wide)
    assert rows_of_wide[:rows] == rows_of_batch

    prefix_length = 0
    if batch.prefix is not None:
        prefix_length = len(batch.prefix)
    for filler in rows_of_wide[rows:]:
        ids = [number for number, _ in filler.tokens]
        assert ids[prefix_length:] == [PAD]
        assert not any(hidden for _, hidden in filler.tokens)
        assert filler.reading == 0


def test_a_widened_batch_has_a_mask_and_a_token_in_every_row():
    batch = TokenBatch(np.array([[1, 2]]), None)
    wide = batch.widened(2, 3, pad_id=0)
    assert wide.input_ids.tolist() == [[1, 2, 0], [0, 0, 0]]
    assert wide.attention_mask.tolist() == [[1, 1, 0], [1, 0, 0]]
