"""A run that is killed and resumed ends as one that never was."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import sentbed
from sentbed.tools import load_plugins

ROOT = Path(__file__).parent.parent
SENTBED = Path(sys.executable).with_name("sentbed")

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
cache_frozen = true
loss = { use = "queue", size = 50, temperature = { initial = 0.1 } }
optimizer = { use = "adamw", lr = 1e-3 }
schedule = { use = "cosine" }
batch_size = 16
micro_batch = 5
steps = 14
shuffle_buffer = 64
validate = { every = 5, with = { use = "sts", path = "pkg:sentbed_data/sample/sts-dev.tsv", split = "dev" } }
[stage.data]
use = "mix"
strategy = "weights"
weights = [2.0, 1.0]
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

    def run(*arguments):
        command = [str(SENTBED), "run", *map(str, arguments)]
        return subprocess.Popen(
            command, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE
        )

    return run


def finish(process):
    _, printed = process.communicate(timeout=300)
    assert process.returncode == 0, printed.decode()
    return printed.decode()


def events(run):
    """The log without what differs from process to process."""
    lines = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    own = ("run_started", "run_resumed", "run_finished", "stage_started")
    return [
        {k: v for k, v in line.items() if k not in ("time", "path")}
        for line in lines
        if line["event"] not in own
    ]


def steps_of(run):
    log = run / "log.jsonl"
    return log.read_text().count('"step_finished"') if log.exists() else 0


def kill_at(process, moment):
    deadline = time.monotonic() + 120
    while process.poll() is None and not moment():
        assert time.monotonic() < deadline
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.communicate()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
def test_a_run_that_was_killed_ends_bit_identical(start, tmp_path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    process = start("survivor.toml", "--out", broken)
    kill_at(process, lambda: steps_of(broken) > 2)
    assert process.returncode == -signal.SIGKILL
    sentbed.resume(broken)
    sentbed.run(sentbed.load_recipe(tmp_path / "survivor.toml"), whole)
    assert_identical(whole, broken)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
def test_a_run_that_was_killed_ten_times_ends_bit_identical(start, tmp_path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    finish(start("survivor.toml", "--out", whole))
    chance = random.Random(0)
    process, writing = start("survivor.toml", "--out", broken), 0
    for kill in range(10):
        states, before = broken / "states", steps_of(broken)
        if kill % 2:
            # While a checkpoint is being written: its directory has its name only when it is whole.
            def is_writing(before=before, states=states):
                return any(states.glob(".*")) and steps_of(broken) > before

            kill_at(process, is_writing)
            writing += any(states.glob(".*"))
        else:
            pause = chance.uniform(0, 0.5)
            kill_at(process, lambda: steps_of(broken) > before)  # noqa: B023
            time.sleep(pause)
        assert process.returncode == -signal.SIGKILL
        process = start("--resume", broken)
    finish(process)
    assert writing >= 1
    assert_identical(whole, broken)


def assert_identical(whole, broken):
    """Both runs have the same weights, to the bit, and the same log."""
    for name in ("en", "source"):
        files = [
            p.relative_to(whole)
            for p in (whole / "encoder" / name).rglob("*")
            if p.is_file()
        ]
        assert any(path.suffix == ".safetensors" for path in files)
        for path in files:
            assert (whole / path).read_bytes() == (broken / path).read_bytes(), path
    assert events(whole) == events(broken)


TRAINED_TOKENIZER = """\
schema = 1
[run]
name = "two"
[runtime]
use = "cpu"
threads = 1
[encoder]
max_length = 16
backbone = { use = "bert", init = "random", vocab_size = 100, size = "tiny" }
pooler = { use = "mean" }
[checkpoint]
every = 1
[[stage]]
name = "first"
data = { use = "pairs", path = "first.tsv", anchor = "a", positive = "b" }
loss = { use = "info-nce" }
optimizer = { use = "adamw", lr = 1e-3 }
schedule = { use = "constant" }
batch_size = 2
steps = 3
[[stage]]
name = "second"
data = { use = "pairs", path = "second.tsv", anchor = "a", positive = "b" }
loss = { use = "info-nce" }
optimizer = { use = "adamw", lr = 1e-3 }
schedule = { use = "constant" }
batch_size = 2
steps = 1
"""


class StopAfterTwoSteps:
    """Ctrl-C after the second step of the first stage."""

    required = True

    @sentbed.hookimpl(trylast=True)
    def step_finished(self, stage, step):
        if (stage, step) == ("first", 2):
            raise KeyboardInterrupt


@pytest.mark.slow
def test_a_run_does_not_go_on_with_a_tokenizer_that_is_trained_on_other_texts(
    tmp_path,
):
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(TRAINED_TOKENIZER)
    (tmp_path / "first.tsv").write_text("a\tb\n" + "a cat sits\tthe cat sat\n" * 4)
    # The data of a stage that has not begun, which the vocabulary depends on all the same.
    second = tmp_path / "second.tsv"
    second.write_text("a\tb\n" + "a dog runs\tthe dog ran\n" * 4)
    plugins = load_plugins()
    stop = StopAfterTwoSteps()
    plugins.manager.register(stop)
    with pytest.raises(KeyboardInterrupt):
        sentbed.run(sentbed.load_recipe(recipe), tmp_path / "out", plugins)
    plugins.manager.unregister(stop)

    text = second.read_text()
    second.write_text(text.replace("dog", "quick zebra"))
    with pytest.raises(
        sentbed.RunError, match="the tokenizer of `encoder` is not the one"
    ):
        sentbed.resume(tmp_path / "out", plugins=plugins)
    second.write_text(text)
    sentbed.resume(tmp_path / "out", plugins=plugins)
