"""Texts of evaluations in training texts: the definition, planted ones, none where there are none."""

from __future__ import annotations

import random
from functools import cache

import numpy as np
import pytest
from sentbed_audit.clean.seen_texts import FEWEST_WORDS, RUN, SeenTexts
from sentbed_audit.clean.word_hashes import words_of


def changed(words, draw):
    words[draw.randrange(len(words))] = "zebra"


def added(words, draw):
    words.insert(draw.randint(0, len(words)), "zebra")


def left_out(words, draw):
    del words[draw.randrange(len(words))]


def sentences(count, draw, words=3000):
    """Sentences of 4 to 30 words; frequent words are more frequent, as in a language."""
    texts = []
    for _ in range(count):
        text = []
        for _ in range(draw.randint(4, 30)):
            text.append(f"word{int(draw.paretovariate(0.15)) % words}")
        texts.append(" ".join(text) + ".")
    return texts


@pytest.fixture(scope="module")
def corpora():
    """Texts of evaluations, and training texts that have none of them."""
    draw = random.Random(4)
    return sentences(4000, draw), sentences(20_000, draw)


def seen(texts, training, near=0.8):
    """Whether each text is seen exactly, and nearly or exactly."""
    searched = SeenTexts(texts)
    searched.look_in(training)
    return searched.exactly.tolist(), searched.nearly(near).tolist()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (" It's  GOOD, isn't it?!", ["it", "s", "good", "isn", "t", "it"]),
        ("ﬁne Straße", ["fine", "strasse"]),
        ("他在弹guitar。", ["他", "在", "弹", "guitar"]),
        ("...", []),
    ],
)
def test_words_are_letters_and_digits_in_one_case(text, words):
    assert words_of(text) == words


def test_case_and_punctuation_do_not_count_and_a_text_without_words_is_not_seen():
    exactly, nearly = seen(["A man sings.", "...", ""], ["a MAN  sings", "!", ""])
    assert exactly == nearly == [True, False, False]


@pytest.mark.parametrize("change", [None, changed, added, left_out])
def test_planted_texts_are_counted(corpora, change):
    draw = random.Random(4)
    texts, other_texts = corpora
    training = list(other_texts)
    long = []
    for index, text in enumerate(texts):
        if len(text.split()) >= FEWEST_WORDS:
            long.append(index)
    planted = draw.sample(long, 200)
    for index in planted:
        words = texts[index].split()
        if change is not None:
            change(words, draw)
        training.append(" ".join(words).upper())

    exactly, nearly = seen(texts, training)
    assert abs(sum(nearly) - len(planted)) <= 0.02 * len(planted)
    number_of_copies = 0
    if change is None:
        number_of_copies = len(planted)
    assert sum(exactly) == number_of_copies
    assert all(nearly[index] for index in planted)


def test_a_part_of_a_longer_training_text_is_nearly_seen():
    text = "The lighthouse keeper counted nine ships before the storm came in."
    exactly, nearly = seen([text], [f"Before it, {text} And after it."])
    assert (exactly, nearly) == ([False], [True])


def test_a_training_text_is_read_in_blocks_of_any_number_of_texts():
    draw = random.Random(1)
    texts = sentences(50, draw)
    # Longer than a block together.
    training = ["x" * 3_000_000, *texts[:25], "y " * 1_000_000, *texts[25:40]]
    exactly, _ = seen(texts, training)
    assert exactly == [True] * 40 + [False] * 10


@cache
def distance(first, second):
    """Number of words to change, add or leave out."""
    row = list(range(len(second) + 1))
    for place, word in enumerate(first, start=1):
        before, row[0] = row[0], place
        for column, other in enumerate(second, start=1):
            least = min(row[column] + 1, row[column - 1] + 1, before + (word != other))
            before, row[column] = row[column], least
    return row[-1]


def naively_near(text, training, near):
    if text in training:
        return True
    words = text.split()
    runs = set()
    for other in training:
        others = other.split()
        if len(words) >= FEWEST_WORDS and distance(tuple(words), tuple(others)) <= 1:
            return True
        for start in range(len(others) - RUN + 1):
            runs.add(tuple(others[start : start + RUN]))
    covered = set()
    for start in range(len(words) - RUN + 1):
        if tuple(words[start : start + RUN]) in runs:
            covered.update(range(start, start + RUN))
    return len(covered) >= near * len(words) and bool(covered)


@pytest.mark.parametrize("near", [0.5, 0.8, 1.0])
def test_what_is_near_is_what_a_loop_over_all_pairs_says(near):
    draw = random.Random(3)
    # Of two words, so that there are many near texts of all kinds.
    texts = []
    for length in range(5, 16):
        texts += [" ".join(draw.choices("ab", k=length)) for _ in range(20)]
    training = [f"{draw.choice('ab')} {text}" for text in draw.sample(texts, 30)]
    _, nearly = seen(texts, training, near)
    expected = [naively_near(text, training, near) for text in texts]
    assert nearly == expected
    assert 0.1 < np.mean(nearly) < 0.9


def test_there_are_no_false_alarms_between_disjoint_sets(corpora):
    exactly, nearly = seen(*corpora)
    assert sum(exactly) == 0
    assert np.mean(nearly) < 0.005
