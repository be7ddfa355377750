from __future__ import annotations

from sentbed_data.bundled_sample import Sample
from sentbed_data.for_teacher import ForTeacher
from sentbed_data.mix import Mix
from sentbed_data.scored import Scored


def test_each_text_is_there_once_more_and_numbers_are_not(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("sentence1\tsentence2\tscore\na\tb\t0.5\nc\td\t1\n")
    source = ForTeacher(source=Scored(path=str(path)))
    table = source.open()
    assert source.columns == table.columns
    assert source.numbers == {"score"}
    assert table.rows([1]) == {
        "anchor": ["c"],
        "positive": ["d"],
        "score": [1.0],
        "teacher_anchor": ["c"],
        "teacher_positive": ["d"],
    }

    assert list(table.texts(["teacher_anchor"])) == ["a", "c"]


def test_single_sentences_are_one_column_and_the_teachers():
    source = ForTeacher(source=Sample(), only=("anchor",))
    assert list(source.check()) == []
    assert source.columns == source.open().columns == ("anchor", "teacher_anchor")


def test_a_mix_is_sampled_as_it_says():
    mix = Mix(sources=(Sample(), Sample()))
    expected = mix.open().order((1, 0), 3).tolist()
    assert ForTeacher(source=mix).open().order((1, 0), 3).tolist() == expected


def test_an_unknown_column_and_a_teacher_of_a_teacher_are_problems():
    (problem,) = ForTeacher(source=Sample(), only=("anchr",)).check()
    assert "the source `sample` has anchor" in problem
    (problem,) = ForTeacher(source=ForTeacher(source=Sample())).check()
    assert "has the column `teacher_anchor` already" in problem
