from __future__ import annotations

import pytest
from sentbed import DataError
from sentbed_data.parallel import Parallel


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
    blank = put("c.x", " \n")
    with pytest.raises(DataError, match=r"no pair of texts.*c\.x"):
        Parallel(anchor=blank, positive=blank, skip_empty=True).open()


def test_a_file_that_does_not_exist_is_a_problem(put, tmp_path):
    file = put("a.x", "1\n")
    (problem,) = Parallel(anchor=file, positive=str(tmp_path / "none")).check()
    assert "does not exist" in problem


def test_the_captions_have_their_published_sizes(real):
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

    with pytest.raises(DataError, match="has 1000 lines, and"):
        Parallel(
            anchor=real("enzh/3am.train.zh"), positive=real("enzh/3am.val.en")
        ).open()
