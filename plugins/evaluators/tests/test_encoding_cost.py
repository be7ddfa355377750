"""Counts of batches by hand, and times of a clock that the test sets."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
import toy_plugin
from sentbed import RunError, build_encoder
from sentbed.protocols import PlacedEncoder, TextEncoder, TokenBatch
from sentbed_evaluators import encoding_cost
from sentbed_evaluators.encoding_cost import EncodingCost
from sentbed_evaluators.sts import STS
from sentbed_evaluators.throughput import Throughput

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
    """Hands the same batches over, whatever the texts are."""

    batches: tuple[TokenBatch, ...]
    placed: PlacedEncoder = attrs.field(factory=Lengths)
    calls: list[list[str]] = attrs.field(factory=list)
    steps: list[tuple[str, int, int]] = attrs.field(factory=list)

    @property
    def machine(self):
        return {"device": "an abacus"}

    @property
    def unwrapped(self):
        return self

    def encode(self, texts, task=None):
        self.calls.append(list(texts))
        return np.concatenate(list(self.placed.encode_batches(self.batches)))

    def progress(self, what, done, total):
        self.steps.append((what, done, total))


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


def test_times_are_the_least_of_the_timed_passes_for_a_thousand_texts(
    pairs, monkeypatch
):
    def clock(*passes):
        readings = iter(
            [reading for seconds in passes for reading in (100.0, 100.0 + seconds)]
        )

        return lambda: next(readings)

    monkeypatch.setattr(encoding_cost.time, "perf_counter", clock(3, 2, 5))
    monkeypatch.setattr(encoding_cost.time, "process_time", clock(4, 6, 1))
    encoder = Batches((batch([2, 2, 2, 2]),))
    evaluation = EncodingCost(pairs).prepare().evaluate(encoder)
    scores = values(evaluation.scores)
    assert (scores["seconds"], scores["processor-seconds"]) == (
        2 * 1000 / 4,
        1 * 1000 / 4,
    )

    assert evaluation.primary == -scores["seconds"]
    assert len(encoder.calls) == 1 + 3
    assert encoder.steps == [("encoding-cost", done, 5) for done in range(1, 6)]


def test_every_timed_pass_computes_the_prefix_anew(pairs):
    placed = Lengths()
    EncodingCost(pairs, repeats=2).prepare().evaluate(
        Batches((batch([2, 2], PREFIX),), placed)
    )

    whole, shorter = PREFIX.tolist(), PREFIX[:-1].tolist()
    assert placed.prefixes == [whole, shorter, whole, shorter, whole]


def test_scores_are_costs_and_only_times_depend_on_the_machine(pairs):
    scores = (
        EncodingCost(pairs, repeats=1)
        .prepare()
        .evaluate(Batches((batch([2, 2, 2, 2]),)))
        .scores
    )

    assert {(score.axis, score.direction) for score in scores} == {("cost", "lower")}
    assert [score.task for score in scores if "machine" in score.protocol] == [
        "processor-seconds",
        "seconds",
    ]

    assert {score.protocol["sample"] for score in scores} == {4}


@pytest.mark.parametrize(
    ("sample", "texts"),
    [(2, ["a", "c"]), (3, ["a", "b", "c"]), (9, ["a", "b", "c", "d"])],
)
def test_the_sample_is_of_the_distinct_texts_evenly_spaced(pairs, sample, texts):
    encoder = Batches((batch([1] * len(texts)),))
    prepared = EncodingCost(pairs, sample, repeats=1).prepare()
    prepared.evaluate(encoder)
    assert encoder.calls == [texts, texts]
    assert list(prepared.texts()) == ["a", "b", "c", "d"]


@pytest.mark.parametrize("evaluator", [EncodingCost, lambda _: Throughput()])
def test_an_encoder_that_cannot_be_measured_is_refused(evaluator, pairs, encoder):
    with pytest.raises(RunError, match="cannot be measured; measure an encoder of a"):
        evaluator(pairs).prepare().evaluate(encoder)


def test_an_evaluator_without_lists_or_texts_is_refused(
    write,
):
    with pytest.raises(RunError, match="`throughput`, which drives the encoder itself"):
        EncodingCost(Throughput()).prepare()


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
