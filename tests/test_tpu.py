"""The runtime `tpu` from recipe to report, on JAX's CPU backend."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import sentbed
from run_logs import finished_steps

pytestmark = pytest.mark.jax

jax = pytest.importorskip("jax", reason="needs sentbed-tpu")

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
    compiled = []

    def note(event, duration, fun_name="", **_):
        if event == "/jax/core/compile/backend_compile_duration":
            compiled.append(fun_name)

    jax.monitoring.register_event_duration_secs_listener(note)
    run(
        tmp_path / "run",
        TPU,
        f"stage.triplets.data={{ use = 'pairs', path = '{pairs}' }}",
        "stage.triplets.epochs=1",
        "stage.triplets.validate=",
        "evaluate.0.at=['end']",
        "evaluate.1.at=['end']",
    )
    jax.monitoring.unregister_event_duration_listener(note)

    steps = finished_steps(tmp_path / "run")
    assert len(steps) == -(-len(rows) // 64) == 90
    # A step is compiled as a whole; its batches have 8 to 128 rows of 8 tokens, 64 of 16, or 32 of 32.
    of_steps = [name for name in compiled if "_step" in name]
    assert 2 <= len(of_steps) <= 12
