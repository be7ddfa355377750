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
    assert source.columns == table.columns == ("anchor", "positive")
    assert table.rows([0, 1]) == {"anchor": sentences, "positive": sentences}
    assert list(table.texts()) == sentences
    assert list(source.check()) == []
    assert len(Dropout(path=str(path), limit=1).open()) == 1


def test_one_column_of_a_table_is_read(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("id,text,title\n1,a,b\n2,c,d\n")
    assert list(Dropout(path=str(path)).open().texts()) == ["a", "c"]
    assert list(Dropout(path=str(path), column="title").open().texts()) == ["b", "d"]


def test_an_empty_text_of_a_table_is_refused(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("id,text\n1,a\n2,\n")
    with pytest.raises(DataError, match=r"column `text`: the text is empty.*a\.csv:3"):
        Dropout(path=str(path)).open()
