from __future__ import annotations

import pytest
from sentbed import DataError
from sentbed_data.dropout import Dropout


def test_anchor_and_positive_are_the_same_text(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text('One "sentence", quoted.\n\nTwo\twords.\n')
    source = Dropout(path=str(path))
    table = source.open()
    sentences = ['One "sentence", quoted.', "Two\twords."]
    assert source.columns == ("anchor", "positive")
    assert table.columns == ("anchor", "positive")
    assert table.rows([0, 1]) == {"anchor": sentences, "positive": sentences}
    assert list(table.texts()) == sentences
    assert list(source.check()) == []

    table = Dropout(path=str(path), limit=1).open()
    assert len(table) == 1


def test_one_column_of_a_table_is_read(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("id,text,title\n1,a,b\n2,c,d\n")
    table = Dropout(path=str(path)).open()
    assert list(table.texts()) == ["a", "c"]

    table = Dropout(path=str(path), column="title").open()
    assert list(table.texts()) == ["b", "d"]


def test_an_empty_text_of_a_table_is_refused(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("id,text\n1,a\n2,\n")
    source = Dropout(path=str(path))
    with pytest.raises(DataError, match=r"column `text`: the text is empty.*a\.csv:3"):
        source.open()
