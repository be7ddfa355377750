"""A run that is killed and resumed ends as one that never was."""

from __future__ import annotations

import random
import signal
import sys
import time
from functools import partial

import pytest
import sentbed
import sentbed_processes
from run_logs import events, finished_steps
from sentbed_processes import finish, kill, wait_until

RECIPE = """\
schema = 1
[run]
name = "survivor"
[runtime]
use = "cpu"
threads = 1
deterministic = true
[checkpoint]
every = 2
[encoders.en]
max_length = 16
backbone = { use = "bert", init = "random", vocab_size = 512 }
pooler = { use = "mean" }
[encoders.source]
max_length = 16
backbone = { use = "bert", init = "random", vocab_size = 512 }
pooler = { use = "cls-mlp" }

[[stage]]
name = "pairs"
train = "en"
freeze = "source"
columns = { anchor = "en", positive = "source" }
loss = { use = "queue", size = 50, temperature = { initial = 0.1 } }
optimizer = { use = "adamw", lr = 1e-3 }
schedule = { use = "cosine" }
batch_size = 16
micro_batch = 5
steps = 14
validate = { every = 5, with = { use = "sts", path = "pkg:sentbed_data/sample/sts-dev.tsv", split = "dev" } }
[stage.data]
use = "mix"
[[stage.data.sources]]
use = "pairs"
path = "pkg:sentbed_data/sample/triplets.csv"
anchor = "sent0"
positive = "sent1"
stream = true
[[stage.data.sources]]
use = "pairs"
path = "pkg:sentbed_data/sample/triplets.csv"
anchor = "sent1"
positive = "sent0"
stream = true

[[stage]]
name = "triplets"
train = "en"
data = { use = "triplets", path = "pkg:sentbed_data/sample/triplets.csv", stream = true }
loss = { use = "momentum", size = 40, momentum = 0.9, temperature = { initial = 0.05 } }
optimizer = { use = "adafactor", lr = 1e-3 }
schedule = { use = "linear" }
batch_size = 16
micro_batch = 8
distinct = true
steps = 12
validate = { every = 4, with = { use = "sts", path = "pkg:sentbed_data/sample/sts-dev.tsv", split = "dev" } }

[[evaluate]]
use = "sts"
path = "pkg:sentbed_data/sample/sts-test.tsv"
encoder = "en"
at = ["start", "end"]
"""


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Start `sentbed run` in a process of its own."""
    pytest.importorskip("pyarrow", reason="streams from disk")
    (tmp_path / "survivor.toml").write_text(RECIPE)
    monkeypatch.setenv("SENTBED_CACHE", str(tmp_path / "cache"))

    return partial(sentbed_processes.start, "run", directory=tmp_path)


def comparable_events(run):
    """The log without what differs from process to process."""
    process_events = ("run_started", "run_resumed", "run_finished", "stage_started")
    comparable = []
    for event in events(run):
        del event["time"]
        if event["event"] not in process_events:
            comparable.append(event)
    return comparable


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
def test_a_run_that_was_killed_ends_bit_identical(start, tmp_path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    process = start("survivor.toml", "--out", broken)
    wait_until(lambda: len(finished_steps(broken)) > 2, process, 0.002)
    kill(process)
    assert process.returncode == -signal.SIGKILL
    recipe = sentbed.load_recipe(tmp_path / "survivor.toml")
    sentbed.resume(broken, recipe)
    sentbed.run(recipe, whole)
    assert_identical(whole, broken)


def has_passed(run, steps, writes):
    """Whether a run has taken more steps and, if asked, is writing a checkpoint.

    The directory of a checkpoint has its name only when it is whole.
    """
    if writes and not any((run / "states").glob(".*")):
        return False
    return len(finished_steps(run)) > steps


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
def test_a_run_that_was_killed_ten_times_ends_bit_identical(start, tmp_path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    finish(start("survivor.toml", "--out", whole))
    chance = random.Random(0)
    process, writing = start("survivor.toml", "--out", broken), 0
    for number in range(10):
        writes = number % 2 == 1
        reached = partial(has_passed, broken, len(finished_steps(broken)), writes)
        wait_until(reached, process, 0.002)
        if not writes:
            time.sleep(chance.uniform(0, 0.5))
        kill(process)
        writing += writes and any((broken / "states").glob(".*"))
        assert process.returncode == -signal.SIGKILL
        process = start("survivor.toml", "--resume", broken)
    finish(process)
    assert writing >= 1
    assert_identical(whole, broken)


def assert_identical(whole, broken):
    """Both runs have the same weights, to the bit, and the same log."""
    for name in ("en", "source"):
        suffixes = set()
        for path in (whole / "encoder" / name).rglob("*"):
            if path.is_file():
                same = broken / path.relative_to(whole)
                assert path.read_bytes() == same.read_bytes(), path
                suffixes.add(path.suffix)
        assert ".safetensors" in suffixes
    assert comparable_events(whole) == comparable_events(broken)
