from __future__ import annotations

import json

import pytest
from sentbed import DataError
from sentbed_evaluators.beir_files import problems, read_beir

CORPUS = [
    {"_id": "d1", "title": "Cats", "text": "They purr."},
    {"_id": "d2", "title": "", "text": " Dogs bark. "},
    {"_id": "q3", "text": "no title", "metadata": {"url": "x"}},
    {"_id": "d4", "title": None, "text": ""},
]
QUERIES = [{"_id": f"q{i}", "text": f"query {i}"} for i in range(1, 6)]
HEADER = "query-id\tcorpus-id\tscore\n"
JUDGED = (
    HEADER
    + "q3\td1\t2\nq1\td2\t1\nq3\td2\t-1\nq3\tq3\t1\nq2\td1\t0\nq3\tgone\t3\nq1\tgone\t1\n"
)


def lines(rows):
    """Rows as lines of JSON; what is no list is the content of a file already."""
    if not isinstance(rows, list):
        return rows

    return "".join(json.dumps(row) + "\n" for row in rows)


def folder(
    write,
    corpus=CORPUS,
    queries=QUERIES,
    judged=JUDGED,
):
    write("set/corpus.jsonl", lines(corpus))
    write("set/queries.jsonl", lines(queries))
    return write("set/qrels/test.tsv", judged).parents[1]


def test_a_folder_is_read_as_beir_reads_it(write):
    collection = read_beir(folder(write), "test")
    assert collection.documents == ["Cats They purr.", "Dogs bark.", "no title", ""]
    # In the order of the judgements; q2 has no relevant document, q4 and q5 are not judged.
    assert collection.queries == ["query 3", "query 1"]
    # A negative grade is not relevant; `gone` has a number that no document has.
    assert collection.relevant == [{0: 2, 2: 1, 4: 3}, {1: 1, 4: 1}]
    assert collection.own_documents == [2, -1]
    assert collection.note.startswith("1 relevant documents are not in the corpus")

    protocol = collection.protocol
    assert (
        protocol["queries_without_judgement"],
        protocol["queries_without_relevant"],
    ) == (2, 1)

    assert (protocol["judgements"], len(protocol["data"])) == (5, 3)


def test_the_columns_of_the_judgements_go_by_their_names(write):
    judged = "score\tnote\tcorpus-id\tquery-id\r\n1\t\td1\tq1\r\n1\t\td1\tq1\r\n"
    collection = read_beir(folder(write, judged=judged), "test")
    assert (collection.queries, collection.relevant) == (["query 1"], [{0: 1}])
    assert collection.note == ""


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        (
            {"corpus": [*CORPUS, CORPUS[1]]},
            r"`_id` 'd2' occurs a second time.*corpus\.jsonl:5$",
        ),
        (
            {"queries": [*QUERIES, QUERIES[0]]},
            r"`_id` 'q1' occurs a second time.*queries\.jsonl:6$",
        ),
        ({"corpus": ""}, r"the file is empty.*corpus\.jsonl$"),
        (
            {"corpus": [{"id": "d1", "text": "x"}]},
            r"`_id`: found None.*corpus\.jsonl:1$",
        ),
        (
            {"corpus": [{"_id": "d1", "text": None}]},
            r"`text`: found None.*corpus\.jsonl:1$",
        ),
        (
            {"corpus": [{"_id": "d1", "text": "x", "title": 3}]},
            r"`title`: found 3 .*corpus\.jsonl:1$",
        ),
        ({"judged": HEADER + "q9\td1\t1\n"}, r"query `q9` is not in.*test\.tsv$"),
        ({"judged": "q1\td1\t1\n"}, r"no column `query-id`.*test\.tsv:1$"),
        (
            {"judged": HEADER + "q1\td1\t0.5\n"},
            r"the score is '0\.5', but grades are whole.*test\.tsv:2$",
        ),
        (
            {"judged": HEADER + "q1\td1\t1\nq1\td1\t2\n"},
            r"grade 2 for query `q1` here and 1.*test\.tsv:3$",
        ),
        (
            {"judged": HEADER + "q1\tgone\t1\n"},
            r"no judgement says that a document of.*test\.tsv$",
        ),
        (
            {"judged": HEADER + "q1\td1\t0\n"},
            r"no judgement says that a document of.*test\.tsv$",
        ),
    ],
)
def test_what_cannot_be_used_is_an_error_with_file_and_line(changed, problem, write):
    with pytest.raises(DataError, match=problem):
        read_beir(folder(write, **changed), "test")


def test_missing_files_are_named_with_the_splits_that_are_there(write, tmp_path):
    there = folder(write)
    assert list(problems(there, "test")) == []

    (split,) = problems(there, "tets")
    assert "has no `qrels/tets.tsv`" in split
    assert "Did you mean `test`?" in split

    corpus, queries, judged = problems(tmp_path, "test")
    assert "has no `corpus.jsonl`" in corpus
    assert "has no `queries.jsonl`" in queries
    assert "has no `qrels/test.tsv`" in judged
