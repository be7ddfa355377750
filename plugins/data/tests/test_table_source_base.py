from __future__ import annotations

import attrs
import pytest
from sentbed import DataError, FilePath
from sentbed_data.dropout import Dropout
from sentbed_data.nsp import Nsp
from sentbed_data.pairs import Pairs
from sentbed_data.triplets import Triplets


@pytest.fixture
def file(put):
    return put("a.csv", "sent0,sent1,hard_neg\n1,2,3\n")


@pytest.mark.parametrize(
    "source",
    [
        Triplets(path="hub:some/set", config="a", split="dev", revision="b"),
        Triplets(path=FilePath("hub:o/n/a.csv"), revision="v1", header=False),
        Dropout(path=FilePath("hub:o/n/a.txt")),
        Nsp(path=(FilePath("hub:o/n/a.txt"), "hub:o/n")),
    ],
    ids=repr,
)
def test_a_source_of_the_hub_is_fetched_and_has_no_problem_before(source):
    assert list(source.check()) == []
    assert source.fetches


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"path": "/no/such/file.csv"}, "`/no/such/file.csv` does not exist"),
        ({"path": "/no/such/file.xlsx"}, "has the suffix '.xlsx'"),
        ({"path": "/no/such/file.txt"}, "has the suffix '.txt'"),
        ({"path": ()}, "`path` is empty"),
        ({"path": "hub:"}, "names no data set"),
        ({"path": "hub:o/n/a.txt"}, "has the suffix '.txt'"),
        ({"path": "hub:/no/such/directory"}, "does not exist"),
        ({"path": "pkg:sentbed_data/sample"}, "has the suffix ''"),
        ({"encoding": "klingon"}, "reads no text"),
        ({"anchor": "sent"}, "no column `sent`, expected one"),
        ({"header": False}, "is no position"),
        ({"config": "a"}, "remove `config`"),
        ({"split": "test"}, "remove `split`"),
        ({"revision": "a"}, "remove `revision`"),
        ({"path": "hub:some/set", "header": False}, "remove `header`"),
        ({"path": "hub:some/set", "separator": "|"}, "remove `separator`"),
        ({"path": "hub:some/set", "encoding": "latin-1"}, "remove `encoding`"),
        ({"path": "hub:some/set", "stream": True}, "remove `stream`"),
    ],
)
def test_a_problem_shows_before_the_data_is_read(file, settings, message):
    (problem,) = Triplets(**{"path": file, **settings}).check()
    assert message in problem


def test_a_sound_file_has_no_problem_and_is_not_fetched(file):
    source = Triplets(path=file, encoding="latin-1", limit=1)
    assert list(source.check()) == []
    assert not source.fetches
    positions = {"anchor": "0", "positive": "1", "negative": "2", "header": False}
    assert len(Triplets(path=file, **positions).open()) == 2


def test_a_row_with_a_tab_too_many_is_refused_without_a_header_too(put):
    columns = {"anchor": "0", "positive": "1", "header": False}
    source = Pairs(path=put("a.tsv", "a\tb\nc\td\te\n"), **columns)
    with pytest.raises(DataError, match=r"3 field\(s\); expected 2.*a\.tsv:2$"):
        source.open()


def test_check_reads_no_more_than_the_first_row(put):
    source = Pairs(path=put("a.tsv", "anchor\tpositive\nx\ty\nonly one field\n"))
    assert list(source.check()) == []
    assert len(Pairs(path=source.path, limit=1).open()) == 1
    with pytest.raises(DataError, match="1 field"):
        source.open()


@pytest.mark.parametrize(
    ("anchor", "message"),
    [
        ("null", "found None"),
        ('" "', "the text is empty"),
        ("3", r"found 3 \(int\)"),
    ],
)
def test_what_is_no_text_is_refused_with_its_row(put, anchor, message):
    good = '{"anchor": "a", "positive": "b"}\n'
    path = put("a.jsonl", good + good.replace('"a"', anchor))
    with pytest.raises(DataError, match=rf"`anchor`: {message}.*a\.jsonl:2$"):
        Pairs(path=path).open()


def test_several_files_are_read_in_order(put):
    first = put("a.csv", "anchor,positive\na,b\n")
    second = put("b.jsonl", '{"positive": "d", "anchor": "c"}\n')
    table = Pairs(path=(first, second)).open()
    assert table.rows([0, 1]) == {"anchor": ["a", "c"], "positive": ["b", "d"]}


def test_an_option_for_one_of_several_locations_has_an_effect(put):
    path = put("a.csv", "1,2\n")
    columns = {"anchor": "0", "positive": "1", "header": False}
    source = Pairs(path=(path, "hub:some/set"), split="dev", **columns)
    assert list(source.check()) == []
    (problem,) = attrs.evolve(source, stream=True).check()
    assert "remove `stream`" in problem


def test_a_known_file_may_stand_beside_others(put, tmp_path, monkeypatch):
    monkeypatch.setenv("SENTBED_DATA", str(tmp_path))
    put("nli_for_simcse.csv", "sent0,sent1,hard_neg\n1,2,3\n")
    second = put("b.csv", "sent0,sent1,hard_neg\n4,5,6\n")
    nli = "data:nli_for_simcse.csv"
    assert len(Triplets(path=(nli, second)).open()) == 2
    with pytest.raises(DataError, match="expected the 275,601"):
        Triplets(path=nli).open()


@pytest.mark.parametrize("wrong", [{"limit": 0}, {"separator": ""}], ids=repr)
def test_a_field_out_of_range_is_refused(file, wrong):
    (name,) = wrong
    with pytest.raises(ValueError, match=name):
        Triplets(path=file, **wrong)
