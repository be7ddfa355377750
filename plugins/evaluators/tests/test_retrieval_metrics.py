from __future__ import annotations

import math

import numpy as np
import pytest
from sentbed_evaluators.retrieval_metrics import FORMULAS, Ranking

PLACES = np.array([[4, 0, 2, 1], [3, 2, 1, 0], [0, 1, 2, 3]])
RELEVANT = [{0: 2, 1: 1, 9: 3}, {3: 1}, {7: 1}]
"""Of the first query documents 0 and 1 are found at ranks 2 and 4, and 9 is not; of the last, none is."""


def test_ndcg_of_graded_documents_is_the_hand_computed_one():
    ranking = Ranking.of(PLACES, RELEVANT, 4)
    gain = 2 / math.log2(3) + 1 / math.log2(5)
    ideal = 3 + 2 / math.log2(3) + 1 / 2
    assert ranking.ndcg(4) == pytest.approx([gain / ideal, 1, 0])
    assert ranking.ndcg(2) == pytest.approx(
        [(2 / math.log2(3)) / (3 + 2 / math.log2(3)), 1, 0]
    )

    assert ranking.ndcg(1) == pytest.approx([0, 1, 0])


def test_recall_mrr_and_map_are_the_hand_computed_ones():
    ranking = Ranking.of(PLACES, RELEVANT, 4)
    assert ranking.recall(2) == pytest.approx([1 / 3, 1, 0])
    assert ranking.recall(4) == pytest.approx([2 / 3, 1, 0])
    assert ranking.mrr(1) == pytest.approx([0, 1, 0])
    assert ranking.mrr(4) == pytest.approx([1 / 2, 1, 0])
    assert ranking.map(4) == pytest.approx([(1 / 2 + 2 / 4) / 3, 1, 0])
    assert ranking.map(3) == pytest.approx([(1 / 2) / 3, 1, 0])


def random_case(queries, documents):
    """Grades 0 to 3, at least one of them positive, and similarities without ties."""
    generator = np.random.default_rng(11)
    grades = generator.integers(-1, 4, size=(queries, documents)).clip(0)
    grades[:, 0] = 1
    return grades, generator.permutation(queries * documents).reshape(
        queries, documents
    ).astype(float)


def ranked(grades, similarities, depth):
    places = np.argsort(-similarities, axis=1)[:, :depth]
    relevant = []
    for row in grades:
        relevant.append({j: int(grade) for j, grade in enumerate(row) if grade > 0})

    return Ranking.of(places, relevant, depth)


def test_all_measures_equal_those_of_trec_eval():
    reference = pytest.importorskip(
        "pytrec_eval", reason="needs pytrec_eval, which comes with mteb"
    )

    grades, similarities = random_case(12, 25)
    ranking = ranked(grades, similarities, 10)

    qrels, run = {}, {}
    for i, row in enumerate(grades):
        qrels[f"q{i}"] = {f"d{j}": int(grade) for j, grade in enumerate(row)}

    for i, row in enumerate(similarities):
        run[f"q{i}"] = {f"d{j}": float(x) for j, x in enumerate(row)}

    of = reference.RelevanceEvaluator(
        qrels, {"ndcg_cut.3,10", "recall.3,10", "map_cut.3,10", "recip_rank"}
    )

    results = of.evaluate(run)
    names = {"ndcg": "ndcg_cut", "recall": "recall", "map": "map_cut"}
    for metric, name in names.items():
        for k in (3, 10):
            expected = [results[f"q{i}"][f"{name}_{k}"] for i in range(len(grades))]
            assert ranking.measure(metric, k) == pytest.approx(expected), (metric, k)

    reciprocal_ranks = []
    for i in range(len(grades)):
        reciprocal_rank = results[f"q{i}"]["recip_rank"]
        if reciprocal_rank < 1 / 10:
            reciprocal_rank = 0

        reciprocal_ranks.append(reciprocal_rank)

    assert ranking.measure("mrr", 10) == pytest.approx(reciprocal_ranks)
    assert set(FORMULAS) == {*names, "mrr"}
