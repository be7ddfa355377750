from __future__ import annotations

from sentbed_data.pairs import Pairs


def test_pairs_rename_the_columns_of_the_file(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("label\tpremise\thypothesis\n1\ta\tb\n0\tc\td\n")
    source = Pairs(path=str(path), anchor="premise", positive="hypothesis")
    table = source.open()
    assert source.columns == table.columns == ("anchor", "positive")
    assert table.rows([1, 0]) == {"anchor": ["c", "a"], "positive": ["d", "b"]}


def test_pairs_read_their_own_names_by_default(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"positive": "b", "anchor": "a"}\n')
    assert Pairs(path=str(path)).open().rows([0]) == {
        "anchor": ["a"],
        "positive": ["b"],
    }


def test_the_pairs_of_tatoeba_have_their_published_number(real):
    source = Pairs(
        path=real("enzh/tatoeba_cmn.txt"),
        header=False,
        separator="\t",
        anchor="1",
        positive="0",
    )

    assert list(source.check()) == []
    pairs = source.open()
    assert len(pairs) == 29155
    assert pairs.rows([0]) == {"anchor": ["嗨。"], "positive": ["Hi."]}
