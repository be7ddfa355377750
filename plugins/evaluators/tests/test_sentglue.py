from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from sentbed import DataError
from sentbed_evaluators import probe_task
from sentbed_evaluators.glue_files import TASKS
from sentbed_evaluators.probe import Classifier, Outcome
from sentbed_evaluators.sentglue import SentGLUE


def evaluate(evaluator, encoder, *arguments, **options):
    return evaluator.prepare().evaluate(encoder, *arguments, **options)


def evaluator(glue_data, *tasks, **fields):
    return SentGLUE(
        tasks=tasks or tuple(TASKS),
        data_dir=str(glue_data),
        check_sizes=False,
        **fields,
    )


def table(path, header=True):
    return [line.split("\t") for line in path.read_text().split("\n")[header:-1]]


def test_single_sentences_are_their_vectors_and_pairs_their_features(
    glue_data, encoder, probed, monkeypatch
):
    # The features of pairs are computed in several blocks.
    monkeypatch.setattr(probe_task, "_BLOCK", 5)
    evaluate(evaluator(glue_data, "CoLA", "RTE"), encoder)
    cola, rte = probed
    rows = table(glue_data / "CoLA" / "train.tsv", header=False)
    np.testing.assert_array_equal(
        cola.train.features, encoder.encode([row[3] for row in rows])
    )
    assert cola.train.labels.tolist() == [int(row[1]) for row in rows]
    for part, file in ((rte.train, "train.tsv"), (rte.test, "dev.tsv")):
        rows = table(glue_data / "RTE" / file)
        u, v = (
            encoder.encode([row[0] for row in rows]),
            encoder.encode([row[1] for row in rows]),
        )
        np.testing.assert_array_equal(
            part.features, np.hstack([u, v, u * v, abs(u - v)])
        )
        assert part.labels.tolist() == [
            ["entailment", "not_entailment"].index(row[2]) for row in rows
        ]


def test_mnli_is_trained_once_and_scored_twice(glue_data, encoder, probed):
    matched, mismatched = evaluate(
        evaluator(glue_data, "MNLI-m", "MNLI-mm"), encoder
    ).scores
    (call,) = probed
    assert len(call.test) == 24
    alone = evaluate(evaluator(glue_data, "MNLI-mm"), encoder).scores[0]
    assert alone.value == mismatched.value
    np.testing.assert_array_equal(alone.items.x, mismatched.items.x)
    assert alone.protocol == mismatched.protocol
    alone = evaluate(evaluator(glue_data, "MNLI-m"), encoder).scores[0]
    np.testing.assert_array_equal(alone.items.x, matched.items.x)
    assert matched.protocol["data"] != mismatched.protocol["data"]


def test_small_tasks_cross_validate_and_large_ones_hold_a_part_out(
    glue_data, encoder, probed
):
    result = evaluate(evaluator(glue_data, *TASKS, development_share=0.25), encoder)
    folded = ("CoLA", "MRPC", "RTE")
    trained = [task for task in TASKS if task not in ("STS-B", "MNLI-mm")]
    for task, call in zip(trained, probed, strict=True):
        assert (call.development is None) == (task in folded)
    for score in result.scores:
        if score.task in folded:
            assert (score.protocol["train"], score.protocol["held_out"]) == (60, 0)
        elif "train" in score.protocol:
            assert (score.protocol["train"], score.protocol["held_out"]) == (45, 15)


def test_the_held_out_rows_are_the_training_rows_that_are_not_trained_on(
    glue_data, encoder, probed
):
    evaluate(evaluator(glue_data, "SST-2"), encoder)
    evaluate(evaluator(glue_data, "SST-2"), encoder)
    evaluate(evaluator(glue_data, "SST-2", seed=2), encoder)
    first, again, other = probed
    every = encoder.encode([row[0] for row in table(glue_data / "SST-2" / "train.tsv")])
    both = np.concatenate([first.train.features, first.development.features])
    assert sorted(map(tuple, both.tolist())) == sorted(map(tuple, every.tolist()))
    np.testing.assert_array_equal(
        first.development.features, again.development.features
    )
    assert (first.development.features != other.development.features).any()
    dev = encoder.encode([row[0] for row in table(glue_data / "SST-2" / "dev.tsv")])
    np.testing.assert_array_equal(first.test.features, dev)


def test_a_limit_draws_training_rows_and_encodes_no_others(glue_data, encoder, probed):
    (score,) = evaluate(evaluator(glue_data, "SST-2", limit=20), encoder).scores
    (call,) = probed
    assert (len(call.train), len(call.development), len(call.test)) == (18, 2, 12)
    assert [len(texts) for texts in encoder.calls] == [20 + 12]
    assert (
        score.protocol["limit"],
        score.protocol["train"],
        score.protocol["held_out"],
    ) == (20, 18, 2)


def test_too_few_rows_of_a_class_are_refused_before_anything_is_encoded(
    glue_data, encoder, probed
):
    with pytest.raises(
        DataError,
        match=r"`RTE`: class \d has \d examples of 15, .* in 10 folds needs 10",
    ):
        evaluate(evaluator(glue_data, "RTE", limit=15), encoder)
    with pytest.raises(DataError, match=r"no row of `MNLI` to train on has the class"):
        evaluate(evaluator(glue_data, "MNLI-m", limit=3), encoder)
    assert encoder.calls == []


def test_cola_is_scored_by_matthews_correlation(glue_data, encoder, monkeypatch):
    # Gold is 0, 1, 0, 1, ...: 4 true positives, 3 true negatives, 3 false positives, 2 false negatives.
    predicted = np.array([0, 1, 0, 1, 0, 1, 1, 1, 1, 0, 1, 0])
    gold = np.arange(12) % 2
    outcome = Outcome(0.0, 0.0, predicted, gold)
    monkeypatch.setattr(Classifier, "probe", lambda *_: outcome)
    (score,) = evaluate(evaluator(glue_data, "CoLA"), encoder).scores
    assert score.value == pytest.approx(100 * (4 * 3 - 3 * 2) / (7 * 6 * 6 * 5) ** 0.5)
    assert score.value == pytest.approx(16.9030851)
    assert score.metric == "matthews"
    assert (score.items.statistic, score.items.x.tolist()) == (
        "matthews",
        [0.0, 1.0] * 6,
    )
    assert score.items.y.tolist() == predicted.tolist()


def test_sts_b_is_spearmans_correlation_of_the_cosine_without_a_classifier(
    glue_data, encoder, probed
):
    (score,) = evaluate(evaluator(glue_data, "STS-B"), encoder).scores
    rows = table(glue_data / "STS-B" / "dev.tsv")
    cosines = []
    for first, second, _ in rows:
        u, v = encoder.encode([first, second]).astype(np.float64)
        cosines.append(u @ v / np.linalg.norm(u) / np.linalg.norm(v))
    gold = [float(row[2]) for row in rows]
    assert score.value == pytest.approx(100 * stats.spearmanr(gold, cosines).statistic)
    assert probed == []
    assert (score.items.statistic, score.items.x.tolist()) == ("spearman", gold)
    np.testing.assert_allclose(score.items.y, cosines)


def test_a_protocol_says_what_makes_the_number_comparable(glue_data, encoder, probed):
    (score,) = evaluate(
        evaluator(glue_data, "QQP", mode="fast", seed=3), encoder
    ).scores
    protocol = dict(score.protocol)
    data = protocol.pop("data")
    assert len(data) == 64
    assert protocol == {
        "id": "sentglue",
        "aggregation": "single",
        "split": "dev",
        "features": "[u, v, u*v, |u-v|]",
        "classifier": Classifier("fast", 3).describe(),
        "penalty": "held-out part of train",
        "train": 54,
        "held_out": 6,
        "test": 12,
        "limit": None,
        "seed": 3,
        "text": "as in the file",
    }


def test_a_development_share_is_below_one(glue_data):
    (problem,) = evaluator(glue_data, "RTE", development_share=1.0).check()
    assert problem.startswith("`development_share` is 1.0")
