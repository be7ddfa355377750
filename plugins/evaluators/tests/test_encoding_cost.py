"""Counts of batches by hand, and times of a clock that the test sets."""

from __future__ import annotations

import itertools

import attrs
import numpy as np
import pytest
import toy_plugin
from sentbed import DataError, RunError, build_encoder
from sentbed.protocols import PlacedEncoder, TextEncoder, TokenBatch
from sentbed_evaluators import encoding_cost
from sentbed_evaluators.encoding_cost import EncodingCost
from sentbed_evaluators.sts import STS
from sentbed_evaluators.texts_of_length import MOST, SHORTEST, WORDS, texts_of

PREFIX = np.array([7, 8, 9, 9, 9])


class Lengths(PlacedEncoder):
    """The vector of a row is its number of tokens; it notes the prefix of each batch."""

    width = 1
    shares_prefix = True

    def __init__(self):
        self.prefixes = []

    def encode(self, batch):
        prefix = None if batch.prefix is None else batch.prefix.tolist()
        self.prefixes.append(prefix)
        return batch.input_ids.astype(np.float32).sum(1, keepdims=True)


@attrs.define
class Batches(TextEncoder):
    """Hands the same batches over, whatever the texts are, and notes the texts with their `max_length`."""

    batches: tuple[TokenBatch, ...]
    placed: PlacedEncoder = attrs.field(factory=Lengths)
    calls: list[tuple[list[str], int | None]] = attrs.field(factory=list)

    @property
    def machine(self):
        return {"device": "an abacus"}

    @property
    def unwrapped(self):
        return self

    def encode(self, texts, task=None, max_length=None):
        self.calls.append((list(texts), max_length))
        return np.concatenate(list(self.placed.encode_batches(self.batches)))


def batch(lengths, prefix=None):
    """A batch of rows with so many tokens, padded to the longest."""
    mask = np.arange(max(lengths)) < np.array(lengths)[:, None]
    attention_mask = None if mask.all() else mask.astype(np.int64)
    return TokenBatch(np.ones(mask.shape, np.int64), attention_mask, prefix)


@pytest.fixture
def pairs(write):
    """Three pairs with four distinct sentences: a, b, c, d."""
    return STS(
        str(write("p.tsv", "sentence1\tsentence2\tscore\nd\tb\t1\na\tb\t2\nc\ta\t3\n"))
    )


@pytest.fixture
def clock(monkeypatch):
    """Sets the seconds of the timed passes, on the clock and of the processor."""

    def set_clock(name, seconds):
        readings = []
        for of_pass in seconds:
            readings += [100.0, 100.0 + of_pass]
        upcoming = iter(readings)
        monkeypatch.setattr(encoding_cost.time, name, lambda: next(upcoming))

    return set_clock


def values(scores):
    return {score.task: score.value for score in scores}


def test_passes_tokens_and_padding_are_those_of_the_batches(pairs):
    # Two prompts for four texts: the first has five tokens in common, the second none.
    first = batch([3, 3], PREFIX), batch([2, 1], PREFIX)
    second = batch([6, 5, 5, 4])
    scores = values(
        EncodingCost(pairs).prepare().evaluate(Batches((*first, second))).scores
    )

    assert scores["passes"] == 8 / 4
    assert scores["tokens"] == (9 + 5 + 20) / 4
    assert scores["tokens-unshared"] == (9 + 4 * 5 + 20) / 4
    assert scores["padding"] == (1 + 4) / 4
    # No weights, so nothing is said of them.
    assert scores.keys().isdisjoint({"operations", "memory", "parameters"})


def test_times_are_the_least_of_the_timed_passes_for_a_thousand_texts(pairs, clock):
    clock("perf_counter", [3, 2, 5])
    clock("process_time", [4, 6, 1])
    encoder = Batches((batch([2, 2, 2, 2]),))
    evaluation = EncodingCost(pairs).prepare().evaluate(encoder)
    scores = values(evaluation.scores)
    assert scores["seconds"] == 2 * 1000 / 4
    assert scores["processor-seconds"] == 1 * 1000 / 4
    assert evaluation.primary == -scores["seconds"]
    assert len(encoder.calls) == 1 + 3


def test_every_timed_pass_computes_the_prefix_anew(pairs):
    placed = Lengths()
    EncodingCost(pairs, repeats=2).prepare().evaluate(
        Batches((batch([2, 2], PREFIX),), placed)
    )

    whole, shorter = PREFIX.tolist(), PREFIX[:-1].tolist()
    assert placed.prefixes == [whole, shorter, whole, shorter, whole]


def test_scores_are_costs_and_only_times_depend_on_the_machine(pairs):
    encoder = Batches((batch([2, 2, 2, 2]),))
    scores = EncodingCost(pairs, repeats=1).prepare().evaluate(encoder).scores
    assert {(score.axis, score.direction) for score in scores} == {("cost", "lower")}
    assert {score.protocol["sample"] for score in scores} == {4}
    for score in scores:
        is_time = score.task in ("seconds", "processor-seconds")
        assert ("machine" in score.protocol) == is_time


@pytest.mark.parametrize(
    ("sample", "texts"),
    [(2, ["a", "c"]), (3, ["a", "b", "c"]), (9, ["a", "b", "c", "d"])],
)
def test_the_sample_is_of_the_distinct_texts_evenly_spaced(pairs, sample, texts):
    encoder = Batches((batch([1] * len(texts)),))
    prepared = EncodingCost(pairs, sample=sample, repeats=1).prepare()
    prepared.evaluate(encoder)
    assert encoder.calls == [(texts, None)] * 2
    assert list(prepared.texts()) == ["a", "b", "c", "d"]


def test_texts_a_second_are_those_of_the_fastest_pass_after_an_untimed_one(clock):
    clock("perf_counter", [2, 1, 10, 4, 5, 8])
    encoder = Batches((batch([1]),))
    evaluation = EncodingCost(lengths=(16, 32), sample=20).prepare().evaluate(encoder)
    scores = []
    for score in evaluation.scores:
        scores.append((score.task, score.metric, score.value))
    assert scores == [
        ("length-16", "examples/s", 20 / 1),
        ("length-32", "examples/s", 20 / 4),
    ]
    assert evaluation.primary == 20
    assert len(encoder.calls) == 2 * (1 + 3)


def test_each_length_and_batch_has_a_score_of_different_texts_of_that_length():
    encoder = Batches((batch([1]),))
    cost = EncodingCost(lengths=(16, 24), batch_sizes=(3, 8), sample=8, repeats=1)
    scores = cost.prepare().evaluate(encoder).scores
    assert list(values(scores)) == [
        "length-16-batch-3",
        "length-16-batch-8",
        "length-24-batch-3",
        "length-24-batch-8",
    ]

    sizes = []
    for texts, length in encoder.calls:
        sizes.append(len(texts))
        for text in texts:
            assert len(text.split()) == length
    assert sizes == 2 * [3, 3, 2, 3, 3, 2, 8, 8]

    whole = encoder.calls[6][0]
    assert len(set(whole)) == 8

    first, second, third = encoder.calls[:3]
    assert [*first[0], *second[0], *third[0]] == whole

    protocol = dict(scores[0].protocol)
    assert "tokenising is timed" in protocol.pop("text")
    assert protocol == {
        "id": "encoding-cost",
        "length": 16,
        "batch": 3,
        "sample": 8,
        "repeats": 1,
        "machine": encoder.machine,
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
    for text in EncodingCost(lengths=(16,)).prepare().texts():
        words.update(text.split())
    assert words == set(WORDS)


@pytest.mark.parametrize(
    "wrong",
    [
        {"lengths": (SHORTEST - 1,)},
        {"batch_sizes": (0,)},
        {"sample": 0},
        {"sample": MOST + 1},
        {"repeats": 0},
    ],
)
def test_a_field_out_of_range_is_refused(wrong):
    with pytest.raises(ValueError, match="must be"):
        EncodingCost(**wrong)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({}, "expected either `texts`"),
        ({"lengths": (16, 16)}, r"`lengths` is \[16, 16\]; name each number once"),
        (
            {"lengths": (16,), "batch_sizes": (1, 8, 8)},
            r"`batch_sizes` is \[1, 8, 8\]; name each number once",
        ),
        (
            {"lengths": (16,), "batch_sizes": (8, 9), "sample": 8},
            "`batch_sizes` has 9, but there are 8 texts",
        ),
    ],
)
def test_wrong_choices_of_texts_are_problems(settings, problem):
    with pytest.raises(DataError, match=problem):
        EncodingCost(**settings).prepare()


def test_texts_and_lengths_exclude_each_other(pairs):
    (problem,) = EncodingCost(pairs, lengths=(16,)).check()
    assert "expected either `texts`" in problem
    (problem,) = EncodingCost(pairs, batch_sizes=(4,)).check()
    assert "`batch_sizes` is for `lengths`" in problem


@pytest.mark.parametrize("lengths", [(), (16,)])
def test_an_encoder_that_cannot_be_measured_is_refused(lengths, pairs, encoder):
    texts = None if lengths else pairs
    with pytest.raises(RunError, match="cannot be measured; measure an encoder of a"):
        EncodingCost(texts, lengths=lengths).prepare().evaluate(encoder)


def test_an_evaluator_without_lists_is_refused():
    inner = EncodingCost(lengths=(16,))
    with pytest.raises(RunError, match="which drives the encoder itself"):
        EncodingCost(inner).prepare()


def test_it_reads_and_selects_as_the_evaluator_of_its_texts_does(pairs, tmp_path):
    class Development(STS):
        def files(self):
            yield tmp_path

    cost = EncodingCost(Development(pairs.path))
    assert list(cost.files()) == [tmp_path]
    assert cost.development is pairs.development


def test_texts_are_measured_with_the_prompts_of_their_evaluation(pairs, recipe_of):
    prompts = 'task_prompts = { sts = { template = "xx{text}" } }'
    encoder = build_encoder(
        recipe_of(toy_plugin.RECIPE.replace("pooler", f"{prompts}\npooler", 1))
    )

    scores = encoder.evaluate(EncodingCost(pairs, repeats=1), "encoder").scores
    # A token for the start, two for the prompt, and one for each of the texts of one character.
    assert values(scores)["tokens-unshared"] == 4
    for score in scores:
        assert score.protocol["encoder"]["prompt"]["template"] == "xx{text}"
