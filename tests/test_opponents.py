"""Opponents of the benchmark compute what sentbed computes, on the same batches, and are rated in turn."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import numpy as np
import pytest
from random_encoders import random_encoder
from sentbed.protocols import Evaluation, Prepared, Score, Texts

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
TEXTS = [
    "the river is high after the rain",
    "two children count the boats",
    "nobody is at home",
    "the boats on the river after the rain are high, and nobody counts them at home but two children",
    "two children count the boats",
    "rain",
]


@pytest.fixture
def opponents(monkeypatch):
    pytest.importorskip(
        "sentence_transformers", reason="what sentbed is compared with is not installed"
    )
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("opponents")


@pytest.fixture(scope="module")
def encoder():
    """A random BERT of two layers, 128 wide, with mean pooling and norm."""
    table = {
        "backbone": {"use": "bert", "init": "random", "size": "tiny"},
        "pooler": {"use": "mean"},
        "head": {"normalize": True},
        "max_length": 32,
    }
    return random_encoder(table, TEXTS)


@pytest.mark.parametrize("budget", [1, 24, 4096])
def test_vectors_come_back_in_the_order_of_the_texts(
    budget,
    opponents,
    encoder,
    monkeypatch,
):
    module = encoder.placed.module.eval()
    shapes = []

    def model(features):
        shapes.append(features["input_ids"].shape)
        return {
            "sentence_embedding": module(
                features["input_ids"], features["attention_mask"]
            )
        }

    monkeypatch.setattr(encoder.engine, "token_budget", budget)
    vectors = opponents.Batched(model, encoder)(TEXTS)
    np.testing.assert_allclose(vectors, encoder.encode(TEXTS), atol=1e-6)
    assert sum(rows for rows, _ in shapes) == len(TEXTS)
    assert all(rows * length <= budget or rows == 1 for rows, length in shapes)


def test_a_ratio_is_the_median_of_those_within_the_rounds(
    opponents,
):
    assert opponents.ratio([1.0, 4.0, 2.0], [1.0, 1.0, 4.0]) == 1.0
    assert opponents.ratio([6.0, 6.0], [2.0, 3.0]) == 2.5


def test_each_round_takes_every_row_in_turn_after_all_have_encoded_once(
    opponents,
):
    order = []

    def row(name):
        return lambda texts: order.append((name, len(texts)))

    rates = opponents.rates_in_turn({"a": row("a"), "b": row("b")}, TEXTS, 2)
    assert order == [("a", 6), ("b", 6)] * 3
    assert {name: len(values) for name, values in rates.items()} == {"a": 2, "b": 2}
    assert min(min(values) for values in rates.values()) > 0


def test_scores_and_cosines_are_those_of_each_rows_own_vectors(
    opponents, encoder, capsys
):
    def score(vectors):
        first, second = np.split(vectors["pairs"], 2)
        value = 100 * float((first * second).sum(1).mean())
        return Evaluation(
            (Score("pairs", "spearman", value, {}), Score("pairs", "other", 0.0, {})),
            value,
        )

    prepared = Prepared({"pairs": Texts(TEXTS[:3], TEXTS[3:])}, score)
    exact = encoder.encode(TEXTS)

    def turned(texts):
        vectors = encoder.encode(texts).copy()
        vectors[0] *= -1
        return vectors

    results = opponents.scored({"exact": encoder.encode, "turned": turned}, prepared)
    products = (exact[:3] * exact[3:]).sum(1)
    assert results["exact"]["scores"] == {
        "pairs": pytest.approx(100 * products.mean(), abs=1e-3)
    }
    products[0] *= -1
    assert results["turned"]["scores"] == {
        "pairs": pytest.approx(100 * products.mean(), abs=1e-3)
    }
    assert results["exact"]["cosine_least"] == pytest.approx(1)
    # The repeated sentence counts once.
    assert results["turned"]["cosine_mean"] == pytest.approx(3 / 5, abs=1e-5)
    assert results["turned"]["cosine_least"] == pytest.approx(-1)

    rates = {"exact": [10.0, 30.0, 20.0], "turned": [15.0, 30.0, 40.0]}
    rows = {
        name: {
            **row,
            "rates": rates[name],
            "ratio": opponents.ratio(rates[name], rates["exact"]),
        }
        for name, row in results.items()
    }
    opponents.show(json.loads(json.dumps(rows)))
    head, *lines = capsys.readouterr().out.strip().splitlines()
    assert head.split() == ["sentences/s", "ratio", "pairs", "cosine", "least"]
    assert [line.split()[:3] for line in lines] == [
        ["exact", "20", "1.00"],
        ["turned", "30", "1.50"],
    ]


def test_a_precision_that_no_runtime_has_is_left_out_with_a_word(
    opponents,
    monkeypatch,
    capsys,
):
    monkeypatch.setattr(opponents, "RUNTIMES", {"cpu": ("int3",)})
    assert list(opponents.on_runtimes(1)) == []
    assert capsys.readouterr().out.startswith("without cpu int3: ")


def test_a_sample_is_the_same_each_time_and_repeats_nothing(
    opponents,
):
    texts = [str(number) for number in range(50)]
    drawn = opponents.sampled(texts, 20, 0)
    assert drawn == opponents.sampled(texts, 20, 0) != opponents.sampled(texts, 20, 1)
    assert len(set(drawn)) == 20
    assert sorted(opponents.sampled(texts, 100, 0)) == sorted(texts)
