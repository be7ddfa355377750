from __future__ import annotations

import re

import pytest
from sentbed_data.collection_files import (
    collection_directory,
    file_states,
    summary,
)
from sentbed_evaluators import known_data
from sentbed_evaluators.glue_files import TASKS as GLUE
from sentbed_evaluators.glue_files import find_files as find_glue
from sentbed_evaluators.known_collections import known_collections, split_mrpc
from sentbed_evaluators.probing_files import TASKS as PROBING
from sentbed_evaluators.probing_files import find_files as find_probing
from sentbed_evaluators.sentbench_sets.sources import SOURCES, find_files
from sentbed_evaluators.senteval_sts_files import find_files as find_sts
from sentbed_evaluators.transfer_files import TRANSFER
from sentbed_evaluators.transfer_files import find_files as find_transfer

KNOWN_DATA = {collection.name: collection for collection in known_collections()}
ALL = pytest.mark.parametrize("collection", KNOWN_DATA.values(), ids=KNOWN_DATA)


def files_of(name):
    files = {}
    for file in KNOWN_DATA[name].files:
        files[file.path] = file

    return files


def states_of(name, directory):
    """Return the state of each file of a collection, by its path."""
    states = {}
    for state in file_states(KNOWN_DATA[name], directory):
        states[state.file.path] = state

    return states


def touch(directory, paths):
    for path in paths:
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_bytes(b"")


def needed(collection):
    paths = []
    for file in collection.files:
        if not file.optional:
            paths.append(file.path)

    return paths


# --- the table ---------------------------------------------------------------------------------------------


def test_the_collections_are_those_of_the_evaluators():
    names = [collection.name for collection in known_data()]
    others = [source.data for source in SOURCES.values()]
    assert sorted(names) == sorted(["senteval", "senteval-probing", "glue", *others])


@ALL
def test_paths_are_told_apart_and_digests_are_digests(collection):
    paths = [file.path for file in collection.files]
    assert len(set(paths)) == len(paths) > 0
    assert all(
        re.fullmatch(r"[0-9a-f]{64}", digest)
        for file in collection.files
        for digest in file.sha256
    )

    archives = [
        archive.sha256 for archive in collection.archives if archive.sha256 is not None
    ]

    assert all(re.fullmatch(r"[0-9a-f]{64}", digest) for digest in archives)


@ALL
def test_every_file_has_a_source_or_the_collection_has_advice(collection):
    if all(collection.can_download(file.path) for file in collection.files):
        command = f"`sentbed data get {collection.name}`"
        assert collection.how_to_get == f"{command} downloads it"
    else:
        assert collection.name == "rocstories"
        assert collection.how_to_get.endswith(collection.advice)

    urls = [
        *(archive.url for archive in collection.archives),
        *(file.url for derived in collection.made for file in derived.sources),
        *(file.url for file in collection.files if file.url is not None),
    ]

    assert all(str(url).startswith("https://") for url in urls)


# --- what the readers look for -----------------------------------------------------------------------------


FINDERS = {
    "senteval": (find_sts, find_transfer),
    "senteval-probing": (find_probing,),
    "glue": (find_glue,),
}
PLACES = [(name, place) for name in FINDERS for place in KNOWN_DATA[name].places]


@pytest.mark.parametrize(("name", "place"), PLACES)
def test_a_collection_is_found_where_its_readers_find_it(tmp_path, name, place):
    collection = KNOWN_DATA[name]
    touch(tmp_path / place, needed(collection))
    for find in FINDERS[name]:
        files = find(str(tmp_path))
        assert collection_directory(collection, tmp_path) == files.root
        assert not files.missing(files.by_task)


def test_every_file_of_senteval_has_a_reader_unless_it_is_optional(tmp_path):
    needed_files = needed(KNOWN_DATA["senteval"])
    touch(tmp_path, needed_files)
    read = set()
    for files in (find_sts(str(tmp_path)), find_transfer(str(tmp_path))):
        for paths in files.by_task.values():
            read.update(paths)

    assert {tmp_path / path for path in needed_files} == read


def test_stsb_is_found_at_the_top_as_the_reader_finds_it(tmp_path):
    touch(tmp_path / "downstream", ["STSBenchmark/sts-dev.csv", "SICK/SICK_train.txt"])
    inspected = states_of("senteval", tmp_path)

    (read,) = find_sts(str(tmp_path)).by_task["STSB-dev"]
    assert inspected["STS/STSBenchmark/sts-dev.csv"].path == read
    (missing,) = find_sts(str(tmp_path)).by_task["STSB"]
    assert inspected["STS/STSBenchmark/sts-test.csv"].path == missing


@pytest.mark.parametrize("task", TRANSFER)
def test_row_counts_of_the_transfer_tasks_are_those_that_the_reader_expects(task):
    files = files_of("senteval")
    for split, names in TRANSFER[task].files.items():
        counted = []
        for name in names:
            rows = files[f"{TRANSFER[task].folder}/{name}"].rows
            if rows is not None:
                counted.append(rows)

        assert len(counted) == (0 if task in ("CR", "MPQA") else len(names))
        assert sum(counted) == (
            0 if task in ("CR", "MPQA") else TRANSFER[task].sizes[split]
        )


@pytest.mark.parametrize(
    ("rows", "is_bad"), [(119_988, False), (120_006, False), (110_000, True)]
)
def test_a_probing_file_may_be_some_rows_off_but_not_cut(tmp_path, rows, is_bad):
    (tmp_path / "word_content.txt").write_bytes(b"\n" * rows)
    inspected = states_of("senteval-probing", tmp_path)

    assert inspected["word_content.txt"].is_bad is is_bad


@pytest.mark.parametrize("task", GLUE)
def test_rows_and_headers_of_glue_are_those_that_the_reader_expects(task):
    files = files_of("glue")
    for split, rows in zip(("train", "dev"), GLUE[task].sizes[0], strict=True):
        file = files[GLUE[task].path(split)]
        # Line ends inside the questions of QQP are no rows.
        assert file.rows == (None if task == "QQP" else rows)
        assert (file.header, file.optional) == (GLUE[task].header, False)


def test_every_file_of_glue_and_of_probing_that_is_needed_has_a_reader():
    read = set()
    for task in GLUE.values():
        read.add(task.path("train"))
        read.add(task.path("dev"))

    assert set(needed(KNOWN_DATA["glue"])) == read
    files = []
    for file, _ in PROBING.values():
        files.append(file)

    assert needed(KNOWN_DATA["senteval-probing"]) == files


@pytest.mark.parametrize(("task", "source"), SOURCES.items(), ids=SOURCES)
def test_each_source_of_sentbench_is_found_where_the_reader_finds_it(
    tmp_path, task, source
):
    collection = KNOWN_DATA[source.data]
    for place in collection.places:
        touch(tmp_path / place.replace("/", "-") / place, needed(collection))
        files = find_files(tmp_path / place.replace("/", "-"), task)
        states = file_states(collection, tmp_path / place.replace("/", "-"))
        assert {item.path for item in states if not item.file.optional} == set(
            files.all
        )


def test_the_earlier_story_cloze_test_is_found_too(tmp_path):
    name = "cloze_test_val__spring2016 - cloze_test_ALL_val.csv"
    touch(tmp_path / "rocstories", [name])
    assert summary(file_states(KNOWN_DATA["rocstories"], tmp_path)) == "present"
    assert find_files(tmp_path, "ROC").all == (tmp_path / "rocstories" / name,)


# --- MRPC --------------------------------------------------------------------------------------------------


def test_mrpc_is_split_by_the_list_of_development_pairs(tmp_path):
    head = b"\xef\xbb\xbfQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
    touch(tmp_path, ["MRPC/dev_ids.tsv"])
    folder = tmp_path / "MRPC"
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


# --- real data ---------------------------------------------------------------------------------------------


def test_the_files_that_are_there_have_the_rows_and_digests_that_are_known(
    real_data,
):
    count = 0
    for collection in known_collections():
        for state in file_states(collection, real_data, digests=True):
            if state.path.is_file():
                count += 1
                assert (state.path, state.problem) == (state.path, "")

    assert count > 50
