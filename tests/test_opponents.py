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
