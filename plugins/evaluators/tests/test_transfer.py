"""SentEval's transfer tasks: their scores, and the parts of their examples."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
from sentbed_evaluators.probe import Classifier, Outcome
from sentbed_evaluators.transfer import PAPERS, SentEvalTransfer
from sklearn.metrics import f1_score


def suite(downstream, *arguments, **fields):
    return SentEvalTransfer(
        *arguments, data_dir=str(downstream), check_sizes=False, **fields
    )


def evaluate(evaluator, encoder, *arguments, **options):
    return evaluator.prepare().evaluate(encoder, *arguments, **options)


def test_mrpc_has_an_f1_beside_its_accuracy(downstream, table_encoder):
    scores = evaluate(suite(downstream, ("MRPC",), mode="fast"), table_encoder()).scores
    f1 = next(score for score in scores if score.metric == "f1")
    assert f1.items is not None
    assert f1.value == pytest.approx(100 * f1_score(f1.items.x, f1.items.y), abs=0.006)
    assert f1.protocol["features"] == "[|u-v|, u*v]"


def test_the_accuracy_that_chose_the_penalty_says_on_what(downstream, table_encoder):
    tasks = ("CR", "SST2", "TREC", "MRPC")
    scores = evaluate(suite(downstream, tasks, mode="fast"), table_encoder()).scores
    splits = {(score.task, score.metric): score.protocol["split"] for score in scores}
    assert splits == {
        ("CR", "accuracy"): "nested cross-validation",
        ("CR", "dev-accuracy"): "inner cross-validation",
        ("SST2", "accuracy"): "test",
        ("SST2", "dev-accuracy"): "dev",
        ("TREC", "accuracy"): "test",
        ("TREC", "dev-accuracy"): "cross-validation on train",
        ("MRPC", "accuracy"): "test",
        ("MRPC", "f1"): "test",
        ("MRPC", "dev-accuracy"): "cross-validation on train",
    }


@pytest.mark.parametrize("gold", [0, 1])
def test_an_f1_without_a_positive_that_was_found_is_zero_and_is_noted(
    downstream, table_encoder, monkeypatch, gold
):
    zeros = np.zeros(60, np.int64)
    nothing = Outcome(0.0, 0.0, zeros, zeros + gold)
    monkeypatch.setattr(Classifier, "probe", lambda *_: nothing)
    evaluator = suite(downstream, ("MRPC",))
    accuracy, f1, _ = evaluate(evaluator, table_encoder()).scores
    assert (f1.metric, f1.value) == ("f1", 0.0)
    assert f1.note == "the classifier predicts no positive pair"
    assert accuracy.note == ""


def test_a_classifier_that_found_one_class_only_says_so(downstream, table_encoder):
    """All sentences have one vector, as after a collapse: each classifier takes the largest class."""
    evaluator = suite(downstream, tasks=("TREC", "MRPC"), mode="fast")
    encoder = table_encoder(width=6)
    encoder.encode = lambda texts, task: np.ones((len(texts), 6), np.float32)
    degenerate = {
        (s.task, s.metric): s.degenerate for s in evaluate(evaluator, encoder).scores
    }
    assert {
        ("TREC", "accuracy"),
        ("TREC", "dev-accuracy"),
        ("MRPC", "f1"),
    } <= degenerate.keys()
    assert set(degenerate.values()) == {"the classifier predicts one class only"}


def test_the_training_part_is_scored_without_any_test_sentence(
    downstream, table_encoder
):
    evaluator = suite(downstream, mode="fast", part="train")
    assert evaluator.development
    prepared = evaluator.prepare()
    held_out = attrs.evolve(evaluator, part="held-out").prepare()
    for task in PAPERS:
        test = set().union(*held_out.item_texts()[task])
        assert test.isdisjoint(prepared.lists[task].first)
    evaluation = prepared.evaluate(table_encoder())
    main = [score for score in evaluation.scores if score.metric == "accuracy"]
    assert [score.task for score in main] == list(PAPERS)
    assert {score.protocol["id"] for score in main} == {"senteval-transfer-train"}
    assert main[PAPERS.index("SST2")].protocol["split"] == "dev"
    assert main[PAPERS.index("MR")].protocol["split"] == "cross-validation on train"


def test_what_is_held_out_is_the_first_fold_of_the_published_accuracy(
    downstream, table_encoder
):
    evaluator = suite(downstream, ("MR",), "fast")
    encoder = table_encoder(width=16)
    whole = evaluate(evaluator, encoder).scores[0]
    held_out = evaluate(attrs.evolve(evaluator, part="held-out"), encoder).scores[0]
    assert whole.items is not None
    assert whole.items.groups is not None
    first = whole.items.x[whole.items.groups == 0]
    assert held_out.value == pytest.approx(100 * first.mean(), abs=0.01)
    assert held_out.protocol["id"] == "senteval-transfer-held-out"


def test_the_training_part_is_scored_as_the_penalty_is_chosen(
    downstream, table_encoder
):
    evaluator = suite(downstream, ("TREC",), mode="fast")
    published = evaluate(evaluator, table_encoder()).scores
    train = evaluate(attrs.evolve(evaluator, part="train"), table_encoder())
    assert train.primary == next(
        score.value for score in published if score.metric == "dev-accuracy"
    )
