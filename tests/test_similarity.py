"""Similarities and token vectors across packages: encoders, evaluators, training, and what `check` refuses."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sentbed import (
    Encoder,
    RunError,
    load_recipe,
)
from sentbed.protocols import Training
from sentbed.tools import load_plugins
from sentbed_evaluators.bitext import Bitext
from sentbed_evaluators.retrieval import Retrieval
from sentbed_evaluators.sts import STS
from sentbed_hardware.adamw import AdamW
from sentbed_hardware.learning_rate_schedules import Constant
from sentbed_losses.info_nce import InfoNCE
from sentbed_poolers.maxsim import MaxSim
from sentbed_testing import SENTENCES

RECIPE = """
schema = 1
run = { name = "late" }
runtime = { use = "cpu" }

[encoder]
max_length = 24
backbone = { use = "bert", init = "random", vocab_size = 300, dropout = 0.0 }
pooler = { use = "tokens" }
head = { projection = 16, normalize = true }
similarity = "maxsim"

[[evaluate]]
use = "sts"
path = "pkg:sentbed_data/sample/sts-dev.tsv"
"""


PAIRS = "sentence1\tsentence2\tscore\n" + "".join(
    f"{first}\t{second}\t{score}\n"
    for score, (first, second) in enumerate(
        zip(SENTENCES[:6], SENTENCES[6:12], strict=True)
    )
)


@pytest.fixture
def recipe(tmp_path):
    path = tmp_path / "late.toml"
    path.write_text(RECIPE)
    return path


@pytest.fixture
def pairs(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text(PAIRS)
    return str(path)


def built(recipe, *settings):
    part = load_recipe(recipe, list(settings)).encoders["encoder"]
    engine = load_plugins().load("runtime", "cpu")().build()
    engine.seed(0)
    return Encoder.build(part, engine, lambda: SENTENCES)


def maxsim(first, second):
    return float((first.astype(np.float64) @ second.T).max(axis=1).sum())


def test_an_encoder_gives_the_vectors_of_its_tokens(recipe, tmp_path):
    encoder = built(recipe)
    texts = [*SENTENCES[:5], SENTENCES[0]]
    vectors = encoder.encode(texts)
    tokens = encoder.tokenizer().encode(texts, 24)
    assert list(map(len, vectors)) == tokens.lengths.tolist()
    rows = np.concatenate(vectors)
    assert rows.shape == (len(tokens.ids), 16)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-5)
    for text, together in zip(texts, vectors, strict=True):
        alone = encoder.encode([text])[0]
        np.testing.assert_allclose(alone, together, atol=1e-5)

    encoder.save(tmp_path / "saved")
    loaded = Encoder.load(tmp_path / "saved")

    assert loaded.similarity == MaxSim()
    np.testing.assert_array_equal(np.concatenate(loaded.encode(texts)), rows)


def test_batches_that_are_taken_ahead_give_the_vectors_of_tokens(recipe):
    encoder = built(recipe)
    expected = encoder.encode(SENTENCES)
    # As on a GPU.
    encoder.placed.asynchronous = True
    for text, others in zip(encoder.encode(SENTENCES), expected, strict=True):
        np.testing.assert_array_equal(text, others)


def test_pairs_and_documents_are_compared_by_maxsim(recipe, pairs):
    encoder = built(recipe)
    first, second = (encoder.encode(SENTENCES[a : a + 6]) for a in (0, 6))
    every = np.array([[maxsim(a, b) for b in second] for a in first])

    scores = encoder.evaluate(STS(pairs), "encoder").scores

    np.testing.assert_allclose(scores[0].items.y, every.diagonal(), atol=1e-4)
    assert scores[0].protocol["encoder"]["similarity"] == {
        "use": "maxsim",
        "mean": False,
    }

    (by_hand, *_) = STS(pairs).prepare().evaluate(encoder).scores

    np.testing.assert_array_equal(by_hand.items.y, scores[0].items.y)

    place = (-every).argsort(axis=1, kind="stable").argsort(axis=1).diagonal()
    scores = encoder.evaluate(Retrieval(pairs, k=(1, 3)), "encoder").scores
    metrics = {score.metric: score.value for score in scores}

    assert metrics["recall@1"] == pytest.approx(100 * (place == 0).mean())
    assert metrics["mrr@3"] == pytest.approx(
        100 * np.where(place < 3, 1 / (1 + place), 0).mean()
    )


@pytest.mark.parametrize("similarity", ["dot", "euclidean", "manhattan"])
def test_vectors_are_compared_by_the_similarity_that_is_named(
    recipe, pairs, similarity
):
    settings = ["encoder.pooler.use=mean", "encoder.head.normalize=false"]
    encoder = built(recipe, *settings, f"encoder.similarity={similarity}")
    vectors = encoder.encode(SENTENCES[:12]).astype(np.float64)
    first, second = vectors[:6], vectors[6:]
    by_pair = {
        "dot": (first * second).sum(axis=1),
        "euclidean": -np.sqrt(((first - second) ** 2).sum(axis=1)),
        "manhattan": -np.abs(first - second).sum(axis=1),
    }
    scores = encoder.evaluate(STS(pairs), "encoder").scores

    np.testing.assert_allclose(scores[0].items.y, by_pair[similarity], rtol=1e-6)
    assert scores[0].protocol["encoder"]["similarity"] == {"use": similarity}

    (by_hand, *_) = STS(pairs).prepare().evaluate(encoder).scores

    np.testing.assert_array_equal(by_hand.items.y, scores[0].items.y)


def test_the_cosine_that_is_named_is_the_one_that_is_not(recipe, pairs, tmp_path):
    sides = [tmp_path / "a.txt", tmp_path / "b.txt"]
    for path, start in zip(sides, (0, 6), strict=True):
        path.write_text("\n".join(SENTENCES[start : start + 6]) + "\n")
    for evaluator in (STS(pairs), Retrieval(pairs), Bitext(tuple(map(str, sides)))):
        results = []
        for similarity in ("", "cosine"):
            encoder = built(
                recipe, "encoder.pooler.use=mean", f"encoder.similarity={similarity}"
            )
            results.append(encoder.evaluate(evaluator, "encoder").scores)
        assert results[0] == results[1]


def test_token_vectors_are_trained_and_a_micro_batch_changes_nothing(
    recipe,
):
    encoder = built(recipe)
    columns = {
        "anchor": encoder.tokenizer().encode(SENTENCES[:6], 24),
        "positive": encoder.tokenizer().encode(SENTENCES[6:12], 24),
    }
    loss = InfoNCE(temperature=1.0).compared_by(MaxSim())
    results = []
    for micro_batch in (None, 2):
        training = Training(
            loss,
            AdamW(lr=1e-3),
            Constant(),
            total_steps=4,
            towers=dict.fromkeys(columns, "encoder"),
            micro_batch=micro_batch,
        )
        trainer = encoder.engine.trainer({"encoder": encoder.placed}, training)
        results.append(trainer.gradients(columns))
    (whole, gradients), (parts, of_parts) = results

    texts = encoder.encode([*SENTENCES[:12]])
    every = torch.tensor([[maxsim(a, b) for b in texts[6:]] for a in texts[:6]])
    expected = torch.nn.functional.cross_entropy(every, torch.arange(6))

    assert whole == pytest.approx(float(expected), rel=1e-5)
    assert parts == pytest.approx(whole, rel=1e-5)
    # Kernels add in orders of their own, and rounding grows with the largest terms of the sums.
    largest = max(np.abs(gradient).max() for gradient in gradients.values())
    for name, gradient in gradients.items():
        np.testing.assert_allclose(
            of_parts[name], gradient, rtol=0, atol=1e-5 * largest
        )

    losses = [trainer.step(columns).loss for _ in range(4)]

    assert losses[-1] < losses[0]


@pytest.mark.parametrize(
    ("evaluator", "sentence"),
    [
        ('{ use = "retrieval", path = PAIRS, similarity = "cosine" }', "names `dot`"),
        (
            '{ use = "bitext", parallel = [PAIRS, PAIRS], score = "margin" }',
            "a ratio of cosines",
        ),
    ],
)
def test_an_evaluator_does_not_contradict_the_encoder(
    recipe, pairs, evaluator, sentence
):
    settings = [
        "encoder.pooler.use=mean",
        "encoder.similarity=dot",
        f"evaluate.0={evaluator.replace('PAIRS', repr(pairs))}",
    ]
    encoder = built(recipe, *settings[:2])
    (evaluate,) = load_recipe(
        recipe, [settings[0], "encoder.similarity=", settings[2]]
    ).evaluate

    with pytest.raises(RunError, match=sentence):
        encoder.evaluate(evaluate.evaluator, "encoder")
