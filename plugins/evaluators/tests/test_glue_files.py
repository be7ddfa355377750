from __future__ import annotations

import pytest
from sentbed import DataError
from sentbed_evaluators.glue_files import TASKS, find_files, read_rows


@pytest.mark.parametrize("name", TASKS)
def test_real_files_have_the_published_number_of_rows(real_data, name):
    files = find_files(str(real_data))
    if files.missing([name]):
        pytest.skip(f"the GLUE directory has no complete {name}")

    root, splits = files.root, ("train", "dev")
    for split in splits[-len(files[name]) :]:
        rows = read_rows(root, name, split, check_size=True)
        assert len(rows) in {size[split == "dev"] for size in TASKS[name].sizes}
        content = (root / TASKS[name].path(split)).read_text("utf-8-sig")
        assert len(rows) == len(content.rstrip("\n").split("\n")) - TASKS[name].header
        assert all(text.strip() for side in rows.sides for text in side)
        assert set(rows.labels) == set(range(len(TASKS[name].classes)))


def test_real_rows_are_what_the_files_show(real_data):
    root = find_files(str(real_data)).root
    cola = read_rows(root, "CoLA", "dev", check_size=True)
    assert (cola.sides[0][0], cola.labels[0]) == (
        "The sailors rode the breeze clear of the rocks.",
        1,
    )

    rte = read_rows(root, "RTE", "dev", check_size=True)
    assert rte.sides[1][0] == "Christopher Reeve had an accident."
    assert TASKS["RTE"].classes[rte.labels[0]] == "not_entailment"
    sts = read_rows(root, "STS-B", "dev", check_size=True)
    assert [side[0] for side in sts.sides] == [
        "A man with a hard hat is dancing.",
        "A man wearing a hard hat is dancing.",
    ]

    assert sts.scores[:2] == (5.0, 4.75)


def test_a_regression_needs_the_training_rows_of_sts_b(write, tmp_path):
    write("STS-B/dev.tsv", "")
    assert find_files(str(tmp_path)).missing(["STS-B"]) == {}
    (message,) = find_files(str(tmp_path), True).missing(["STS-B"]).values()
    assert message.startswith("task `STS-B` needs `STS-B/train.tsv`, missing in")


def test_columns_are_found_by_name_behind_a_byte_order_mark(write, tmp_path):
    lines = [
        "\ufeff#2 String\tQuality\t#1 ID\t#1 String\r",
        'b " b\t1\t7\t"a\x85a\r',
        "d\t0\t8\tc \r",
    ]

    write("MRPC/dev.tsv", "\n".join(lines))
    rows = read_rows(tmp_path, "MRPC", "dev", check_size=False)
    assert rows.sides == (('"a\x85a', "c "), ('b " b', "d"))
    assert rows.labels == (1, 0)


def test_cola_has_no_header_and_its_label_in_the_second_field(write, tmp_path):
    write("CoLA/train.tsv", "gj04\t1\t\tfine one\nw_80\t0\t*\tbad the\n")
    rows = read_rows(tmp_path, "CoLA", "train", check_size=False)
    assert (rows.sides, rows.labels) == ((("fine one", "bad the"),), (1, 0))


@pytest.mark.parametrize(
    ("name", "file", "header"),
    [
        (
            "MNLI-m",
            "dev_matched.tsv",
            "index\tgenre\tsentence1_parse\tsentence1\tsentence2\tlabel1\tgold_label",
        ),
        (
            "MNLI-mm",
            "dev_mismatched.tsv",
            "gold_label\tsentence2\tx\ty\tsentence1\tlabel1\tindex",
        ),
    ],
)
def test_the_two_sets_of_mnli_have_their_own_file(write, tmp_path, name, file, header):
    row = {
        "sentence1": "p",
        "sentence2": "h",
        "gold_label": "neutral",
        "label1": "entailment",
    }

    write(
        f"MNLI/{file}",
        header
        + "\n"
        + "\t".join(row.get(column, "-") for column in header.split("\t"))
        + "\n",
    )

    rows = read_rows(tmp_path, name, "dev", check_size=False)
    assert rows.sides == (("p",), ("h",))
    assert TASKS[name].classes[rows.labels[0]] == "neutral"


QQP = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"


def test_broken_rows_of_qqp_are_left_out_and_counted(write, tmp_path):
    write(
        "QQP/train.tsv",
        QQP + "1\t2\t3\ta?\tb?\t1\n4\t5\t6\tc?\td\nd?\t0\n7\t8\t9\te?\tf?\t0\n",
    )

    rows = read_rows(tmp_path, "QQP", "train", check_size=False)
    assert rows.sides == (("a?", "e?"), ("b?", "f?"))
    assert (rows.labels, rows.skipped) == ((1, 0), 2)


BROKEN = {
    "label outside": (
        "QQP",
        QQP + "1\t2\t3\ta\tb\t2\n",
        r"label is '2', but one of `0`, `1` .*dev\.tsv:2$",
    ),
    "too many fields": (
        "QQP",
        QQP + "1\t2\t3\ta\tb\t1\tx\n",
        r"row has 7 fields, but 6 .*dev\.tsv:2$",
    ),
    "empty label": (
        "RTE",
        "index\tsentence1\tsentence2\tlabel\n0\ta\tb\t\n",
        r"label is '', .*:2$",
    ),
    "too few fields": (
        "SST-2",
        "sentence\tlabel\na\t1\nb\n",
        r"row has 1 fields, but 2 .*dev\.tsv:3$",
    ),
    "no such column": (
        "SST-2",
        "sentense\tlabel\na\t1\n",
        r"no column `sentence`.*Did you mean `sentense`.*:1$",
    ),
    "column twice": (
        "SST-2",
        "sentence\tlabel\tlabel\na\t1\t1\n",
        r"2 column `label`.*:1$",
    ),
    "score outside": (
        "STS-B",
        "sentence1\tsentence2\tscore\na\tb\t5.2\n",
        r"`score`: found '5\.2'.*dev\.tsv:2$",
    ),
    "no rows": ("SST-2", "sentence\tlabel\n", r"found 0 rows, .* has 872; .*dev\.tsv$"),
    "empty file": (
        "SST-2",
        "",
        r"the file or its first line is empty, .*names of the columns were expected.*` @ .*dev\.tsv$",
    ),
    "empty header": (
        "SST-2",
        "\nsentence\tlabel\n",
        r"the file or its first line is empty, .*` @ .*dev\.tsv$",
    ),
    "empty file without header": ("CoLA", "", r"found 0 rows, .* has 1,043"),
    "not UTF-8": (
        "CoLA",
        "a\t1\t\tb\na\t1\t\tcaf\udce9\n",
        r"byte 0xe9 .* is not .*dev\.tsv:2$",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_file_is_named_with_its_line(write, tmp_path, case):
    name, content, message = BROKEN[case]
    write(f"{name}/dev.tsv", content.encode("utf-8", "surrogateescape"))
    with pytest.raises(DataError, match=message):
        read_rows(tmp_path, name, "dev", check_size=False)


def test_a_wrong_number_of_rows_says_where_the_right_file_is(write, tmp_path):
    write("QQP/train.tsv", QQP + "1\t2\t3\ta?\tb?\t1\n")
    with pytest.raises(
        DataError,
        match=r"found 1 rows, but GLUE's `QQP/train\.tsv` has 363,846 or 363,849; "
        r".*`sentbed data get glue`, or set `check_sizes = false`",
    ):
        read_rows(tmp_path, "QQP", "train", check_size=True)
