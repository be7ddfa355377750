from __future__ import annotations

import pytest
from sentbed import DataError
from sentbed_evaluators.sentbench_sets import readers
from sentbed_evaluators.sentbench_sets.rows import Choice, Labelled


def test_swag_gives_the_beginning_with_its_endings(sentbench_data):
    rows = list(readers.read_swag(sentbench_data / "swag" / "val.csv"))
    assert len(rows) == 12
    endings = [f'"val" 5, ending {i}' for i in range(4)]
    assert rows[5] == Choice(
        "val 5 runs. He", endings[1], (endings[0], endings[2], endings[3])
    )


def test_rocstories_joins_the_story_and_knows_the_right_ending(sentbench_data):
    (file,) = (sentbench_data / "rocstories").iterdir()
    rows = list(readers.read_rocstories(file))
    assert len(rows) == 20
    story = "Story 3, part 1. Story 3, part 2. Story 3, part 3. Story 3, part 4."
    assert rows[3] == Choice(story, "ending 3 right", ("ending 3 wrong",))
    assert {row.right.split()[-1] for row in rows} == {"right"}


def test_commonsenseqa_gives_the_answer_and_the_distractors(sentbench_data):
    rows = list(
        readers.read_commonsenseqa(
            sentbench_data / "commonsenseqa" / "dev_rand_split.jsonl"
        )
    )

    others = tuple(f"dev 6 answer {label}" for label in "ACDE")
    assert rows[6] == Choice("dev question 6?", "dev 6 answer B", others)


def test_styletransfer_lines_are_aligned(sentbench_data):
    rows = list(
        readers.read_styletransfer(
            sentbench_data / "styletransfer" / "valid.modern.nltktok"
        )
    )

    assert rows[2] == Choice("you valid 2 .", "thou valid 2 .")
    assert len(rows) == 8


def test_goemotions_rows_with_several_emotions_are_left_out(sentbench_data):
    rows = list(readers.read_goemotions(sentbench_data / "goemotions" / "dev.tsv"))
    assert len(rows) == 16
    assert Labelled('dev 7 "quoted"', 3) in rows
    assert Labelled("dev 6 of 2", 2) in rows


def test_dbpedia_in_its_native_form_gives_the_content(sentbench_data):
    rows = list(readers.read_dbpedia(sentbench_data / "dbpedia" / "test.csv"))
    assert rows[0] == Labelled(' The test "0", a thing of class 1', 1, "native")
    assert {row.label for row in rows} == set(range(1, 15))


def test_dbpedia_copies_without_titles_are_numberings_of_their_own(
    write,
):
    plain = write(
        "train_2.csv",
        "0,One sentence .\tAnother , with \x85 a comma missing .\n".replace(" ,", ""),
    )

    quoted = write("test_2.csv", '"14","One sentence. ""Another"", here"\n')
    first, second = (next(readers.read_dbpedia(file)) for file in (plain, quoted))
    assert first == Labelled(
        "One sentence .\tAnother with \x85 a comma missing .", 0, "train_2.csv"
    )

    assert second == Labelled('One sentence. "Another", here', 14, "test_2.csv")


HEADER = "startphrase,ending0,ending1,ending2,ending3,label\n"
STORY = ",".join(
    [
        *(f"InputSentence{i}" for i in range(1, 5)),
        *(f"RandomFifthSentenceQuiz{i}" for i in (1, 2)),
    ]
)


def question(text, answer=', "answerKey": "A"', times=1):
    """A line of CommonsenseQA with one choice, which may be repeated."""
    choices = ", ".join(times * [f'{{"label": "A", "text": {text}}}'])
    return f'{{"question": {{"choices": [{choices}], "stem": "q"}}{answer}}}\n'


DAMAGED = [
    ("swag", HEADER + "a,b,c,d,e,4\n", r"is '4', but one of `0`, `1`, .*:2$"),
    ("swag", HEADER + f"s,a,b,c,d,{'1' * 5000}\n", r"is '1{39}, but one of .*:2$"),
    ("swag", HEADER + "a,b,c,d,e,²\n", r"is '²', but one of.*:2$"),
    ("swag", HEADER.replace(",label", ""), r"no column `label`.*:1$"),
    ("swag", "", r"no column `startphrase`.*:1$"),
    ("swag", HEADER + "a,b\n", r"2 field\(s\); expected 6.*:2$"),
    ("swag", HEADER + 'a,"b"x,c,d,e,0\n', r"not valid CSV.*:2$"),
    (
        "rocstories",
        f"{STORY},AnswerRightEnding\na,b,c,d,e,f,0\n",
        r"is '0', but one of `1`, `2` .*:2$",
    ),
    ("goemotions", "text\t1,28\tid\n", r"is '28', but one of.*:1$"),
    ("goemotions", "broken\n", r"the row has 1 columns.*:1$"),
    ("dbpedia", '15,"t","c"\n', r"is '15', but one of.*:1$"),
    ("dbpedia", '0,"t","c"\n', r"is '0', but one of.*:1$"),
    ("dbpedia", '1,"t","c"\n1,"c"\n', r"the row has 2 columns.*:2$"),
    ("dbpedia", b'1,"t","c"\n2,"t","\xe9"\n', r"byte 0xe9 .* is not .*:2$"),
    ("commonsenseqa", "{\n", r"the line is not valid JSON.*:1$"),
    ("commonsenseqa", '["question"]\n', r"a JSON list; expected an object.*:1$"),
    ("commonsenseqa", '{"question": "q"}\n', r"no question of CommonsenseQA.*:1$"),
    ("commonsenseqa", question("1"), r"`question`: found 1 .*expected a text.*:1$"),
    ("commonsenseqa", question('"\\ud800"'), r"not valid JSON.*surrogates.*:1$"),
    ("commonsenseqa", question('"a"', times=2), r"have the same label.*:1$"),
    ("commonsenseqa", question('"a"', ""), r"its answer .*'answerKey'.*:1$"),
]


@pytest.mark.parametrize(("source", "content", "message"), DAMAGED)
def test_what_cannot_be_read_is_named_with_its_line(write, source, content, message):
    reader = getattr(readers, f"read_{source}")
    with pytest.raises(DataError, match=message):
        list(reader(write("file.csv", content)))


@pytest.mark.parametrize("short", ["modern", "original"])
def test_lines_that_are_not_aligned_are_an_error(write, short):
    for kind in ("modern", "original"):
        lines = "one\n" if kind == short else "one\ntwo\n"
        write(f"train.{kind}.nltktok", lines)

    path = write("other", "").with_name("train.modern.nltktok")
    with pytest.raises(
        DataError, match=rf"the file has 1 lines.*train\.{short}\.nltktok$"
    ):
        list(readers.read_styletransfer(path))


def test_a_byte_order_mark_and_dos_line_ends_are_no_text(write):
    rows = list(
        readers.read_goemotions(
            write("g.tsv", "\ufefffine\t1\tid\r\nbad\t2\tid\r\n".encode())
        )
    )

    assert rows == [Labelled("fine", 1), Labelled("bad", 2)]
