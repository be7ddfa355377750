from __future__ import annotations

import attrs
import pytest
from sentbed import DataError
from sentbed.errors import RecipeError
from sentbed.tools import Document, structure
from sentbed_data.parallel import Parallel
from sentbed_data.streamed_table import StreamedTable

TATOEBA = 'Hi.\t嗨。\tCC-BY\n"So what?"\t那又怎样\u3002\tCC-BY\r\nRun.\t跑。\tCC-BY\n'


def test_lines_of_two_files_belong_together(put):
    source = Parallel(
        anchor=put("a.zh", "\ufeff一\n二\u2028二\n三".encode()),
        positive=put("b.en", "one\r\ntwo\nthree\n"),
    )
    table = source.open()
    assert table.rows([0, 1, 2]) == {
        "anchor": ["一", "二\u2028二", "三"],
        "positive": ["one", "two", "three"],
    }
    assert source.columns == table.columns == ("anchor", "positive")
    assert list(source.check()) == []
    assert (
        len(Parallel(anchor=source.anchor, positive=source.positive, limit=2).open())
        == 2
    )


def test_fields_of_a_line_belong_together(put):
    path = put("cmn.txt", TATOEBA)
    table = Parallel(path=path).open()
    assert table.data["anchor"] == ["Hi.", '"So what?"', "Run."]
    assert table.data["positive"] == ["嗨。", "那又怎样。", "跑。"]
    swapped = Parallel(path=path, fields=(1, 0), limit=1).open()
    assert swapped.rows([0]) == {"anchor": ["嗨。"], "positive": ["Hi."]}
    assert table.fingerprint != Parallel(path=path, fields=(1, 0)).open().fingerprint


@pytest.mark.parametrize("limit", [None, 1])
@pytest.mark.parametrize(
    ("anchors", "positives"), [("1\n2\n3\n", "1\n2\n"), ("1\n2\n", "1\n2\n3\n")]
)
def test_files_of_different_length_are_refused(put, anchors, positives, limit):
    source = Parallel(
        anchor=put("a.x", anchors), positive=put("b.y", positives), limit=limit
    )
    counts = rf"a\.x` has {len(anchors) // 2} lines and `.*b\.y` {len(positives) // 2};.*@ .*:2$"
    with pytest.raises(DataError, match=counts):
        source.open()


def test_an_empty_side_is_refused_or_left_out_with_its_partner(put):
    files = {
        "anchor": put("a.x", "1\n2\n\n4\n"),
        "positive": put("b.y", "1\n \n3\n4\n"),
    }
    with pytest.raises(DataError, match=r"empty.*skip_empty = true.*b\.y:2"):
        Parallel(**files).open()
    table = Parallel(**files, skip_empty=True).open()
    assert table.rows([0, 1]) == {"anchor": ["1", "4"], "positive": ["1", "4"]}
    assert table.left_out == {"lines with an empty side": 2}
    assert len(Parallel(**files, limit=1).open()) == 1
    tabs = put("c.tsv", "a\tb\n\tc\n")
    with pytest.raises(DataError, match=r"empty.*c\.tsv:2"):
        Parallel(path=tabs).open()
    with pytest.raises(DataError, match=r"no pair of texts.*d\.tsv"):
        Parallel(path=put("d.tsv", "\t\n"), skip_empty=True).open()
    table = Parallel(path=put("e.tsv", "1\t2\n\n3\t4\n"), skip_empty=True).open()
    assert table.data == {"anchor": ["1", "3"], "positive": ["2", "4"]}


@pytest.mark.parametrize("limit", [None, 2])
def test_streamed_pairs_are_those_in_memory_and_so_is_what_was_left_out(
    put, tmp_path, monkeypatch, limit
):
    monkeypatch.setenv("SENTBED_CACHE", str(tmp_path / "cache"))
    two = Parallel(
        anchor=put("a.zh", "一\n\n二\u2028二\n三\n四\n"),
        positive=put("b.en", "one\r\ntwo\nthree\n \nfour\n"),
        skip_empty=True,
        limit=limit,
    )
    fields = Parallel(path=put("cmn.txt", TATOEBA), fields=(1, 0), limit=limit)
    for source in (two, fields):
        streamed = attrs.evolve(source, stream=True)
        assert list(streamed.check()) == []
        for _ in ("written", "found in the cache"):
            streamed_table, table = streamed.open(), source.open()
            assert isinstance(streamed_table, StreamedTable)
            assert streamed_table.rows(range(len(streamed_table))) == table.rows(
                range(len(table))
            )
            assert len(streamed_table) == len(table)
            assert list(streamed_table.texts(["positive"])) == list(
                table.texts(["positive"])
            )
            assert streamed_table.left_out == table.left_out
    assert two.open().left_out == {
        "lines with an empty side": 2 if limit is None else 1
    }
    assert len(list((tmp_path / "cache" / "texts").glob("*.arrow"))) == 2
    swapped = attrs.evolve(fields, fields=(0, 1), stream=True).open()
    assert swapped.fingerprint != attrs.evolve(fields, stream=True).open().fingerprint


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"anchor": "1\n2\n", "positive": "1\n"}, r"has 2 lines and `.*` 1;"),
        ({"anchor": "1\n\n", "positive": "1\n2\n"}, r"empty.*skip_empty = true.*:2$"),
        ({"path": "a\tb\nc\n"}, r"1 field\(s\) between tabs.*:2$"),
        ({"path": "a\tb\n\n"}, r"empty.*skip_empty = true.*:2$"),
        ({"path": ""}, "no pair of texts"),
    ],
)
def test_what_is_refused_in_memory_is_refused_alike_on_disk_and_leaves_nothing(
    put,
    tmp_path,
    monkeypatch,
    files,
    message,
):
    monkeypatch.setenv("SENTBED_CACHE", str(tmp_path / "cache"))
    source = Parallel(
        **{name: put(f"{name}.txt", content) for name, content in files.items()}
    )
    messages = []
    for stream in (False, True):
        with pytest.raises(DataError, match=message) as refusal:
            attrs.evolve(source, stream=stream).open()
        messages.append(str(refusal.value))
    assert messages[0] == messages[1]
    assert list((tmp_path / "cache" / "texts").iterdir()) == []


def test_a_file_of_a_pair_that_changes_while_it_is_read_is_refused(
    put, tmp_path, monkeypatch
):
    monkeypatch.setenv("SENTBED_CACHE", str(tmp_path / "cache"))
    source = Parallel(
        anchor=put("a.x", "1\n2\n"), positive=put("b.y", "1\n2\n"), stream=True
    )
    pairs = Parallel._pairs

    def changing(self, *arguments):
        yield from pairs(self, *arguments)
        put("b.y", "2\n1\n")

    monkeypatch.setattr(Parallel, "_pairs", changing)
    with pytest.raises(DataError, match=r"changed while it was read.*b\.y"):
        source.open()


@pytest.mark.parametrize("stream", [False, True])
def test_half_of_a_surrogate_pair_is_refused(put, tmp_path, monkeypatch, stream):
    monkeypatch.setenv("SENTBED_CACHE", str(tmp_path / "cache"))
    path = put("a.tsv", "a\tb\n+2AA-\tb\n")
    with pytest.raises(DataError, match=r"surrogate.*a\.tsv:2"):
        Parallel(path=path, encoding="utf-7", stream=stream).open()


def test_a_line_of_another_width_is_refused(put):
    with pytest.raises(
        DataError, match=r"2 field\(s\) between tabs; expected 3.*a\.tsv:2"
    ):
        Parallel(path=put("a.tsv", "a\tb\tc\nd\te\n")).open()
    with pytest.raises(
        DataError, match=r"2 field\(s\) between tabs; expected 4.*b\.tsv:1"
    ):
        Parallel(path=put("b.tsv", "a\tb\n"), fields=(3, 0)).open()
    with pytest.raises(
        DataError, match=r"1 field\(s\) between tabs; expected 2.*c\.tsv:1"
    ):
        Parallel(path=put("c.tsv", "a\n")).open()
    with pytest.raises(DataError, match=r"no pair of texts.*d\.tsv"):
        Parallel(path=put("d.tsv", "")).open()


def test_what_excludes_each_other_is_refused(put, tmp_path):
    path = put("a.tsv", "a\tb\n")
    faults = {
        "found `anchor`; give two files": Parallel(anchor=path),
        "found `anchor`, `positive`, `path`; give": Parallel(
            anchor=path, positive=path, path=path
        ),
        "found no file; give": Parallel(),
        "does not exist": Parallel(anchor=path, positive=str(tmp_path / "none")),
        "this is a directory": Parallel(path=str(tmp_path)),
        "remove `fields`": Parallel(anchor=path, positive=path, fields=(1, 0)),
    }
    for message, source in faults.items():
        assert [message in problem for problem in source.check()] == [True], message
    with pytest.raises(DataError, match="give two files"):
        Parallel(anchor=path).open()


@pytest.mark.parametrize("fields", [[0, 0], [-1, 0]])
def test_fields_are_two_different_numbers(fields, tmp_path):
    document = Document.of({"path": "a.tsv", "fields": fields})
    with pytest.raises(RecipeError, match="two different numbers"):
        structure(document, Parallel, None, tmp_path)


def test_the_captions_and_tatoeba_have_their_published_sizes(
    real,
):
    train = Parallel(
        anchor=real("enzh/3am.train.zh"), positive=real("enzh/3am.train.en")
    ).open()
    assert len(train) == 23931
    assert (
        len(
            Parallel(
                anchor=real("enzh/3am.val.zh"), positive=real("enzh/3am.val.en")
            ).open()
        )
        == 1000
    )
    tatoeba = Parallel(path=real("enzh/tatoeba_cmn.txt")).open()
    assert len(tatoeba) == 29155
    assert tatoeba.rows([0]) == {"anchor": ["Hi."], "positive": ["嗨。"]}
    with pytest.raises(DataError, match=r"has 23931 lines and `.*` 1000;"):
        Parallel(
            anchor=real("enzh/3am.train.zh"), positive=real("enzh/3am.val.en")
        ).open()
