from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sentbed_data.word_splitting import words_with_space


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("one  two\tthree.", ["one", "  two", "\tthree."]),
        (" one ", [" one"]),
        ("我们看 BERT模型", ["我", "们", "看", " BERT", "模", "型"]),
        ("全\u3000角", ["全", "\u3000角"]),
        ("", []),
    ],
)
def test_words_stand_between_blanks_and_wide_characters_alone(text, words):
    assert words_with_space(text) == words


@given(st.text())
def test_the_pieces_are_the_text_up_to_its_last_word(text):
    assert "".join(words_with_space(text)) == text.rstrip()
    assert all(piece.strip() for piece in words_with_space(text))
