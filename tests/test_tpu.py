"""The runtime `tpu` from recipe to report, on JAX's CPU backend."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import sentbed
from run_logs import finished_steps
from sentbed._encoder.encoder import Encoder
from sentbed._recipe.recipe import EncoderRecipe
from sentbed._registry.registry import load_plugins
from sentbed.protocols import Head, Training
from sentbed_tpu._jax.ahead_of_time import ahead, lower_step

pytestmark = pytest.mark.jax

ROOT = Path(__file__).parent.parent
TPU = (
    "runtime={ use = 'tpu', platform = 'cpu', precision = 'fp32', lengths = [8, 16, 32], "
    "token_budget = 1024, parallel = 'fsdp' }"
)
SHORT = (
    "stage.triplets.epochs=",
    "stage.triplets.steps=12",
    "stage.triplets.validate.every=6",
)


def run(out, *overrides):
    recipe = ROOT / "recipes" / "scratch.toml"
    return sentbed.run(
        sentbed.load_recipe(recipe, ["encoder.backbone.dropout=0", *overrides]), out
    )


def test_one_line_changes_the_runtime_and_nothing_else_changes(tmp_path):
    ours = run(tmp_path / "cpu", *SHORT)
    theirs = run(tmp_path / "tpu", TPU, *SHORT)
    assert len(ours.scores) == len(theirs.scores) > 4
    for expected, score in zip(ours.scores, theirs.scores, strict=True):
        assert (score.encoder, score.task, score.metric) == (
            expected.encoder,
            expected.task,
            expected.metric,
        )
        assert score.value == pytest.approx(expected.value, abs=0.05), score.task
    manifest = json.loads((tmp_path / "tpu" / "manifest.json").read_text())
    assert manifest["engine"]["runtime"] == "tpu"
    assert manifest["counters"]["compile_seconds"] > 0


@pytest.mark.parametrize(
    ("backbone", "pooler"),
    [
        ("t5", "mean"),
        ("t5", "decoder"),
        ("bert", "first"),
        ("opt", "last"),
        ("causal", "last"),
    ],
)
def test_a_training_step_lowers_to_tpu(backbone, pooler):
    plugins = load_plugins()

    def part(kind, name, **fields):
        return plugins.find(kind, name).cls(**fields)

    base = part("runtime", "tpu", platform="cpu", devices=8, parallel="fsdp").build()
    engine = ahead(
        base, list(base.devices.layout.mesh.devices.flat), sharded=True, compiles=False
    )
    parts = (
        part("backbone", backbone, init="random", size="tiny"),
        part("pooler", pooler),
    )
    texts = (
        "the river is high after the rain",
        "two children count the boats",
        "nobody is at home",
    )
    encoder = Encoder.build(EncoderRecipe(*parts, Head(64)), engine, lambda: texts)
    towers = dict.fromkeys(("anchor", "positive"), "encoder")
    loss, optimizer = (
        part("loss", "momentum", size=64, temperature=0.05),
        part("optimizer", "adamw", lr=1e-4),
    )
    training = Training(
        loss, optimizer, part("schedule", "constant"), total_steps=1, towers=towers
    )
    trainer = engine.trainer({"encoder": encoder.placed}, training)
    tokens = encoder.tokenizer().encode(texts, 16)
    columns = dict.fromkeys(towers, tokens)
    columns |= {f"{name}.id": np.arange(len(texts)) for name in towers}
    lowered = lower_step(trainer, columns)
    names = {lowering["function"].rpartition(".")[2] for lowering in lowered}
    assert {
        "_forward_and_back",
        "_keys",
        "_backward",
        "_loss_and_gradients",
        "_updated",
    } <= names


@pytest.mark.slow
def test_two_processes_of_jax_train_and_score_as_one_process_of_torch(
    tmp_path,
):
    ours = run(tmp_path / "cpu", *SHORT)
    sets = [
        part
        for text in ("encoder.backbone.dropout=0", TPU, *SHORT)
        for part in ("--set", text)
    ]
    recipe = ROOT / "recipes" / "scratch.toml"
    run_it = [
        "-m",
        "sentbed",
        "run",
        str(recipe),
        "--out",
        str(tmp_path / "two"),
        *sets,
    ]
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    # Each process takes one of its two devices.
    environment = {
        **os.environ,
        "XLA_FLAGS": "--xla_force_host_platform_device_count=2",
        "SENTBED_PROCESS_KEY": "k" * 32,
    }
    done = subprocess.run(
        [sys.executable, *torchrun, *run_it],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "two" / "report.json").read_text())
    assert [score["task"] for score in report["scores"]] == [
        score.task for score in ours.scores
    ]
    for expected, actual in zip(ours.scores, report["scores"], strict=True):
        assert actual["value"] == pytest.approx(expected.value, abs=0.05), expected.task
    manifest = json.loads((tmp_path / "two" / "manifest.json").read_text())
    assert (manifest["engine"]["processes"], manifest["engine"]["devices"]) == (2, 2)


@pytest.mark.slow
def test_an_epoch_over_real_sentences_compiles_no_more_shapes_than_there_are_buckets(
    tmp_path, data_directory
):
    file = (
        data_directory
        / "senteval"
        / "downstream"
        / "STS"
        / "STSBenchmark"
        / "sts-train.csv"
    )
    rows = [line.split("\t")[5:7] for line in file.read_text("utf-8").splitlines()]
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text(
        "anchor\tpositive\n" + "".join("\t".join(pair[:2]) + "\n" for pair in rows),
        "utf-8",
    )
    run(
        tmp_path / "run",
        TPU,
        f"stage.triplets.data={{ use = 'pairs', path = '{pairs}' }}",
        "stage.triplets.epochs=1",
        "stage.triplets.validate=",
        "evaluate.0.at=['end']",
        "evaluate.1.at=['end']",
    )
    steps = [
        step["metrics"]["compiled_shapes"] for step in finished_steps(tmp_path / "run")
    ]
    assert len(steps) == -(-len(rows) // 64) == 90
    # 8 tokens: 8 to 128 rows; 16 tokens: 8 to 64 rows; 32 tokens: 8 to 32 rows.
    assert 3 <= steps[-1] <= 12
    # Few steps after the first have met a new one.
    assert steps[20] >= steps[-1] - 2
