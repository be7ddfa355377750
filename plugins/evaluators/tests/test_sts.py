from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest
from scipy import stats
from sentbed import DataError
from sentbed_evaluators.scored_pair_files import PairFile
from sentbed_evaluators.sts import STS


def evaluate(evaluator, encoder, *arguments, **options):
    return evaluator.prepare().evaluate(encoder, *arguments, **options)


def test_scores_equal_those_of_known_cosines(write, table_encoder):
    cosines, gold = [0.9, 0.1, 0.5, -0.3], [5, 2, 1, 0]
    table = {f"b{i}": [c, (1 - c * c) ** 0.5] for i, c in enumerate(cosines)} | {
        "a": [2.0, 0.0]
    }
    rows = [f"a\tb{i}\t{score}\n" for i, score in enumerate(gold)]
    path = write("mine.tsv", "sentence1\tsentence2\tscore\n" + "".join(rows))
    encoder = table_encoder(table)
    result = evaluate(STS(path=str(path)), encoder)
    spearman, pearson = result.scores
    # Ranks 4 2 3 1 against 4 3 2 1: 1 - 6 * (1 + 1) / (4 * 15) = 0.8.
    assert (spearman.task, spearman.metric, spearman.value) == (
        "mine",
        "spearman",
        pytest.approx(80),
    )
    assert pearson.value == pytest.approx(
        100 * stats.pearsonr(gold, cosines).statistic, abs=1e-4
    )
    assert result.primary == spearman.value
    assert len(encoder.calls) == 1
    np.testing.assert_allclose(spearman.items.y, cosines, atol=1e-6)
    assert pearson.protocol["correlation"] == "pearson"
    assert {"id", "aggregation", "split", "pairs", "text", "data"} <= set(
        spearman.protocol
    )


@pytest.mark.parametrize(
    ("pair", "score", "remark"),
    [
        ("c\td", 50, "far from the others, which go from 0 to 5: 1 of 31, such as 50;"),
        ("c\td", -1, "that are negative, unlike the others: 1 of 31, such as -1;"),
        (
            "a0\tb0",
            5,
            "opposite to that of an earlier pair of the same texts: 1 of 31",
        ),
        ("a0\tb0", 2, ""),
        ("c\td", 5.5, ""),
    ],
)
def test_doubtful_gold_scores_are_told_with_their_pair(write, pair, score, remark):
    rows = [f"a{k}\tb{k}\t{k % 6}\n" for k in range(30)]
    rows.append(f"{pair}\t{score}\n")
    path = write("p.tsv", "sentence1\tsentence2\tscore\n" + "".join(rows))
    remarks = STS(path=str(path)).prepare().remarks
    assert bool(remarks) is bool(remark)
    for told in remarks:
        assert told.startswith(f"gold scores {remark}")
        assert told.endswith(f" @ {path}, pair 31")


def test_a_second_encoder_encodes_the_second_sentences(write, table_encoder):
    path = write("cross.tsv", "sentence1\tsentence2\tscore\na\tx\t5\nb\ty\t1\n")
    encoder = table_encoder({"a": [1.0, 0.0], "b": [0.0, 1.0]})
    encoder.second = table_encoder({"x": [3.0, 4.0], "y": [4.0, -3.0]})
    result = evaluate(STS(path=str(path)), encoder, encoder.second)
    assert (encoder.calls, encoder.second.calls) == ([["a", "b"]], [["x", "y"]])
    np.testing.assert_allclose(result.scores[0].items.y, [0.6, -0.6], atol=1e-6)


def test_sts_benchmark_as_senteval_ships_it_is_read_by_position(write, encoder):
    path = write("sts-dev.csv", 'g\tf\ty\t1\t2.5\ta "b\tc\ng\tf\ty\t2\t1\td\te\tx\ty\n')
    sts = STS(
        path=str(path),
        columns=("5", "6", "4"),
        header=False,
        separator="\t",
        task="STSB-dev",
    )
    assert list(sts.check()) == []
    result = evaluate(sts, encoder)
    assert encoder.calls == [['a "b', "d", "c", "e"]]
    assert result.scores[0].task == "STSB-dev"


def test_correlations_with_equal_cosines_are_undefined_and_zero_vectors_noted(
    write, table_encoder
):
    path = write("p.tsv", "sentence1\tsentence2\tscore\na\tb\t1\na\tc\t2\n")
    encoder = table_encoder({"a": [0.0], "b": [1.0], "c": [2.0]})
    result = evaluate(STS(path=str(path)), encoder)
    assert math.isnan(result.primary)
    for score in result.scores:
        assert math.isnan(score.value)
        assert "all cosines are about 0" in score.degenerate
        assert score.items is None
        assert (
            score.note
            == "2 zero vectors, whose cosine counts as 0, the first that of 'a'"
        )


def test_equal_gold_scores_are_an_error(write, encoder):
    path = write("p.tsv", "sentence1\tsentence2\tscore\na\tb\t1\na\tc\t1\n")
    with pytest.raises(DataError, match=r"1 different scores.*p\.tsv$"):
        evaluate(STS(path=str(path)), encoder)


def test_the_protocol_has_the_hash_of_what_was_parsed(write, encoder, monkeypatch):
    path = write("pairs.tsv", "sentence1\tsentence2\tscore\na\tb\t1\nc\td\t0\n")
    parsed = hashlib.sha256(path.read_bytes()).hexdigest()
    read = PairFile.read

    def change_afterwards(file, *arguments):
        pairs = read(file, *arguments)
        write("pairs.tsv", "sentence1\tsentence2\tscore\na\tb\t0\nc\td\t1\n")
        return pairs

    monkeypatch.setattr(PairFile, "read", change_afterwards)
    evaluation = evaluate(STS(path=str(path)), encoder)
    assert {score.protocol["data"] for score in evaluation.scores} == {parsed}
