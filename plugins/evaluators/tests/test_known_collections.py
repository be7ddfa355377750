from __future__ import annotations

import re

import pytest
from sentbed_common import read_collections
from sentbed_data.collection_files import file_states
from sentbed_evaluators.glue_files import CLASSIFIED
from sentbed_evaluators.glue_files import find_files as find_glue
from sentbed_evaluators.known_collections import known_collection, split_mrpc
from sentbed_evaluators.probing_files import SPLITS, TOLERANCE
from sentbed_evaluators.probing_files import find_files as find_probing
from sentbed_evaluators.sentbench_sets.sources import SOURCES, find_files
from sentbed_evaluators.senteval_sts_files import find_files as find_sts
from sentbed_evaluators.transfer_files import TRANSFER
from sentbed_evaluators.transfer_files import find_files as find_transfer

COLLECTIONS = read_collections("sentbed_evaluators")


def files_of(name):
    return {file.path: file for file in known_collection(name).files}


def touch_needed_files(name, directory):
    paths = set()
    for file in known_collection(name).files:
        path = directory / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        if not file.optional:
            path.touch()
            paths.add(path)

    return paths


@pytest.mark.parametrize("collection", COLLECTIONS, ids=lambda known: known.name)
def test_every_file_has_digests_and_a_source(collection):
    urls = [archive.url for archive in collection.archives]
    digests = [archive.sha256 for archive in collection.archives if archive.sha256]
    for file in collection.files:
        digests += file.sha256
        if file.url is not None:
            urls.append(file.url)

    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in digests)
    assert all(url.startswith("https://") for url in urls)
    assert bool(urls) is (collection.name != "rocstories")
    for file in collection.files:
        assert collection.can_download(file.path) is bool(urls)


@pytest.mark.parametrize(
    ("name", "finders"),
    [
        ("senteval", [find_sts, find_transfer]),
        ("senteval-probing", [find_probing]),
        ("glue", [find_glue]),
    ],
)
def test_every_file_that_is_needed_has_a_reader(tmp_path, name, finders):
    needed = touch_needed_files(name, tmp_path)
    read = set()
    for find in finders:
        for paths in find(str(tmp_path)).by_task.values():
            read.update(paths)

    if name == "glue":
        # Only a regression, which is not the default, is trained on it.
        read.add(tmp_path / "STS-B" / "train.tsv")

    assert needed == read


@pytest.mark.parametrize("task", TRANSFER)
def test_row_counts_of_the_transfer_tasks_are_those_that_the_reader_expects(task):
    files = files_of("senteval")
    for split, paths in TRANSFER[task].files.items():
        rows = [files[path].rows for path in paths]
        if task in ("CR", "MPQA"):
            assert rows == [None, None]
        else:
            assert (sum(rows),) == TRANSFER[task].sizes[split]


def test_row_counts_of_the_probing_tasks_are_the_least_that_the_reader_expects():
    rows = sum(SPLITS.values()) - len(SPLITS) * TOLERANCE
    for file in known_collection("senteval-probing").files:
        assert (file.rows, file.at_least) == (rows, True)


@pytest.mark.parametrize("task", CLASSIFIED)
def test_rows_and_headers_of_glue_are_those_that_the_reader_expects(task):
    files = files_of("glue")
    for split, (path,) in CLASSIFIED[task].files.items():
        file = files[path]
        rows = CLASSIFIED[task].sizes[split][0]
        # Line ends inside the questions of QQP are no rows.
        assert file.rows == (None if task == "QQP" else rows)
        assert (file.header, file.optional) == (task != "CoLA", False)


@pytest.mark.parametrize("task", SOURCES)
def test_each_source_of_sentbench_is_found_where_the_reader_finds_it(tmp_path, task):
    name = SOURCES[task].data
    for number, place in enumerate(known_collection(name).places):
        base = tmp_path / str(number)
        needed = touch_needed_files(name, base / place)
        assert set(find_files(base, task).all) == needed
        states = file_states(known_collection(name), base)
        assert needed <= {state.path for state in states}


def test_mrpc_is_split_by_the_list_of_development_pairs(tmp_path):
    head = b"\xef\xbb\xbfQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
    folder = tmp_path / "MRPC"
    folder.mkdir()
    # The same two numbers the other way round are another pair; bare quotes and 0x85 are text.
    rows = [b'1\t10\t20\t"a\tb\n', b"0\t20\t10\tc\xc2\x85c\td\n", b"1\t30\t40\te\tf\n"]
    (folder / "msr_paraphrase_train.txt").write_bytes(head + b"".join(rows))
    (folder / "msr_paraphrase_test.txt").write_bytes(
        head + b"1\t5\t6\tg\th\n0\t7\t8\ti\tj\n"
    )

    (folder / "dev_ids.tsv").write_bytes(b"30\t40\n20\t10\n")
    assert split_mrpc(tmp_path) == {
        "MRPC/train.tsv": head + rows[0],
        "MRPC/dev.tsv": head + rows[1] + rows[2],
        "MRPC/test.tsv": b"index\t#1 ID\t#2 ID\t#1 String\t#2 String\n0\t5\t6\tg\th\n1\t7\t8\ti\tj\n",
    }


def test_mrpc_is_split_as_in_the_known_copies(tmp_path, real_data):
    glue, original = (
        real_data / "glue" / "MRPC",
        real_data / "senteval" / "downstream" / "MRPC",
    )

    if (
        not (glue / "dev.tsv").is_file()
        or not (original / "msr_paraphrase_train.txt").is_file()
    ):
        pytest.skip(
            "needs real data: set SENTBED_DATA to a directory with glue/MRPC and SentEval's MRPC"
        )

    (tmp_path / "MRPC").mkdir()
    for name in ("msr_paraphrase_train.txt", "msr_paraphrase_test.txt"):
        (tmp_path / "MRPC" / name).write_bytes((original / name).read_bytes())

    pairs = [
        row.split(b"\t")[1:3]
        for row in (glue / "dev.tsv").read_bytes().splitlines()[1:]
    ]

    (tmp_path / "MRPC" / "dev_ids.tsv").write_bytes(
        b"".join(b"\t".join(pair) + b"\n" for pair in pairs)
    )

    contents = split_mrpc(tmp_path)
    assert list(contents) == ["MRPC/train.tsv", "MRPC/dev.tsv", "MRPC/test.tsv"]
    assert all(
        content == (real_data / "glue" / path).read_bytes()
        for path, content in contents.items()
    )


def test_the_files_that_are_there_have_the_rows_and_digests_that_are_known(real_data):
    count = 0
    for collection in COLLECTIONS:
        for state in file_states(collection, real_data, digests=True):
            if state.path.is_file():
                count += 1
                assert (state.path, state.problem) == (state.path, "")

    assert count > 50
