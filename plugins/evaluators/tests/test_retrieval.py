from __future__ import annotations

import json
import math

import pytest
from sentbed import DataError, RunError
from sentbed_evaluators import retrieval
from sentbed_evaluators.retrieval import Retrieval


def evaluate(evaluator, encoder, *arguments, **options):
    return evaluator.prepare().evaluate(encoder, *arguments, **options)


def rows_of(texts):
    """Texts by their id, as lines of JSON."""
    lines = []
    for name, text in texts.items():
        lines.append(json.dumps({"_id": name, "text": text}))
    return "\n".join(lines)


def beir(write, documents, queries, judged):
    """A folder in BEIR's layout."""
    write("toy/corpus.jsonl", rows_of(documents))
    write("toy/queries.jsonl", rows_of(queries))

    lines = ["query-id\tcorpus-id\tscore", *judged]
    path = write("toy/qrels/test.tsv", "\n".join(lines))
    return str(path.parents[1])


def at(degrees, length=1.0):
    angle = math.radians(degrees)
    return [length * math.cos(angle), length * math.sin(angle)]


DOCUMENTS = {"d1": "ten", "d2": "twenty", "d3": "thirty", "d4": "forty", "q2": "fifty"}
TABLE = {
    "ten": at(10),
    "twenty": at(20),
    "thirty": at(30, 9),
    "forty": at(40),
    "fifty": at(50),
    "low": at(0),
    "high": at(90),
}
JUDGED = ["q1\td2\t2", "q1\td4\t1", "q2\tq2\t1", "q2\td3\t1"]
"""q1 ranks d1 d2 d3 d4 q2: found at 2 (grade 2) and 4. q2 ranks d4 d3 d2 d1 without its own: found at 2."""


def values(result):
    by_metric = {}
    for score in result.scores:
        by_metric[score.metric] = score.value
    return by_metric


def test_graded_documents_are_scored_as_by_hand(write, table_encoder):
    path = beir(write, DOCUMENTS, {"q1": "low", "q2": "high", "q3": "unjudged"}, JUDGED)
    result = evaluate(Retrieval(path=path, k=(1, 2, 10)), table_encoder(TABLE))
    second, fourth = 1 / math.log2(3), 1 / math.log2(5)
    ideal = 2 + second
    expected = {
        "ndcg@10": [(2 * second + fourth) / ideal, second / (1 + second)],
        "ndcg@1": [0, 0],
        "ndcg@2": [2 * second / ideal, second / (1 + second)],
        "recall@1": [0, 0],
        "recall@2": [1 / 2, 1 / 2],
        "recall@10": [1, 1 / 2],
        "mrr@1": [0, 0],
        "mrr@2": [1 / 2, 1 / 2],
        "mrr@10": [1 / 2, 1 / 2],
        "map@10": [(1 / 2 + 2 / 4) / 2, (1 / 2) / 2],
    }
    scores = values(result)
    assert list(scores) == list(expected)
    assert scores == pytest.approx(
        {name: 50 * sum(each) for name, each in expected.items()}
    )
    assert result.primary == scores["ndcg@10"]

    for score in result.scores:
        assert score.task == "toy"
        assert score.items.x == pytest.approx(expected[score.metric])
    facts = {
        "id": "beir",
        "split": "test",
        "similarity": "cosine",
        "queries": 2,
        "documents": 5,
        "queries_without_judgement": 1,
    }
    assert facts.items() <= result.scores[0].protocol.items()


def test_the_inner_product_ranks_by_length_too(write, table_encoder):
    path = beir(write, DOCUMENTS, {"q1": "low"}, ["q1\td3\t1"])
    for similarity, rank in (("cosine", 3), ("dot", 1)):
        result = evaluate(
            Retrieval(path=path, k=(5,), similarity=similarity), table_encoder(TABLE)
        )
        assert values(result)["mrr@5"] == pytest.approx(100 / rank)


def test_the_main_cut_is_the_highest_where_ten_is_not_asked_for(write, table_encoder):
    path = beir(write, DOCUMENTS, {"q1": "low"}, ["q1\td2\t1"])
    result = evaluate(Retrieval(path=path, k=(5, 1)), table_encoder(TABLE))
    assert [score.metric for score in result.scores][:2] == ["ndcg@5", "ndcg@1"]
    assert result.primary == pytest.approx(100 / math.log2(3))


def test_documents_of_equal_similarity_are_ranked_in_the_order_of_the_file(
    write, table_encoder
):
    documents = dict.fromkeys(("c", "a", "b"), "the same")
    for name, rank in (("c", 1), ("a", 2), ("b", 3)):
        path = beir(write, documents, {"q": "x"}, [f"q\t{name}\t1"])
        result = evaluate(Retrieval(path=path, k=(3,)), table_encoder())
        assert values(result)["mrr@3"] == pytest.approx(100 / rank)


def test_a_corpus_in_chunks_is_scored_as_in_one(write, encoder, monkeypatch):
    documents, queries, judged = {}, {}, []
    for i in range(50):
        documents[f"d{i}"] = f"document {i}"
    for i in range(20):
        queries[f"q{i}"] = f"query {i}"
        for grade in (1, 2, 3):
            judged.append(f"q{i}\td{(7 * i + grade) % 50}\t{grade}")
    path = beir(write, documents, queries, judged)
    seen = []
    encoder.progress = lambda *step: seen.append(step)
    whole = values(evaluate(Retrieval(path=path, k=(5, 10)), encoder))
    assert seen == [("search", 50, 50)]

    monkeypatch.setattr(retrieval, "DOCUMENT_BLOCK", 7)
    encoder.calls.clear()
    assert values(evaluate(Retrieval(path=path, k=(5, 10)), encoder)) == pytest.approx(
        whole
    )
    assert [len(call) for call in encoder.calls] == [20, 7, 7, 7, 7, 7, 7, 7, 1]


PAIRS = "sentence1\tsentence2\nlow\tten\nhigh\tfifty\nlow\tforty\nmore\tten\n"


def test_pairs_are_merged_by_text(write, table_encoder):
    """low: ten and forty of ten, fifty, forty; high: fifty; more (at 44 degrees): ten."""
    encoder = table_encoder({**TABLE, "more": at(44)})
    result = evaluate(Retrieval(path=str(write("qa.tsv", PAIRS)), k=(1, 3)), encoder)
    assert encoder.calls == [["low", "high", "more"], ["ten", "fifty", "forty"]]

    scores = values(result)
    # Ranks: low 1 (ten) and 2 (forty), high 1, more 3 (forty, fifty, ten).
    assert scores["recall@1"] == pytest.approx(100 * (1 / 2 + 1 + 0) / 3)
    assert scores["recall@3"] == pytest.approx(100)
    assert scores["mrr@3"] == pytest.approx(100 * (1 + 1 + 1 / 3) / 3)
    assert scores["ndcg@3"] == pytest.approx(100 * (1 + 1 + 1 / 2) / 3)

    facts = {"id": "pair-retrieval", "pairs": 4, "queries": 3, "documents": 3}
    assert facts.items() <= result.scores[0].protocol.items()
    assert result.scores[0].task == "qa"


def test_pairs_with_a_label_have_irrelevant_documents_and_queries(write, table_encoder):
    """low: forty of forty and ten; high has no relevant document, and its document is searched."""
    rows = [
        "sentence1\tsentence2\tlabel",
        "low\tten\t0",
        "low\tforty\t1",
        "high\tfifty\t0",
    ]
    path = str(write("qa.tsv", "\n".join(rows)))
    encoder = table_encoder(TABLE)
    result = evaluate(Retrieval(path=path, label="label", k=(1, 3)), encoder)
    assert encoder.calls == [["low"], ["ten", "forty", "fifty"]]
    assert values(result)["mrr@3"] == pytest.approx(100 / 2)

    protocol = result.scores[0].protocol
    assert protocol["queries without a relevant document"] == 1
    assert (protocol["queries"], protocol["documents"]) == (1, 3)

    irrelevant = str(write("no.tsv", "sentence1\tsentence2\tlabel\nlow\tten\t0\n"))
    evaluator = Retrieval(path=irrelevant, label="label")
    with pytest.raises(DataError, match="no pair has a label above 0"):
        evaluator.prepare()


def test_sparse_vectors_cost_what_is_not_zero(write, table_encoder):
    encoder = table_encoder(
        {"a": [1.0, 0.0, 2.0], "b": [0.0, 1.0, 0.0], "c": [1.0, 1.0, 1.0]}
    )
    encoder.output = "sparse"
    path = str(write("p.tsv", "sentence1\tsentence2\na\tb\na\tc\n"))
    result = evaluate(Retrieval(path=path, k=(1,), cost=True), encoder)
    costs = {}
    for score in result.scores:
        if score.axis == "cost":
            costs[score.task] = score

    # Documents b and c have 1 and 3 components; with the query's two, b shares none and c both.
    size, operations = costs["bytes-per-document"], costs["operations-per-pair"]
    assert (size.metric, size.value) == ("bytes", pytest.approx(8 * (1 + 3) / 2))
    assert operations.metric == "operations"
    assert operations.value == pytest.approx(2 * (0 + 2) / 2)
    assert size.protocol["task"] == "p"


def test_documents_are_encoded_by_the_second_encoder(write, table_encoder):
    encoder = table_encoder({"a": at(0), "b": at(90)})
    encoder.second = table_encoder({"a": at(80), "b": at(5)})
    path = str(write("p.tsv", "sentence1\tsentence2\na\ta\nb\tb\n"))
    result = evaluate(Retrieval(path=path, k=(1, 2)), encoder, encoder.second)
    assert values(result)["recall@1"] == 0
    assert values(result)["mrr@2"] == pytest.approx(50)
    assert (encoder.calls, encoder.second.calls) == ([["a", "b"]], [["a", "b"]])

    encoder.second = table_encoder(width=5)
    with pytest.raises(RunError, match="width 2, that of the second one of width 5"):
        evaluate(Retrieval(path=path), encoder, encoder.second)


def test_by_the_inner_product_a_zero_vector_is_a_vector(write, table_encoder):
    path = beir(write, DOCUMENTS, {"q1": "low", "q2": "high"}, JUDGED)
    encoder = table_encoder({**TABLE, "ten": [0.0, 0.0]})
    result = evaluate(Retrieval(path=path, similarity="dot", k=(5,)), encoder)
    # Of the two relevant documents of `q2`, one has its id, and is left out.
    assert values(result)["recall@5"] == 75


@pytest.mark.parametrize(("text", "name"), [("low", "'low'"), ("fifty", "'fifty'")])
def test_a_zero_vector_is_refused_by_name(text, name, write, table_encoder):
    encoder = table_encoder({**TABLE, text: [0.0, 0.0]})
    with pytest.raises(RunError, match=f"the embedding of {name} is a zero vector"):
        evaluate(
            Retrieval(path=str(write("qa.tsv", PAIRS.replace("more", "ten")))), encoder
        )


def test_check_names_every_problem(write, tmp_path):
    pairs = str(write("qa.tsv", PAIRS))
    cases = [
        ({"path": pairs, "k": ()}, "give different ranks"),
        ({"path": pairs, "k": (1, 1)}, "give different ranks"),
        ({"path": pairs, "k": (0, 1)}, "give different ranks"),
        (
            {"path": pairs, "split": "tst"},
            "a file of pairs is `train`, `dev` or `test`",
        ),
        ({"path": pairs, "columns": ("a", "a")}, "names `a` twice"),
        ({"path": str(tmp_path / "x.tsv")}, "does not exist"),
    ]
    for fields, expected in cases:
        (problem,) = Retrieval(**fields).check()
        assert expected in problem
    with pytest.raises(DataError, match=r"has no `corpus\.jsonl`"):
        evaluate(Retrieval(path=str(tmp_path)), object())
    assert list(Retrieval(path=pairs, split="dev").check()) == []
