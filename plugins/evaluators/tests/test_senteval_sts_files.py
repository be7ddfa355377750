from __future__ import annotations

import pytest
from sentbed import DataError
from sentbed_evaluators.senteval_sts_files import TASKS, find_files, read_task

SIZES = {
    "STS12": 3108,
    "STS13": 1500,
    "STS14": 3750,
    "STS15": 3000,
    "STS16": 1186,
    "STSB": 1379,
    "STSB-dev": 1500,
    "STSB-train": 5749,
    "SICKR": 4927,
    "SICKR-dev": 500,
    "SICKR-train": 4500,
    "SICKR-all": 9927,
}


@pytest.mark.parametrize("task", TASKS)
def test_real_files_have_the_published_number_of_pairs(real_data, task):
    files = find_files(str(real_data))
    if files.missing([task]):
        pytest.skip(f"the SentEval directory has no {task}")

    assert len(read_task(files, task).pairs) == SIZES[task]


def test_all_of_sick_is_train_then_trial_then_test(write, tmp_path):
    header = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"
    for i, name in enumerate(("train", "trial", "test_annotated")):
        write(f"SICK/SICK_{name}.txt", f"{header}{i}\t{name}\tb\t{i + 1}\tNEUTRAL\n")

    task, *parts = (
        read_task(find_files(str(tmp_path)), f"SICKR{end}", check_sizes=False)
        for end in ("-all", "", "-dev")
    )

    assert task.subsets[0].first == ("train", "trial", "test_annotated")
    assert task.subsets[0].scores == (1.0, 2.0, 3.0)
    assert task.split == "train+dev+test"
    assert len({task.data, *(part.data for part in parts)}) == 3


@pytest.mark.parametrize("task", [task for task in TASKS if task != "SICKR-all"])
def test_a_file_that_was_cut_is_refused_by_its_number_of_pairs(
    task, real_data, tmp_path
):
    files = find_files(str(real_data))
    if files.missing([task]):
        pytest.skip(f"the SentEval directory has no {task}")

    for file in files[task]:
        copied = tmp_path / file.relative_to(files.root)
        copied.parent.mkdir(parents=True, exist_ok=True)
        whole = file.read_bytes().splitlines(keepends=True)
        copied.write_bytes(b"".join(whole[:5]))

    with pytest.raises(
        DataError,
        match=rf"found [45] rows of `{task}`, expected .* downloads the file again",
    ):
        read_task(find_files(str(tmp_path)), task)

    read_task(find_files(str(tmp_path)), task, check_sizes=False)


def write_sts13(write, texts, gold):
    for name in ("FNWN", "headlines"):
        write(f"STS/STS13-en-test/STS.input.{name}.txt", "a\tb\n")
        write(f"STS/STS13-en-test/STS.gs.{name}.txt", "1\n")

    write("STS/STS13-en-test/STS.input.OnWN.txt", texts)
    write("STS/STS13-en-test/STS.gs.OnWN.txt", gold)


BROKEN = {
    "other number of lines": (
        "a\tb\nc\td\n",
        "1\n",
        r"1 lines of scores, but .* has 2 pairs.*gs\.OnWN\.txt$",
    ),
    "one sentence": (
        "a\tb\nc\n",
        "1\n2\n",
        r"1 sentence, but two.*input\.OnWN\.txt:2$",
    ),
    "score out of range": (
        "a\tb\nc\td\n",
        "1\n6\n",
        r"found '6'.*0 to 5.*gs\.OnWN\.txt:2$",
    ),
    "score not a number": ("a\tb\nc\td\n", "\nx\n", r"found 'x'.*gs\.OnWN\.txt:2$"),
    "no score at all": (
        "a\tb\n",
        "\n",
        r"none of the pairs has a score.*gs\.OnWN\.txt$",
    ),
    "empty file": ("", "", r"file is empty.*input\.OnWN\.txt$"),
    "not UTF-8": ("a\tb\n", "1\n", None),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_yearly_file_is_named_with_its_line(write, tmp_path, case):
    texts, gold, message = BROKEN[case]
    write_sts13(write, texts, gold)
    if message is None:
        write("STS/STS13-en-test/STS.input.OnWN.txt", b"a\tb\nc\x85\td\n")
        message = r"byte 0x85.*input\.OnWN\.txt:2$"

    with pytest.raises(DataError, match=message):
        read_task(find_files(str(tmp_path)), "STS13")
