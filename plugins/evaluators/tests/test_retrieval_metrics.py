from __future__ import annotations

import numpy as np
import pytest
from sentbed_evaluators.retrieval_metrics import FORMULAS, Ranking

QUERIES = 12
DOCUMENTS = 25
DEPTH = 10
CUTOFFS = (3, DEPTH)
NAMES = {"ndcg": "ndcg_cut", "recall": "recall", "map": "map_cut"}
"""Measure -> its name in trec_eval."""


def test_all_measures_equal_those_of_trec_eval():
    reference = pytest.importorskip(
        "pytrec_eval", reason="needs pytrec_eval, which comes with mteb"
    )

    # Grades 0 to 3, at least one of them positive, and similarities without ties.
    generator = np.random.default_rng(11)
    grades = generator.integers(-1, 4, size=(QUERIES, DOCUMENTS)).clip(0)
    grades[:, 0] = 1
    similarities = generator.permutation(QUERIES * DOCUMENTS)
    similarities = similarities.reshape(QUERIES, DOCUMENTS).astype(float)

    relevant = []
    judgements = {}
    rankings = {}
    for query in range(QUERIES):
        relevant.append({})
        judgements[f"q{query}"] = {}
        rankings[f"q{query}"] = {}
        for document in range(DOCUMENTS):
            name = f"d{document}"
            grade = int(grades[query, document])
            if grade > 0:
                relevant[query][document] = grade
            judgements[f"q{query}"][name] = grade
            rankings[f"q{query}"][name] = float(similarities[query, document])

    places = np.argsort(-similarities, axis=1)[:, :DEPTH]
    ranking = Ranking.of(places, relevant, DEPTH)

    measures = {"ndcg_cut.3,10", "recall.3,10", "map_cut.3,10", "recip_rank"}
    evaluator = reference.RelevanceEvaluator(judgements, measures)
    results = evaluator.evaluate(rankings).values()
    for metric, name in NAMES.items():
        for k in CUTOFFS:
            expected = [of_query[f"{name}_{k}"] for of_query in results]
            assert ranking.measure(metric, k) == pytest.approx(expected), (metric, k)

    reciprocal_ranks = []
    for of_query in results:
        reciprocal_rank = of_query["recip_rank"]
        if reciprocal_rank < 1 / DEPTH:
            reciprocal_rank = 0
        reciprocal_ranks.append(reciprocal_rank)
    assert ranking.measure("mrr", DEPTH) == pytest.approx(reciprocal_ranks)
    assert set(FORMULAS) == {*NAMES, "mrr"}
