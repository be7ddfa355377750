from __future__ import annotations

import pytest
from sentbed import DataError
from sentbed_data.qa import Qa

TREC = """qtext,label,atext
q1,0,q1 wrong
q1,1,"q1 right, one"
q1,1,q1 right two
q2,1,q2 right
q1,0,q1 also wrong
q1,0,q1 right two
q3,0,q3 wrong
"""


def test_right_answers_of_a_labelled_file_are_the_positives(put):
    source = Qa(path=put("a.csv", TREC))
    table = source.open()
    assert source.columns == table.columns == ("anchor", "positive")
    assert table.rows(range(3)) == {
        "anchor": ["q1", "q1", "q2"],
        "positive": ["q1 right, one", "q1 right two", "q2 right"],
    }

    assert table.left_out == {"wrong answers": 4}
    assert list(source.check()) == []
    assert len(Qa(path=source.path, limit=2).open()) == 2


def test_columns_and_the_label_of_a_right_answer_may_be_named(put):
    path = put(
        "a.jsonl", '{"x": "q", "y": "a", "ok": 2}\n{"x": "q", "y": "b", "ok": 0}\n'
    )

    source = Qa(path=path, question="x", answer="y", label="ok", positive="2")
    assert source.open().rows([0]) == {"anchor": ["q"], "positive": ["a"]}


@pytest.mark.parametrize(
    ("content", "fields", "message"),
    [
        ("question,answer\nq,a\n", {}, r"no column `label`.*a\.csv:1$"),
        (
            "question,answer,label\nq,a,yes\n",
            {},
            r"no answer has the label '1', and the labels are `yes`;",
        ),
        (
            "question,answer,label\nq,,1\n",
            {},
            r"`answer`: the text is empty.*a\.csv:2$",
        ),
        (
            "question,reply\nq,a\n",
            {},
            r"no column `answer`, .*`question`, `reply`.*:1$",
        ),
    ],
)
def test_a_faulty_file_is_refused(put, content, fields, message):
    with pytest.raises(DataError, match=message):
        Qa(path=put("a.csv", content), **fields).open()


@pytest.mark.parametrize(
    ("split", "rows", "right"),
    [("train", 4718, 348), ("dev", 1148, 222), ("test", 1517, 284)],
)
def test_trecqa_has_the_published_sizes(real, split, rows, right):
    path = real(f"qa/trecqa/{split}.csv")
    table = Qa(path=path).open()
    assert len(table) == right
    assert table.left_out == {"wrong answers": rows - right}
