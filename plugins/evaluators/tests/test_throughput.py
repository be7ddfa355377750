from __future__ import annotations

import itertools
import math
import statistics
from typing import Any, ClassVar

import numpy as np
import pytest
from sentbed.protocols import TextEncoder
from sentbed_evaluators import throughput
from sentbed_evaluators.throughput import SHORTEST, WORDS, Throughput, texts_of


class Watched(TextEncoder):
    """Notes the texts that the encoder itself is to encode, by their length."""

    machine: ClassVar[dict[str, Any]] = {"device": "an abacus", "threads": 10}

    def __init__(self):
        self.calls = {}
        self.steps = []

    @property
    def unwrapped(self):
        calls = self.calls

        class Unwrapped:
            def encode(self, texts, max_length):
                calls.setdefault(max_length, []).append(list(texts))
                return np.zeros((len(texts), 1), np.float32)

        return Unwrapped()

    def progress(self, what, done, total):
        self.steps.append((what, done, total))

    def encode(self, texts, task=None):
        raise AssertionError("vectors may come from the store")


def clock(monkeypatch, *passes):
    """Let the passes take so many seconds."""

    def readings():
        now = 100.0
        for seconds in passes:
            yield now
            now += seconds
            yield now

    times = readings()
    monkeypatch.setattr(throughput.time, "perf_counter", lambda: next(times))


def test_a_score_is_the_median_of_the_passes_after_the_warm_up(
    monkeypatch,
):
    clock(monkeypatch, 50, 2, 1, 10, 50, 4, 5, 8)
    evaluation = Throughput((16, 32), examples=20).prepare().evaluate(Watched())
    assert [(s.task, s.metric, s.value) for s in evaluation.scores] == [
        ("length-16", "examples/s", statistics.median([20 / 2, 20 / 1, 20 / 10])),
        ("length-16", "spread", 100 * (20 - 2) / 10),
        ("length-32", "examples/s", 4.0),
        ("length-32", "spread", 100 * (5 - 2.5) / 4),
    ]

    assert evaluation.primary == 10.0


def test_every_case_encodes_different_texts_in_batches_as_they_are_to_arrive():
    encoder = Watched()
    Throughput((16, 24), (3, 10), examples=8, repeats=2, warmup=1).prepare().evaluate(
        encoder
    )

    assert list(encoder.calls) == [16, 24]
    for length, calls in encoder.calls.items():
        # Nine texts in threes, and ten at once, in three passes each.
        assert list(map(len, calls)) == 3 * [3, 3, 3] + 3 * [10]
        first, second, third = calls[:3]
        assert len({*first, *second, *third}) == 9
        assert calls[:3] == calls[3:6] == calls[6:9]
        assert len(set(calls[-1])) == 10
        for call in calls:
            for text in call:
                assert len(text.split()) == length

    assert encoder.steps == [("throughput", done, 12) for done in range(1, 13)]


def test_the_protocol_says_what_was_timed_and_on_what():
    score, _ = (
        Throughput((16,), (4,), examples=5, repeats=2, warmup=0)
        .prepare()
        .evaluate(Watched())
        .scores
    )

    protocol = dict(score.protocol)
    assert score.task == "length-16-batch-4"
    assert math.isfinite(score.value)
    assert "tokenising is timed" in protocol.pop("text")
    assert protocol == {
        "id": "throughput",
        "aggregation": "median",
        "length": 16,
        "batch": 4,
        "examples": 8,
        "repeats": 2,
        "warmup": 0,
        "machine": Watched.machine,
    }


def test_texts_differ_in_their_first_word_and_within_the_shortest_cut():
    texts = texts_of(5000, SHORTEST)
    for first, second in itertools.pairwise(texts):
        assert first.split()[0] != second.split()[0]

    # Even where each byte is a token, and one more ends the text.
    cut = set()
    for text in texts:
        cut.add(text[: SHORTEST - 1])
    assert len(cut) == 5000
    assert len(set(WORDS)) == len(WORDS)


def test_what_a_tokenizer_is_trained_on_has_every_word():
    words = set()
    for text in Throughput((16,)).prepare().texts():
        words.update(text.split())
    assert words == set(WORDS)


@pytest.mark.parametrize(
    "wrong",
    [
        {"lengths": ()},
        {"lengths": (SHORTEST - 1,)},
        {"batch_sizes": (0,)},
        {"batch_sizes": (len(WORDS) ** 3 + 1,)},
        {"examples": 0},
        {"examples": len(WORDS) ** 3 + 1},
        {"repeats": 0},
        {"warmup": -1},
    ],
)
def test_a_field_out_of_range_is_refused(wrong):
    with pytest.raises(ValueError, match=r"must be|Length of"):
        Throughput(**wrong)


def test_a_number_that_is_named_twice_is_a_problem():
    assert list(Throughput((16, 16), (1, 8, 8)).check()) == [
        "`lengths` is [16, 16]; name each number once",
        "`batch_sizes` is [1, 8, 8]; name each number once",
    ]
    assert list(Throughput((16, 64), (1, 8)).check()) == []
