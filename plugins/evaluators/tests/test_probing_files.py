from __future__ import annotations

import pytest
from sentbed import DataError
from sentbed_evaluators import probing_files
from sentbed_evaluators.probing_files import read_task

ROWS = "tr\tb\tone two\ntr\ta\tone\nva\tb\tx\nte\ta\ty\n"


def test_rows_are_sorted_by_words_then_class_then_place(write):
    file = write(
        "x.txt",
        "tr\tNNS\tthree words here\n"
        "te\tNN\tlast  one \n"
        "tr\tNN\tanother  long\u00a0sentence\n"
        "tr\tNNS\tshort\n"
        "va\tNNS\tb\n"
        "tr\tNN\tbrief\n"
        "va\tNN\ta\n"
        "tr\tNN\tterse\n",
    )

    train, development, test = read_task(file, None)
    assert train.texts == (
        "brief",
        "terse",
        "short",
        "another long sentence",
        "three words here",
    )

    assert train.labels.tolist() == [0, 0, 1, 0, 1]
    assert (development.texts, development.labels.tolist()) == (("a", "b"), [0, 1])
    assert (test.texts, test.labels.tolist()) == (("last one",), [0])


def test_labels_are_numbered_in_the_order_of_their_characters(write):
    rows = [f"tr\t{label}\tw\n" for label in ("9", "10", "5", "Z", "a", "11")]
    train, *_ = read_task(write("x.txt", "".join(rows) + "va\t9\tw\nte\t10\tw\n"), None)
    assert train.labels.tolist() == list(range(6))
    _, development, test = read_task(
        write("x.txt", "".join(rows) + "va\t9\tw\nte\t10\tw\n"), None
    )
    # "10" < "11" < "5" < "9" < "Z" < "a"
    assert (development.labels.tolist(), test.labels.tolist()) == ([3], [0])


def test_the_sentence_is_the_last_field(write):
    train, *_ = read_task(
        write("x.txt", ROWS.replace("tr\tb\t", "tr\tb\tsource 7\t")), None
    )

    assert train.texts == ("one", "one two")


BROKEN = {
    "other part": (
        ROWS + "dev\ta\tx\n",
        r"3 fields, the first 'dev', but `tr`, `va` or `te`.*x\.txt:5$",
    ),
    "no sentence": (ROWS + "te\ta\t\n", r"2 fields, the first 'te'.*x\.txt:5$"),
    "empty line": ("\n" + ROWS, r"1 fields, the first ''.*x\.txt:1$"),
    "label of no training row": (
        ROWS + "te\tc\tx\n",
        r"label 'c' is in no row of `tr`.*x\.txt:5$",
    ),
    "one label": (
        ROWS.replace("tr\tb", "tr\ta"),
        r"all rows of `tr` have the label 'a'.*x\.txt$",
    ),
    "no development": (ROWS.replace("va\t", "te\t"), r"found 0 rows of `va`.*x\.txt$"),
    "empty": ("", r"found 0 rows of `tr`.*x\.txt$"),
    "not UTF-8": (ROWS + "te\ta\tcaf\udce9\n", r"byte 0xe9.*x\.txt:5$"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_file_is_named_with_its_line(write, case):
    content, message = BROKEN[case]
    file = write("x.txt", content.encode("utf-8", "surrogateescape"))
    with pytest.raises(DataError, match=message):
        read_task(file, None)


def sized(train, development, test):
    parts = (("tr", train), ("va", development), ("te", test))
    return "".join(
        f"{part}\t{'ab'[i % 2]}\tw {i}\n" for part, count in parts for i in range(count)
    )


def test_sentevals_sizes_are_checked_up_to_what_balancing_takes(write, monkeypatch):
    monkeypatch.setattr(probing_files, "SPLITS", {"tr": 100, "va": 50, "te": 50})
    train, *_ = read_task(write("x.txt", sized(102, 52, 44)), 2)
    assert len(train.texts) == 102
    message = r"found 39 rows of `te`, but SentEval's file has about 50; .*senteval-probing`, or set `check_sizes"
    with pytest.raises(DataError, match=message):
        read_task(write("x.txt", sized(102, 52, 39)), 2)

    message = r"found 3 labels, but SentEval's file has 2; the rarest, 'A', is first here; .*x\.txt:2$"
    with pytest.raises(DataError, match=message):
        read_task(
            write("x.txt", sized(102, 52, 44).replace("tr\tb\tw 1\n", "tr\tA\tw 1\n")),
            2,
        )
