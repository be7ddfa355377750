"""A large corpus, encoded by two workers of which one is killed."""

from __future__ import annotations

import random
import re
import signal

import numpy as np
import psutil
import pytest
import sentbed_processes
from sentbed import Encoder
from sentbed.protocols import EncoderRecipe
from sentbed_backbones.bert import Bert
from sentbed_corpus import open_vectors
from sentbed_hardware.cpu import Cpu
from sentbed_poolers.mean import Mean
from sentbed_processes import finish, wait_until

ROWS, FIRST, SHARD = 100_000, 70_001, 4_000
WORDS = [
    first + second
    for first in "bdfgklmnprst"
    for second in ("a", "ero", "im", "ont", "us")
]


@pytest.fixture(scope="module")
def sentences():
    """Sentences of 3 to 7 words, no two of them the same."""
    chance = random.Random(5)
    return [
        f"{' '.join(chance.choices(WORDS, k=chance.randint(2, 6)))} {i}"
        for i in range(ROWS)
    ]


@pytest.fixture(scope="module")
def directory(sentences, tmp_path_factory):
    """A directory with `encoder`, two layers 128 wide, and `corpus`, two text files."""
    directory = tmp_path_factory.mktemp("corpus")
    recipe = EncoderRecipe(Bert(init="random", vocab_size=4000), Mean(), max_length=16)
    engine = Cpu(threads=1).build()
    engine.seed(3)
    Encoder.build(recipe, engine, lambda: sentences[:20_000]).save(
        directory / "encoder"
    )
    (directory / "corpus").mkdir()
    (directory / "corpus" / "a.txt").write_text("\n".join(sentences[:FIRST]))
    (directory / "corpus" / "b.txt").write_text("\n".join(sentences[FIRST:]) + "\n")
    return directory


@pytest.fixture(scope="module")
def expected(directory, sentences):
    """The vectors of each shard from one process."""
    encoder = Encoder.load(directory / "encoder", {"use": "cpu", "threads": 1})
    files = (sentences[:FIRST], sentences[FIRST:])
    return [
        encoder.encode(file[i : i + SHARD])
        for file in files
        for i in range(0, len(file), SHARD)
    ]


def local_workers(process):
    return [
        child
        for child in process.children()
        if "spawn_main" in " ".join(child.cmdline())
    ]


def ray_workers(process):
    return [
        child
        for child in process.children(recursive=True)
        if "ray::_run_task" in " ".join(child.cmdline())
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("executor", "workers_of"), [("local", local_workers), ("ray", ray_workers)]
)
def test_a_corpus_is_complete_although_a_worker_was_killed_half_way(
    executor,
    workers_of,
    directory,
    expected,
    tmp_path,
):
    if executor == "ray":
        pytest.importorskip("ray", reason="needs the package ray (the extra `ray`)")
    command = ["encode", "encoder", "--input", "corpus", "--output", tmp_path / "out"]
    command += ["--shard-rows", SHARD, "--executor", executor, "--workers", 2]
    command += ["--cpus-per-worker", 1]
    process = sentbed_processes.start(*command, directory=directory)
    shards = (tmp_path / "out").glob
    wait_until(
        lambda: len(list(shards("vectors/part-*"))) >= len(expected) // 2, process
    )
    workers = workers_of(psutil.Process(process.pid))
    # A process of Ray has another name between two tasks.
    assert workers
    workers[0].send_signal(signal.SIGKILL)
    _, messages = finish(process)
    if executor == "local":
        death = r"a worker .*; rows \d+ to \d+ of .*\.txt: done again by a new one$"
        assert re.search(death, messages, re.MULTILINE)
    last = messages.splitlines()[-1]
    assert re.search(rf": {ROWS} texts, shards: {len(expected)}, \d+ texts/s$", last)
    shards = open_vectors(tmp_path / "out")
    assert sum(map(len, shards)) == ROWS
    for shard, vectors in zip(shards, expected, strict=True):
        np.testing.assert_array_equal(shard, vectors)
    assert not list((tmp_path / "out" / "vectors").glob(".*"))
