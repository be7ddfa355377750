"""Texts keep what stands beside their ids, whatever is done with them; compared with lists of Python."""

from __future__ import annotations

from itertools import pairwise

import attrs
import numpy as np
import pytest
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


TOKENS = st.lists(
    st.tuples(st.integers(0, 9), st.booleans()), min_size=1, max_size=6
).map(tuple)
TEXTS = st.lists(
    st.builds(Text, TOKENS, st.integers(0, 3), TOKENS), min_size=1, max_size=6
)
FIELDS = st.sets(st.sampled_from([HIDDEN, READINGS, AUXILIARY]))


def token_ids(texts, fields):
    """Return texts with some of the fields; the others are None."""
    tokens = [token for text in texts for token in text.tokens]
    lengths = [len(text.tokens) for text in texts]
    encoded = TokenIds(
        np.array([number for number, _ in tokens], np.int32), np.cumsum([0, *lengths])
    )
    if HIDDEN in fields:
        encoded = attrs.evolve(
            encoded, hidden=np.array([hidden for _, hidden in tokens], bool)
        )
    if READINGS in fields:
        encoded = attrs.evolve(
            encoded, readings=np.array([text.reading for text in texts], np.int32)
        )
    if AUXILIARY in fields:
        auxiliary = [Text(text.auxiliary or (), 0) for text in texts]
        encoded = attrs.evolve(
            encoded, auxiliary=token_ids(auxiliary, fields & {HIDDEN})
        )
    return encoded


def without_other_fields(texts, fields):
    """Return the texts as they are where only some fields are told."""
    reduced = []
    for text in texts:
        tokens = tuple(
            (number, hidden and HIDDEN in fields) for number, hidden in text.tokens
        )
        auxiliary = None
        if AUXILIARY in fields and text.auxiliary is not None:
            auxiliary = tuple(
                (number, hidden and HIDDEN in fields)
                for number, hidden in text.auxiliary
            )
        reduced.append(
            Text(tokens, text.reading if READINGS in fields else 0, auxiliary)
        )
    return reduced


def texts_of(tokens):
    """Return what is written in token ids, the prefix before each text."""
    before = ()
    if tokens.prefix is not None:
        before = texts_of(tokens.prefix)[0].tokens
    auxiliary = None
    if tokens.auxiliary is not None:
        auxiliary = texts_of(tokens.auxiliary)
    texts = []
    for row, (start, stop) in enumerate(pairwise(tokens.offsets.tolist())):
        hidden = [False] * (stop - start)
        if tokens.hidden is not None:
            hidden = tokens.hidden[start:stop].tolist()
        row_tokens = tuple(zip(tokens.ids[start:stop].tolist(), hidden, strict=True))
        reading = 0 if tokens.readings is None else int(tokens.readings[row])
        texts.append(
            Text(
                before + row_tokens,
                reading,
                None if auxiliary is None else auxiliary[row].tokens,
            )
        )
    return texts


def rows_of(batch):
    """Return what is written in a batch, the prefix before each row and padding left out."""
    prefix = [] if batch.prefix is None else batch.prefix.tolist()
    auxiliary = None if batch.auxiliary is None else rows_of(batch.auxiliary)
    texts = []
    for row, ids in enumerate(batch.input_ids.tolist()):
        length = len(ids)
        if batch.attention_mask is not None:
            mask = batch.attention_mask[row].tolist()
            length = sum(mask)
            assert mask == [1] * length + [0] * (len(ids) - length)
            assert ids[length:] == [PAD] * (len(ids) - length)
        hidden = [False] * (len(prefix) + length)
        if batch.hidden is not None:
            assert batch.hidden.shape == (len(batch.input_ids), len(prefix) + len(ids))
            hidden = batch.hidden[row].tolist()
            assert not any(hidden[len(prefix) + length :])
        tokens = tuple(zip(prefix + ids[:length], hidden, strict=False))
        reading = 0 if batch.readings is None else int(batch.readings[row])
        texts.append(
            Text(tokens, reading, None if auxiliary is None else auxiliary[row].tokens)
        )
    return texts


@given(st.lists(st.tuples(TEXTS, FIELDS), min_size=1, max_size=4))
def test_joined_texts_are_those_of_the_parts_with_all_their_fields(parts):
    fields = [of_part - {AUXILIARY} for _, of_part in parts]
    if all(AUXILIARY in of_part for _, of_part in parts):
        fields = [of_part for _, of_part in parts]
    joined = TokenIds.join(
        token_ids(texts, of_part)
        for (texts, _), of_part in zip(parts, fields, strict=True)
    )
    expected = []
    for (texts, _), of_part in zip(parts, fields, strict=True):
        expected += without_other_fields(texts, of_part)
    assert texts_of(joined) == expected
    assert (joined.hidden is None) == (not any(HIDDEN in of_part for of_part in fields))
    assert (joined.readings is None) == (
        not any(READINGS in of_part for of_part in fields)
    )
    assert (joined.ids.dtype, joined.offsets.dtype) == (np.int32, np.int64)


@given(TOKENS, TEXTS, FIELDS)
def test_a_prefix_is_taken_out_of_every_text_with_what_is_hidden_in_it(
    shared, tails, fields
):
    texts = [attrs.evolve(tail, tokens=shared + tail.tokens) for tail in tails]
    whole = token_ids(texts, fields)
    for count in range(len(shared) + 1):
        parted = whole.share_prefix(count)
        assert len(parted.prefix.ids) == count
        assert (parted.lengths == whole.lengths - count).all()
        assert (
            texts_of(parted) == texts_of(whole) == without_other_fields(texts, fields)
        )
        assert (parted.ids.dtype, parted.offsets.dtype) == (np.int32, np.int64)


@given(TOKENS, TEXTS, FIELDS, st.booleans(), st.data())
def test_padded_cut_and_widened_texts_keep_their_fields(
    shared, tails, fields, shares, data
):
    texts = [attrs.evolve(tail, tokens=shared + tail.tokens) for tail in tails]
    tokens = token_ids(texts, fields)
    if shares:
        tokens = tokens.share_prefix(len(shared))
    expected = without_other_fields(texts, fields)

    order = data.draw(
        st.lists(st.sampled_from(range(len(texts))), min_size=1, max_size=8)
    )
    batch = pad(tokens, np.array(order), PAD)
    assert rows_of(batch) == [expected[row] for row in order]
    assert (batch.attention_mask is None) == (
        len({len(texts[row].tokens) for row in order}) == 1
    )
    assert set(batch.keywords) == fields & {HIDDEN, READINGS}

    chosen = data.draw(
        st.lists(st.sampled_from(range(len(order))), min_size=1, max_size=8)
    )
    part = batch.select(np.array(chosen))
    assert rows_of(part) == [expected[order[row]] for row in chosen]
    middle = data.draw(st.integers(0, len(order)))
    halves = rows_of(batch.select(slice(middle))) + rows_of(
        batch.select(slice(middle, None))
    )
    assert halves == rows_of(batch)

    rows, length = batch.input_ids.shape
    more_rows, more_length = data.draw(st.integers(0, 3)), data.draw(st.integers(0, 3))
    wide = batch.widened(rows + more_rows, length + more_length, PAD)
    assert wide.input_ids.shape == (rows + more_rows, length + more_length)
    assert rows_of(wide)[:rows] == rows_of(batch)
    prefix_length = 0 if batch.prefix is None else len(batch.prefix)
    for filler in rows_of(wide)[rows:]:
        assert [number for number, _ in filler.tokens[prefix_length:]] == [PAD]
        assert not any(hidden for _, hidden in filler.tokens)
        assert filler.reading == 0


def test_texts_without_their_prefix_and_texts_of_some_with_auxiliary_prompts_are_not_joined():
    tokens = TokenIds(np.array([1, 2, 1, 3], np.int32), np.array([0, 2, 4]))
    with pytest.raises(
        ValueError, match="prefix was taken out cannot be joined; join them before"
    ):
        TokenIds.join([tokens, tokens.share_prefix(1)])
    with pytest.raises(
        ValueError, match="1 of 2 parts have auxiliary prompts; give all or none"
    ):
        TokenIds.join([tokens, attrs.evolve(tokens, auxiliary=tokens)])


def test_a_widened_batch_has_a_mask_and_a_token_in_every_row():
    batch = TokenBatch(np.array([[1, 2]]), None).widened(2, 3, pad_id=0)
    assert batch.input_ids.tolist() == [[1, 2, 0], [0, 0, 0]]
    assert batch.attention_mask.tolist() == [[1, 1, 0], [1, 0, 0]]
