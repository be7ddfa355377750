"""A run that is killed between two steps and resumed, against the same run without: equal to the bit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import sentbed
from doors import install_planted, run_command, run_recipe, scores_of_run, steps_of_run
from records import Compared

RECIPE = """\
schema = 1
run = { name = "resume", cache = false }
runtime = { use = "cpu", precision = "fp32", threads = 1, deterministic = true }
checkpoint = { every = 2 }
[encoders.student]
max_length = 16
backbone = { use = "bert", init = "random", size = "tiny", vocab_size = 400 }
pooler = { use = "cls-mlp" }
[encoders.teacher]
max_length = 16
backbone = { use = "bert", init = "random", size = "tiny", vocab_size = 400 }
pooler = { use = "mean" }
[[stage]]
name = "queue"
train = "student"
freeze = "teacher"
columns = { anchor = "student", positive = "teacher" }
loss = { use = "queue", size = 40, temperature = { initial = 0.1 } }
optimizer = { use = "adamw", lr = 1e-3 }
schedule = { use = "cosine" }
batch_size = 16
micro_batch = 8
ema = 0.9
steps = 6
validate = { every = 3, with = { use = "sts", path = "pkg:sentbed_data/sample/sts-dev.tsv", split = "dev" } }
[stage.data]
use = "pairs"
path = "pkg:sentbed_data/sample/triplets.csv"
anchor = "sent0"
positive = "sent1"
stream = true
[[stage]]
name = "momentum"
train = "student"
data = { use = "triplets", path = "pkg:sentbed_data/sample/triplets.csv" }
loss = { use = "momentum", size = 40, momentum = 0.9, temperature = { initial = 0.05 } }
optimizer = { use = "adafactor", lr = 1e-3 }
schedule = { use = "linear", warmup = 0.2 }
batch_size = 16
distinct = true
steps = 6
[[evaluate]]
use = "sts"
path = "pkg:sentbed_data/sample/sts-test.tsv"
encoder = "student"
"""

TEXTS = ["A carpenter planes the door.", "Why?", "the door, the window, the door"]

KILLS = {"queue 5": "SIGKILL", "momentum 3": "SIGTERM"}
"""Stage and step after which the run is sent a signal."""


def numbers(directory: Path) -> Iterator[Compared]:
    install_planted(directory)
    recipe = directory / "resume.toml"
    recipe.write_text(RECIPE)
    whole = results_of_run(run_recipe(recipe, directory / "whole"))
    for place, signal in KILLS.items():
        # The plugin `planted` sends the signal.
        kill = f"{signal} {place}"
        killed = run_command(
            directory, "run", "resume.toml", "--out", kill, PLANTED_KILL=kill
        )
        if killed.returncode == 0:
            raise RuntimeError(f"the run was not killed after {place}: {killed.stdout}")
        again = sentbed.load_recipe(recipe)
        resumed = results_of_run(sentbed.resume(directory / kill, again).directory)
        for part, value in resumed.items():
            source = "the run that was not killed"
            yield Compared(f"{kill}/{part}", value, whole[part], source)


def results_of_run(directory: Path) -> dict[str, list]:
    """Return losses and norms of each step, vectors of the encoder that is left, and scores."""
    steps = steps_of_run(directory)
    encoder = sentbed.Encoder.load(directory / "encoder" / "student")
    losses = [step["loss"] for step in steps]
    norms = [step["grad_norm"] for step in steps]
    vectors = encoder.encode(TEXTS).tolist()
    scores = list(scores_of_run(directory).values())
    return {"losses": losses, "norms": norms, "vectors": vectors, "scores": scores}
