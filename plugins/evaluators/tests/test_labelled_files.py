"""The files of the suites of classifiers: as SentEval and GLUE read them, and what is done with bad ones."""

from __future__ import annotations

import pytest
from sentbed import DataError
from sentbed_evaluators import probing_files
from sentbed_evaluators.glue_files import CLASSIFIED, find_files, read_sts_b
from sentbed_evaluators.probing import SentEvalProbing
from sentbed_evaluators.sentglue import SentGLUE
from sentbed_evaluators.transfer import SentEvalTransfer, read_tasks


def splits_of(directory, task):
    """The sides and labels of each split of a transfer task."""
    (read,) = read_tasks([task], str(directory), check_sizes=False)
    return {
        name: (split.sides, list(split.labels)) for name, split in read.splits.items()
    }


def test_examples_are_sorted_by_words_then_class(write, tmp_path):
    write("MR/rt-polarity.pos", "one two three\nb\n")
    write("MR/rt-polarity.neg", "\nc\nfour five\n")

    sides = (("", "c", "b", "four five", "one two three"),)
    assert splits_of(tmp_path, "MR") == {"all": (sides, [0, 0, 1, 0, 1])}


def test_pairs_are_sorted_by_the_words_of_both(write, tmp_path):
    rows = ["1\t1\t2\ta b\tc d", "0\t1\t2\ta b\tc", "1\t1\t2\ta\tc d e"]
    header = "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String"
    for name in ("train", "test"):
        write(f"MRPC/msr_paraphrase_{name}.txt", "\n".join([header, *rows, ""]))

    sides = (("a", "a b", "a b"), ("c d e", "c", "c d"))
    assert splits_of(tmp_path, "MRPC")["train"] == (sides, [1, 0, 1])


def test_latin_1_is_read_and_0x85_ends_no_line(write, tmp_path):
    write("MR/rt-polarity.pos", b"caf\xe9 na\xefve\x85 fin\n")
    write("MR/rt-polarity.neg", b"a\n")

    assert splits_of(tmp_path, "MR")["all"][0] == (("a", "café naïve fin"),)


def test_trec_takes_the_coarse_label(write, tmp_path):
    write("TREC/train_5500.label", "NUM:dist How far : really ?\nABBR:exp What ?\n")
    write("TREC/TREC_10.label", "HUM:ind Who ?\n")

    splits = splits_of(tmp_path, "TREC")
    assert splits["train"] == ((("What ?", "How far : really ?"),), [0, 5])
    assert splits["test"][1] == [3]


# Probing


def probed_splits(write, content, check_sizes=False):
    file, _ = probing_files.TASKS["Depth"]
    directory = write(f"probing/{file}", content).parent
    files = probing_files.find_files(str(directory))
    task = probing_files.read_task(files, "Depth", check_sizes)
    return {
        name: (split.sides[0], list(split.labels))
        for name, split in task.splits.items()
    }


def test_rows_of_probing_are_sorted_by_words_then_class_then_place(write):
    content = (
        "tr\tNNS\tthree words here\n"
        "te\tNN\tlast  one \n"
        "tr\tNN\tanother  long\u00a0sentence\n"
        "tr\tNNS\tsource 7\tshort\n"
        "va\tNNS\tb\n"
        "tr\tNN\tbrief\n"
        "va\tNN\ta\n"
        "tr\tNN\tterse\n"
    )
    train = ("brief", "terse", "short", "another long sentence", "three words here")
    assert probed_splits(write, content) == {
        "train": (train, [0, 0, 1, 0, 1]),
        "dev": (("a", "b"), [0, 1]),
        "test": (("last one",), [0]),
    }


def test_labels_of_probing_are_numbered_in_the_order_of_their_characters(write):
    rows = [f"tr\t{label}\tw\n" for label in ("9", "10", "5", "Z", "a", "11")]
    splits = probed_splits(write, "".join(rows) + "va\t9\tw\nte\t10\tw\n")
    # "10" < "11" < "5" < "9" < "Z" < "a"
    assert (splits["dev"][1], splits["test"][1]) == ([3], [0])


def sized(train, development, test):
    """Rows of probing with these numbers in each part, of two labels."""
    lines = []
    for part, count in (("tr", train), ("va", development), ("te", test)):
        for i in range(count):
            lines.append(f"{part}\t{'ab'[i % 2]}\tw {i}\n")
    return "".join(lines)


def test_sizes_of_probing_are_checked_up_to_what_balancing_takes(write, monkeypatch):
    monkeypatch.setattr(probing_files, "SPLITS", {"tr": 100, "va": 50, "te": 50})
    monkeypatch.setitem(probing_files.TASKS, "Depth", ("tree_depth.txt", 2))
    splits = probed_splits(write, sized(102, 52, 44), True)
    assert len(splits["train"][1]) == 102
    message = r"found 39 rows of `te`, expected 50; .*senteval-probing` .*`check_sizes"
    with pytest.raises(DataError, match=message):
        probed_splits(write, sized(102, 52, 39), True)

    other = sized(102, 52, 44).replace("tr\tb\tw 1\n", "tr\tA\tw 1\n")
    with pytest.raises(DataError, match="found 3 labels, expected 2; "):
        probed_splits(write, other, True)


# GLUE


def glue_rows(directory, name, split="dev"):
    return CLASSIFIED[name].read(find_files(str(directory)), split, check_sizes=False)


@pytest.mark.parametrize("name", CLASSIFIED)
def test_real_files_of_glue_have_the_published_number_of_rows(real_data, name):
    files = find_files(str(real_data))
    if files.missing([name]):
        pytest.skip(f"the GLUE directory has no complete {name}")

    for split, path in zip(("train", "dev"), files[name], strict=True):
        rows = CLASSIFIED[name].read(files, split, check_sizes=True)
        lines = path.read_text("utf-8-sig").rstrip("\n").split("\n")
        if name != "CoLA":
            lines.pop(0)
        assert len(rows) == len(lines)
        assert {label for _, label in rows} == set(range(CLASSIFIED[name].classes))
        for sentences, _ in rows:
            assert all(text.strip() for text in sentences)


def test_real_rows_of_glue_are_what_the_files_show(real_data):
    files = find_files(str(real_data))
    cola = CLASSIFIED["CoLA"].read(files, "dev", check_sizes=True)
    assert cola[0] == (("The sailors rode the breeze clear of the rocks.",), 1)
    (_, hypothesis), label = CLASSIFIED["RTE"].read(files, "dev", True)[0]
    assert (hypothesis, label) == ("Christopher Reeve had an accident.", 1)
    sts = read_sts_b(files, "dev", check_sizes=True)
    assert sts.texts[0] == (
        "A man with a hard hat is dancing.",
        "A man wearing a hard hat is dancing.",
    )
    assert sts.scores[:2] == (5.0, 4.75)


def test_columns_are_found_by_name_behind_a_byte_order_mark(write, tmp_path):
    lines = [
        "\ufeff#2 String\tQuality\t#1 ID\t#1 String\r",
        'b " b\t1\t7\t"a\x85a\r',
        "d\t0\t8\tc \r",
    ]
    write("MRPC/dev.tsv", "\n".join(lines))
    rows = glue_rows(tmp_path, "MRPC")
    assert rows == [(('"a\x85a', 'b " b'), 1), (("c ", "d"), 0)]


def test_cola_has_no_header_and_its_label_in_the_second_field(write, tmp_path):
    write("CoLA/dev.tsv", "gj04\t1\t\tfine one\nw_80\t0\t*\tbad the\n")
    assert glue_rows(tmp_path, "CoLA") == [(("fine one",), 1), (("bad the",), 0)]


def test_the_two_sets_of_mnli_have_their_own_file_and_the_gold_label(write, tmp_path):
    for name in ("matched", "mismatched"):
        row = f"entailment\th\tneutral\tp {name}\n"
        header = "label1\tsentence2\tgold_label\tsentence1\n"
        write(f"MNLI/dev_{name}.tsv", header + row)
    assert glue_rows(tmp_path, "MNLI-m") == [(("p matched", "h"), 2)]
    assert glue_rows(tmp_path, "MNLI-mm") == [(("p mismatched", "h"), 2)]


QQP = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"


def test_broken_rows_of_qqp_are_left_out(write, tmp_path):
    broken = "4\t5\t6\tc?\td\n\nd?\t0\n"
    content = f"{QQP}1\t2\t3\ta?\tb?\t1\n{broken}7\t8\t9\te?\tf?\t0\n"
    write("QQP/dev.tsv", content)
    assert glue_rows(tmp_path, "QQP") == [(("a?", "b?"), 1), (("e?", "f?"), 0)]


# Damaged files

PROBING = "tr\tb\tone two\ntr\ta\tone\nva\tb\tx\nte\ta\ty\n"
NOT_UTF_8 = "a\t1\t\tb\na\t1\t\tcaf\udce9\n"
DAMAGED = [
    # suite, task, file, content, message
    (
        "MR",
        "MR/rt-polarity.pos",
        "",
        "task `MR`: .* are of 1 class, expected two",
    ),
    (
        "TREC",
        "TREC/train_5500.label",
        "NUM:dist How\nBIRD:x Who\n",
        "'BIRD'.*label:2$",
    ),
    (
        "TREC",
        "TREC/train_5500.label",
        "NUM:dist\n",
        "`LABEL:fine question`.*label:1$",
    ),
    (
        "TREC",
        "TREC/train_5500.label",
        "NUM:a b\nNUM:c d\n",
        "`TREC`: .* of 1 class",
    ),
    (
        "SST2",
        "SST/binary/sentiment-dev",
        "good\t1\nbad\t2\n",
        "is '2', but.*dev:2$",
    ),
    (
        "SST2",
        "SST/binary/sentiment-dev",
        "good 1\n",
        "label is ''.*dev:1$",
    ),
    (
        "SST2",
        "SST/binary/sentiment-dev",
        "",
        "found 0 rows of `dev`.*senteval`.*dev$",
    ),
    (
        "SST5",
        "SST/fine/sentiment-dev",
        "7 good\n",
        "label is '7', but.*dev:1$",
    ),
    (
        "MRPC",
        "MRPC/msr_paraphrase_test.txt",
        "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t2\t3\ttext\n",
        r"4 field\(s\); expected 5.*txt:2$",
    ),
    (
        "MRPC",
        "MRPC/msr_paraphrase_test.txt",
        "head\n",
        "no column `#1 String`.*:1$",
    ),
    (
        "Depth",
        "tree_depth.txt",
        PROBING + "dev\ta\tx\n",
        "first 'dev', but.*:5$",
    ),
    (
        "Depth",
        "tree_depth.txt",
        PROBING + "te\ta\t\n",
        "2 fields, the first 'te'.*:5$",
    ),
    (
        "Depth",
        "tree_depth.txt",
        "\n" + PROBING,
        "1 fields, the first ''.*:1$",
    ),
    (
        "Depth",
        "tree_depth.txt",
        PROBING + "te\tc\tx\n",
        "'c' is in no row.*:5$",
    ),
    (
        "Depth",
        "tree_depth.txt",
        PROBING.replace("\tb\t", "\ta\t"),
        "of 1 class",
    ),
    (
        "Depth",
        "tree_depth.txt",
        PROBING.replace("va", "te"),
        "found 0 rows of `va`",
    ),
    (
        "Depth",
        "tree_depth.txt",
        "",
        r"found 0 rows of `tr`.*tree_depth\.txt$",
    ),
    (
        "Depth",
        "tree_depth.txt",
        PROBING + "te\ta\tcaf\udce9\n",
        "byte 0xe9.*:5$",
    ),
    (
        "QQP",
        "QQP/dev.tsv",
        QQP + "1\t2\t3\ta\tb\t2\n",
        r"label is '2', but.*tsv:2$",
    ),
    (
        "QQP",
        "QQP/dev.tsv",
        QQP + "1\t2\t3\ta\tb\t1\tx\n",
        r"7 field\(s\).*tsv:2$",
    ),
    (
        "RTE",
        "RTE/dev.tsv",
        "sentence1\tsentence2\tlabel\na\tb\t\n",
        "label is ''.*:2$",
    ),
    (
        "SST-2",
        "SST-2/dev.tsv",
        "sentence\tlabel\na\t1\nb\n",
        r"1 field\(s\).*:3$",
    ),
    (
        "SST-2",
        "SST-2/dev.tsv",
        "sentense\tlabel\na\t1\n",
        "Did you mean `sentense`",
    ),
    (
        "SST-2",
        "SST-2/dev.tsv",
        "sentence\tlabel\tlabel\na\t1\t1\n",
        "2 column `label`",
    ),
    (
        "SST-2",
        "SST-2/dev.tsv",
        "sentence\tlabel\n",
        r"there are no rows.*dev\.tsv$",
    ),
    (
        "SST-2",
        "SST-2/dev.tsv",
        "",
        r"no column `sentence`.*dev\.tsv:1$",
    ),
    (
        "CoLA",
        "CoLA/dev.tsv",
        "",
        r"there are no rows.*dev\.tsv$",
    ),
    (
        "CoLA",
        "CoLA/dev.tsv",
        NOT_UTF_8,
        r"byte 0xe9.*dev\.tsv:2$",
    ),
    (
        "STS-B",
        "STS-B/dev.tsv",
        "sentence1\tsentence2\tscore\na\tb\t5.2\n",
        r"`score`: found '5\.2'.*dev\.tsv:2$",
    ),
]


@pytest.mark.parametrize(("task", "file", "content", "message"), DAMAGED)
def test_a_damaged_file_is_named_with_its_line(
    task, file, content, message, downstream, probing_data, glue_data
):
    for suite, directory in (
        (SentEvalTransfer, downstream),
        (SentEvalProbing, probing_data),
        (SentGLUE, glue_data),
    ):
        if task in suite.choices and (directory / file).is_file():
            (directory / file).write_bytes(content.encode("utf-8", "surrogateescape"))
            evaluator = suite((task,), data_dir=str(directory), check_sizes=False)
            with pytest.raises(DataError, match=message):
                evaluator.prepare()
            return
    pytest.fail(f"no suite reads {file}")
