from __future__ import annotations

import pytest
from sentbed import DataError
from sentbed_data.triplets import Triplets


def test_triplets_read_the_names_of_simcse_by_default(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('sent0,sent1,hard_neg\n"a, b",c,d\ne,f,g\n')
    source = Triplets(path=str(path))
    table = source.open()
    assert source.columns == table.columns == ("anchor", "positive", "negative")
    assert len(table) == 2
    assert table.rows([0]) == {"anchor": ["a, b"], "positive": ["c"], "negative": ["d"]}


def test_triplets_without_a_header(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text('a\t"b\tc\nd\te\tf\n')
    columns = {"anchor": "0", "positive": "1", "negative": "2"}
    table = Triplets(path=str(path), header=False, limit=1, **columns).open()
    assert table.rows([0]) == {"anchor": ["a"], "positive": ['"b'], "negative": ["c"]}
    assert len(table) == 1


def test_fingerprint_follows_the_content_and_not_the_format(tmp_path):
    (tmp_path / "a.csv").write_text("sent0,sent1,hard_neg\na,b,c\n")
    (tmp_path / "a.tsv").write_text("hard_neg\tsent1\tsent0\r\nc\tb\ta\r\n")
    (tmp_path / "b.csv").write_text("sent0,sent1,hard_neg\na,b,C\n")
    prints = [
        Triplets(path=str(tmp_path / name)).open().fingerprint
        for name in ("a.csv", "a.tsv", "b.csv")
    ]

    assert prints[0] == prints[1] != prints[2]


@pytest.mark.parametrize("stream", [False, True])
def test_a_known_file_with_another_number_of_rows_than_published_is_refused(
    stream, tmp_path, monkeypatch
):
    monkeypatch.setenv("SENTBED_DATA", str(tmp_path))
    monkeypatch.setenv("SENTBED_CACHE", str(tmp_path / "cache"))
    text = "sent0,sent1,hard_neg\n" + "a,b,c\n" * 3
    for name in ("nli_for_simcse.csv", "mine.csv"):
        (tmp_path / name).write_text(text)

    assert len(Triplets(path="data:mine.csv", stream=stream).open()) == 3
    assert (
        len(Triplets(path="data:nli_for_simcse.csv", limit=2, stream=stream).open())
        == 2
    )

    with pytest.raises(
        DataError,
        match=r"found 3 rows, expected the 275,601 of `nli-for-simcse`.*sentbed data",
    ):
        Triplets(path="data:nli_for_simcse.csv", stream=stream).open()


def test_a_known_file_that_is_missing_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setenv("SENTBED_DATA", str(tmp_path))
    (problem,) = Triplets(path="data:nli_for_simcse.csv").check()
    assert problem.endswith("; `sentbed data get nli-for-simcse` downloads it")


def test_several_hard_negatives_have_a_column_each(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("sent0\tsent1\tn1\tn2\na\tb\tc\td\n")
    source = Triplets(path=str(path), negative=("n2", "n1"))
    assert (
        source.columns
        == source.open().columns
        == ("anchor", "positive", "negative", "negative_2")
    )

    assert source.open().rows([0])["negative_2"] == ["c"]
    with pytest.raises(ValueError, match="names 9 columns"):
        Triplets(path=str(path), negative=tuple("abcdefghi"))
