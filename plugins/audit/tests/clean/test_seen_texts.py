"""Texts of evaluations in training texts: the definition, planted ones, none where there are none."""

from __future__ import annotations

import random

import numpy as np
import pytest
from sentbed_audit.clean.seen_texts import NEAR, RUN, SeenTexts, words_of


def seen(texts, training):
    """Return whether each text is seen."""
    search = SeenTexts(texts, training)
    return list(map(search.is_seen, texts))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (" It's  GOOD, isn't it?!", ("it", "s", "good", "isn", "t", "it")),
        ("ﬁne Straße", ("fine", "strasse")),
        ("他在弹guitar。", ("他", "在", "弹", "guitar")),
        ("...", ()),
    ],
)
def test_words_are_letters_and_digits_in_one_case(text, words):
    assert words_of(text) == words


def test_case_and_punctuation_do_not_count_and_a_text_without_words_is_not_seen():
    texts = ["A man sings.", "...", ""]
    assert seen(texts, ["a MAN  sings", "!", ""]) == [True, False, False]


def test_a_part_of_a_longer_training_text_is_seen():
    text = "The lighthouse keeper counted nine ships before the storm came in."
    assert seen([text], [f"Before it, {text} And after it."]) == [True]


def naively_seen(text, training):
    if text in training:
        return True
    words = text.split()
    runs = set()
    for other in training:
        others = other.split()
        for start in range(len(others) - RUN + 1):
            runs.add(tuple(others[start : start + RUN]))
    covered = set()
    for start in range(len(words) - RUN + 1):
        if tuple(words[start : start + RUN]) in runs:
            covered.update(range(start, start + RUN))
    return len(covered) >= NEAR * len(words) and bool(covered)


def test_what_is_seen_is_what_a_loop_over_all_pairs_says():
    draw = random.Random(3)
    # Of two words, so that many texts share runs.
    texts = []
    for length in range(5, 16):
        texts += [" ".join(draw.choices("ab", k=length)) for _ in range(20)]
    training = [f"{draw.choice('ab')} {text}" for text in draw.sample(texts, 30)]
    expected = [naively_seen(text, training) for text in texts]
    assert seen(texts, training) == expected
    assert 0.1 < np.mean(expected) < 0.9
