from __future__ import annotations

import pytest
from sentbed import DataError
from sentbed.errors import RecipeError
from sentbed.tools import Document, structure
from sentbed_data.parallel import Parallel

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

    counts = r"the file has 2 lines, and `.*` has more;.*@ .*:2$"
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
    blank = put("e.tsv", "a\tb\n\nc\td\n")
    assert len(Parallel(path=blank, skip_empty=True).open()) == 2
    tabs = put("c.tsv", "a\tb\n\tc\n")
    with pytest.raises(DataError, match=r"empty.*c\.tsv:2"):
        Parallel(path=tabs).open()

    with pytest.raises(DataError, match=r"no pair of texts.*d\.tsv"):
        Parallel(path=put("d.tsv", "\t\n"), skip_empty=True).open()


def test_a_line_without_a_field_is_refused(put):
    for path, fields in {"a.tsv": (0, 2), "b.tsv": (3, 0)}.items():
        with pytest.raises(DataError, match=rf"2 field\(s\); expected .*{path}:2"):
            Parallel(path=put(path, "a\tb\tc\td\nd\te\n"), fields=fields).open()

    # The second line has a tab within a text.
    with pytest.raises(DataError, match=r"3 field\(s\).*expected 2;.*c\.tsv:2"):
        Parallel(path=put("c.tsv", "a\tb\nc\td\te\n")).open()

    with pytest.raises(DataError, match=r"no pair of texts.*d\.tsv"):
        Parallel(path=put("d.tsv", "")).open()


def test_what_excludes_each_other_is_refused(put, tmp_path):
    path = put("a.tsv", "a\tb\n")
    faults = {
        "give two files": Parallel(anchor=path),
        "and not both": Parallel(anchor=path, positive=path, path=path),
        "or one file": Parallel(),
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
    with pytest.raises(DataError, match="has 1000 lines, and"):
        Parallel(
            anchor=real("enzh/3am.train.zh"), positive=real("enzh/3am.val.en")
        ).open()
