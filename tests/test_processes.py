"""Runs in two processes: their result is that of one, and none hangs where one ends."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from functools import partial
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
import sentbed
import sentbed_processes
import torch
from run_logs import finished_steps
from sentbed._recipe.load import component_of
from sentbed._registry.registry import load_plugins
from sentbed.protocols import Backbone, BuildContext
from sentbed_processes import finish, wait_until
from sentbed_testing import SENTENCES

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not Path("/proc/self/environ").exists(), reason="finds processes in /proc"
    ),
]

LOOPBACK = "127.0.0.1"
SOON = 60
"""Seconds within which everything has ended."""

RECIPE = """\
schema = 1
[run]
name = "shared"
cache = false
[runtime]
use = "cpu"
threads = 1
[checkpoint]
every = 2
[encoder]
max_length = 16
backbone = { use = "bert", init = "random", vocab_size = 512, dropout = 0.0 }
pooler = { use = "mean" }

[[stage]]
name = "triplets"
data = { use = "sample" }
loss = { use = "momentum", size = 40, momentum = 0.9, temperature = { initial = 0.1 } }
optimizer = { use = "adamw", lr = 1e-3 }
schedule = { use = "linear" }
batch_size = 31
micro_batch = 9
steps = 10
validate = { every = 5, with = { use = "sts", path = "pkg:sentbed_data/sample/sts-dev.tsv", split = "dev" } }

[[evaluate]]
use = "sts"
path = "pkg:sentbed_data/sample/sts-test.tsv"
"""

OBJECTIVES = """
schema = 1
[run]
name = "objectives"
cache = false
[runtime]
use = "cpu"
threads = 1
[encoders.student]
max_length = 16
backbone = { use = "bert", init = "random", vocab_size = 512, dropout = 0.0 }
pooler = { use = "mean" }
[encoders.teacher]
max_length = 16
backbone = { use = "bert", init = "random", vocab_size = 512, dropout = 0.0 }
pooler = { use = "mean" }
head = { projection = 24 }

[[stage]]
name = "all"
train = "student"
freeze = "teacher"
data = { use = "for-teacher", source = { use = "scored", path = "rows.tsv", negative = ["n1", "n2"] } }
optimizer = { use = "adamw", lr = 1e-3 }
schedule = { use = "constant" }
batch_size = 9
steps = 4
[stage.columns]
anchor = "student"
positive = "student"
negative = "student"
negative_2 = "student"
teacher_anchor = "teacher"
teacher_positive = "teacher"
teacher_negative = "teacher"
teacher_negative_2 = "teacher"
[stage.loss]
use = "sum"
losses = [
    { use = "cosent", temperature = 0.5 },
    { use = "angle", temperature = 0.5 },
    { use = "cosine-mse" },
    { use = "pearson" },
    { use = "margin-mse" },
    { use = "spread-out" },
    { use = "matryoshka", dimensions = [128, 16], loss = { use = "info-nce", hardness = 5.0 } },
    { use = "similarity-kl", temperature = 0.5 },
    { use = "distill", projection = 24 },
]
"""


@pytest.fixture
def start(tmp_path):
    """Start `sentbed run` with these arguments in a process of its own."""
    (tmp_path / "shared.toml").write_text(RECIPE)
    return partial(sentbed_processes.start, "run", directory=tmp_path)


def member(launcher, rank):
    """The process of that rank among those which a launcher has started."""
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((directory / "stat").read_text().rpartition(")")[2].split()[1])
            variables = (directory / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if parent == launcher.pid and f"RANK={rank}".encode() in variables:
            return int(directory.name)
    raise AssertionError(f"no process {rank}")


def in_training(process, run):
    """Wait until a run has taken some steps."""
    wait_until(lambda: len(finished_steps(run)) >= 4, process)


def ended(process):
    """The exit code and what was printed; all processes have closed their output by then."""
    _, printed = process.communicate(timeout=SOON)
    assert "Traceback" not in printed
    return process.returncode, printed


def test_the_result_is_that_of_one_process(start, tmp_path):
    names = {
        "one": (),
        "ddp": ("--devices", 2),
        "four": ("--devices", 4),
        "fsdp": ("--devices", 2, "--set", "runtime.parallel=fsdp"),
    }
    texts = ["a small house by the sea", "rain", "two birds sing in a tree today"]
    runs = {}
    for name, arguments in names.items():
        assert "Warning" not in finish(start("shared.toml", "--out", name, *arguments))
        report = json.loads((tmp_path / name / "report.json").read_text())
        runs[name] = (
            [step["loss"] for step in finished_steps(tmp_path / name)],
            [score["value"] for score in report["scores"]],
            sentbed.Encoder.load(tmp_path / name / "encoder").encode(texts),
        )
    losses, scores, vectors = runs["one"]
    assert len(set(losses)) == 10
    assert scores
    for name in ("ddp", "four", "fsdp"):
        np.testing.assert_allclose(runs[name][0], losses, rtol=1e-4)
        np.testing.assert_allclose(runs[name][1], scores, rtol=1e-4)
        np.testing.assert_allclose(runs[name][2], vectors, atol=1e-4)
    # Only one process of each run has written.
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "ddp",
        "four",
        "fsdp",
        "one",
        "shared.toml",
    ]
    files = [
        sorted(
            path.relative_to(tmp_path / name) for path in (tmp_path / name).rglob("*")
        )
        for name in names
    ]
    assert all(of_run == files[0] for of_run in files)


INTERVENTIONS = """
schema = 1
[run]
name = "interventions"
cache = false
[runtime]
use = "cpu"
threads = 1
[encoders.prepending]
backbone = { use = "opt", model = "./opt", intervention = { use = "token-prepending", exit = 2 } }
pooler = { use = "prompt-eol" }
[encoders.contrastive]
backbone = { use = "opt", model = "./opt", intervention = { use = "contrastive-prompting", block = 1 } }
pooler = { use = "prompt-eol" }
[[evaluate]]
use = "sts"
encoder = "prepending"
path = "pkg:sentbed_data/sample/sts-test.tsv"
[[evaluate]]
use = "sts"
encoder = "contrastive"
path = "pkg:sentbed_data/sample/sts-test.tsv"
"""


def test_interventions_and_auxiliary_prompts_are_those_of_one_process(start, tmp_path):
    tiny = {"use": "opt", "init": "random", "vocab_size": 400}
    plugins = load_plugins()
    backbone = component_of(Backbone, tiny, plugins, "backbone")
    torch.manual_seed(0)
    backbone.build(BuildContext(lambda: SENTENCES)).save(tmp_path / "opt")
    (tmp_path / "two.toml").write_text(INTERVENTIONS)
    scores = []
    for name, arguments in {"one": (), "ddp": ("--devices", 2)}.items():
        finish(start("two.toml", "--out", name, *arguments))
        report = json.loads((tmp_path / name / "report.json").read_text())
        scores.append([score["value"] for score in report["scores"]])
    np.testing.assert_allclose(scores[0], scores[1], rtol=1e-4)
    assert len(set(scores[0])) > 1


def test_losses_over_scores_in_losses_and_with_a_teacher_are_those_of_one_process(
    start, tmp_path
):
    rows = "".join(
        f"a plane {k}\ta train {k}\tno {k}\tsea {k % 5}\t{k % 6 / 5}\n"
        for k in range(20)
    )
    (tmp_path / "rows.tsv").write_text(f"sentence1\tsentence2\tn1\tn2\tscore\n{rows}")
    (tmp_path / "all.toml").write_text(OBJECTIVES)
    metrics = {}
    names = {
        "one": (),
        "two": ("--devices", 2),
        "cached": ("--set", "stage.all.micro_batch=2"),
        "both": ("--devices", 2, "--set", "stage.all.micro_batch=2"),
    }
    for name, arguments in names.items():
        finish(start("all.toml", "--out", name, *arguments))
        metrics[name] = [
            step["metrics"] | {"loss": step["loss"]}
            for step in finished_steps(tmp_path / name)
        ]
    assert len(metrics["one"]) == 4
    assert metrics["one"][0].keys() >= {
        "cosent",
        "matryoshka.16",
        "distill",
        "pearson",
    }
    for name in names.keys() - {"one"}:
        for mine, other in zip(metrics[name], metrics["one"], strict=True):
            assert mine.keys() == other.keys()
            for what, value in other.items():
                # The cosines of a random encoder differ so little that their correlation has three digits.
                # The loss `pearson` is 1 less that correlation.
                allowed = 1e-5
                if what.endswith("correlation") or what == "pearson":
                    allowed = 1e-3
                assert mine[what] == pytest.approx(value, rel=1e-4, abs=allowed), (
                    name,
                    what,
                )


def test_a_signal_ends_the_run_with_its_state(start, tmp_path):
    run = tmp_path / "run"
    process = start(
        "shared.toml", "--out", run, "--devices", 2, "--set", "stage.0.steps=2000"
    )
    in_training(process, run)
    process.terminate()
    code, printed = ended(process)
    assert code == 130
    assert f"to go on: sentbed run RECIPE --resume {run}" in printed
    assert json.loads((run / "manifest.json").read_text())["status"] == "interrupted"
    done = finished_steps(run)[-1]["step"]
    more = ("--devices", 2, "--set", f"stage.0.steps={done + 3}")
    finish(start("shared.toml", "--resume", run, *more))
    assert [step["step"] for step in finished_steps(run)] == list(range(1, done + 4))


@pytest.mark.parametrize(("rank", "parallel"), [(0, "ddp"), (1, "ddp"), (1, "fsdp")])
def test_a_process_that_is_killed_leaves_none_hanging(start, tmp_path, rank, parallel):
    run = tmp_path / "run"
    kind = ("--devices", 2, "--set", f"runtime.parallel={parallel}")
    process = start("shared.toml", "--out", run, *kind, "--set", "stage.0.steps=2000")
    in_training(process, run)
    subprocess.run(["kill", "-KILL", str(member(process, rank))], check=True)
    code, printed = ended(process)
    assert code == (128 + signal.SIGKILL if rank == 0 else 1)
    assert f"process {rank} was ended by SIGKILL" in printed
    if rank == 1:
        assert "a process has ended or failed" in printed
        assert "go on with `sentbed run RECIPE --resume DIRECTORY`" in printed
        assert (run / "report.html").is_file()
        # With whole copies, the weights that were reached are saved.
        assert (run / "encoder").is_dir() == (parallel == "ddp")
    last = max(
        int(state.name.partition("-")[2]) for state in (run / "states").glob("00-*")
    )
    assert last >= 2
    if rank == 0:
        return
    more = (*kind, "--set", f"stage.0.steps={last + 3}")
    finish(start("shared.toml", "--resume", run, *more))
    assert json.loads((run / "manifest.json").read_text())["status"] == "finished"


def has_passed(run, step):
    steps = finished_steps(run)
    return bool(steps) and steps[-1]["step"] > step


def test_a_run_whose_processes_are_killed_ten_times_ends_where_it_would_have(
    start, tmp_path
):
    """Ten random moments of training: each time the run ends in order, and goes on from its state."""
    sets = ("--set", "stage.0.steps=100", "--set", "stage.0.validate.every=50")
    options = ("--devices", 2, *sets)
    finish(start("shared.toml", "--out", "whole", *options))
    expected = finished_steps(tmp_path / "whole")
    run = tmp_path / "killed"
    generator = random.Random(0)
    seconds = []
    process = start("shared.toml", "--out", run, *options)
    for moment in range(10):
        # The log of a run that goes on is cut at its state.
        more_than = 9 * moment + generator.randrange(9)
        wait_until(partial(has_passed, run, more_than), process)
        time.sleep(generator.random() / 5)
        rank = generator.randrange(2)
        os.kill(member(process, rank), signal.SIGKILL)
        killed = time.monotonic()
        _, printed = ended(process)
        seconds.append(time.monotonic() - killed)
        assert f"process {rank} was ended by SIGKILL" in printed
        process = start("shared.toml", "--resume", run, *options)
    finish(process)
    print(
        "seconds until the run has ended:", [round(duration, 1) for duration in seconds]
    )
    assert max(seconds) < 30
    assert [(step["step"], step["loss"]) for step in finished_steps(run)] == [
        (step["step"], step["loss"]) for step in expected
    ]
    weights = [
        sha256((tmp_path / name / "encoder/backbone/model.safetensors").read_bytes())
        for name in ("whole", "killed")
    ]
    assert weights[0].digest() == weights[1].digest()


def test_torchrun_on_two_machines_is_one_run(start, tmp_path):
    """Both machines are this one."""
    with socket.create_server((LOOPBACK, 0)) as free:
        endpoint = f"{LOOPBACK}:{free.getsockname()[1]}"
    torchrun = [
        *(sys.executable, "-m", "torch.distributed.run"),
        *("--nnodes=2", "--nproc-per-node=1", "--rdzv-backend=c10d"),
        *(f"--rdzv-endpoint={endpoint}", f"--local-addr={LOOPBACK}"),
        *("-m", "sentbed", "run", "shared.toml", "--out", "run"),
    ]
    finish(start("shared.toml", "--out", "one"))
    machines = [subprocess.Popen(torchrun, cwd=tmp_path) for _ in range(2)]
    for machine in machines:
        assert machine.wait(300) == 0
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["engine"]["processes"] == 2
    np.testing.assert_allclose(
        [step["loss"] for step in finished_steps(tmp_path / "run")],
        [step["loss"] for step in finished_steps(tmp_path / "one")],
        rtol=1e-4,
    )


def test_what_is_wrong_is_said_once(start, tmp_path):
    rows = ["score\tsentence1\tsentence2", "no score\ta cat\train"]
    (tmp_path / "pairs.tsv").write_text("\n".join(rows) + "\n")
    process = start(
        "shared.toml",
        "--out",
        "run",
        "--devices",
        2,
        "--set",
        "evaluate.0.path=pairs.tsv",
    )
    code, printed = ended(process)
    assert code == 1
    assert printed.count("error:") == 1
    assert "pairs.tsv" in printed
