from __future__ import annotations

import numpy as np
import pytest
from sentbed_evaluators.retrieval_metrics import FORMULAS, Ranking


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
