from __future__ import annotations

import pytest
from sentbed import DataError
from sentbed_data.mix import Mix
from sentbed_data.scored import Scored

ROWS = [("a cat", "a dog", "2.5"), ("one", "uno", "5"), ("x, y", "z", "0")]
EXPECTED = {
    "anchor": ["a cat", "one", "x, y"],
    "positive": ["a dog", "uno", "z"],
    "score": [0.5, 1.0, 0.0],
}


def tsv(*rows, head="sentence1\tsentence2\tscore\n"):
    return head + "".join("\t".join(row) + "\n" for row in rows)


def test_scores_of_a_table_are_mapped_to_the_unit_interval(put):
    source = Scored(path=put("a.tsv", tsv(*ROWS)), score_range=(0, 5))
    assert list(source.check()) == []
    table = source.open()
    assert source.columns == table.columns == ("anchor", "positive", "score")
    assert table.rows([0, 1, 2]) == EXPECTED
    assert source.numbers == {"score"}
    assert list(table.texts()) == EXPECTED["anchor"] + EXPECTED["positive"]


@pytest.mark.parametrize("value", ["true", "null", "[1]", "5.5"])
def test_a_json_score_that_is_no_number_in_the_unit_interval_is_an_error(put, value):
    path = put("a.jsonl", f'{{"sentence1": "a", "sentence2": "b", "score": {value}}}\n')
    with pytest.raises(DataError, match=r"expected a number from 0 to 1.*a\.jsonl:1"):
        Scored(path=path).open()


@pytest.mark.parametrize("score", ["5.1", "-1", "nan", "high", "0_1", ""])
def test_a_score_outside_the_range_is_an_error_with_file_and_line(put, score):
    path = put("a.tsv", tsv(*ROWS, ("a", "b", score)))
    message = rf"`score`: found '{score}'; expected a number from 0 to 5; .*a\.tsv:5$"
    with pytest.raises(DataError, match=message):
        Scored(path=path, score_range=(0, 5)).open()


def test_hard_negatives_and_margins_as_they_are(put):
    head = "q\tp\tn1\tn2\tmargin\n"
    source = Scored(
        path=put("a.tsv", tsv(("a", "b", "c", "d", "-3.5"), head=head)),
        anchor="q",
        positive="p",
        negative=("n1", "n2"),
        score="margin",
        score_range=(-20, 20),
        rescale=False,
    )

    assert source.columns == ("anchor", "positive", "negative", "negative_2", "score")
    assert source.open().rows([0]) == {
        "anchor": ["a"],
        "positive": ["b"],
        "negative": ["c"],
        "negative_2": ["d"],
        "score": [-3.5],
    }


STS_B = {
    "header": False,
    "separator": "\t",
    "anchor": "5",
    "positive": "6",
    "score": "4",
    "score_range": (0, 5),
}


def test_sts_benchmark_lines_have_seven_or_nine_fields(put):
    lines = 'main\tvid\t2012\t1\t5.000\tA "plane.\tB\nmain\tvid\t2012\t2\t1.0\tC\tD\tlicence\tmore\n'
    source = Scored(path=put("sts-train.csv", lines), **STS_B)
    assert list(source.check()) == []
    assert source.open().rows([0, 1]) == {
        "anchor": ['A "plane.', "C"],
        "positive": ["B", "D"],
        "score": [1.0, 0.2],
    }

    path = put("bad.csv", lines + "a\tb\tc\td\n")
    with pytest.raises(DataError, match=r"4 field\(s\); expected 7.*bad\.csv:3"):
        Scored(path=path, **STS_B).open()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"score_range": (5, 0)}, "expected the smallest score, then a larger one"),
        ({"score_range": (0, float("inf"))}, "a larger one, both finite"),
    ],
)
def test_fields_that_do_not_fit_are_reported(put, fields, message):
    path = put("a.tsv", tsv(*ROWS))
    assert any(message in problem for problem in Scored(path=path, **fields).check())


def test_a_mix_of_two_ranges_has_scores_in_one(put):
    first = Scored(path=put("a.tsv", tsv(*ROWS)), score_range=(0, 5))
    second = Scored(path=put("b.tsv", tsv(("A", "B", "5"))), score_range=(1, 5))
    mix = Mix(sources=(first, second))
    assert list(mix.check()) == []
    assert mix.open().rows([3, 0])["score"] == [1.0, 0.5]


def test_the_published_files_are_read(real):
    path = real("senteval/downstream/STS/STSBenchmark/sts-train.csv")
    assert len(Scored(path=path, **STS_B).open()) == 5749
    sick = Scored(
        path=real("senteval/downstream/SICK/SICK_train.txt"),
        separator="\t",
        anchor="sentence_A",
        positive="sentence_B",
        score="relatedness_score",
        score_range=(1, 5),
    )

    assert list(sick.check()) == []
    assert len(sick.open()) == 4500
