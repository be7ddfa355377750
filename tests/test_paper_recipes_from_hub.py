"""The recipes of the papers take their models from the hub, as these lie there, and train them two steps."""

from __future__ import annotations

import copy
import csv
import itertools
import math
import tomllib
from pathlib import Path

import numpy as np
import pytest
import sentbed
from run_logs import events, finished_steps
from sample_sentences import in_chinese_characters, sample_sentences
from sentbed._recipe.checks import check
from sentbed._recipe.load import read_document, structure_recipe
from sentbed._registry.registry import load_plugins
from sentbed._toml import Document
from sentbed_studies.study import read_study
from slow_parameters import slow_unless

PAPERS = Path(__file__).parent.parent / "recipes" / "papers"
QUICK = ("prompteol-opt-125m.toml", "simcse-sup-bert-base.toml")
SAMPLE = "pkg:sentbed_data/sample"
STEPS = 2
PAIRS = 4
"""Scored pairs of every evaluation."""

RECIPES = []
"""Names of the recipes."""
for path in sorted(PAPERS.rglob("*.toml")):
    if "schema" in tomllib.loads(path.read_text("utf-8")):
        RECIPES.append(path.relative_to(PAPERS).as_posix())
assert len(RECIPES) > 50


class LocalFiles:
    """Files of this machine in the place of a paper's data."""

    def __init__(self, directory):
        directory.mkdir()
        self.directory = directory
        sentences = sample_sentences()
        translations = map(in_chinese_characters, sentences)
        self.sentences = self.write("sentences.txt", sentences)
        self.translations = self.write("translations.txt", translations)

        # Each premise has an entailment and a contradiction, of which triplets are made.
        labelled = ["premise\thypothesis\tlabel"]
        for number in range(len(sentences) - 3):
            for offset, label in enumerate(("entailment", "neutral", "contradiction")):
                hypothesis = sentences[number + 1 + offset]
                labelled.append(f"{sentences[number]}\t{hypothesis}\t{label}")
        self.labelled = self.write("labelled.tsv", labelled)

        scored = ["sentence1\tsentence2\tscore"]
        for number, (first, second) in enumerate(itertools.pairwise(sentences)):
            scored.append(f"{first}\t{second}\t{number % 6}")
        self.scored = self.write("scored.tsv", scored)

        self.development = self.few_pairs("sts-dev.tsv")
        self.test = self.few_pairs("sts-test.tsv")

    def write(self, name, lines):
        file = self.directory / name
        file.write_text("\n".join(lines) + "\n", "utf-8")
        return str(file)

    def few_pairs(self, name):
        """Write a few of the sample's scored pairs."""
        sample = sentbed.locate(f"{SAMPLE}/{name}")
        with sample.open(encoding="utf-8", newline="") as file:
            lines = list(csv.reader(file, delimiter="\t"))
        # The pairs are in the order of their scores; some measures need one of the highest.
        chosen = [lines[0], *lines[1 :: len(lines) // PAIRS], lines[-1]]
        return self.write(name, map("\t".join, chosen))

    def give(self, source):
        """Give a source of data files of its kind."""
        pair = {"anchor": "sent0", "positive": "sent1"}
        triplets = f"{SAMPLE}/triplets.csv"
        settings = {
            "triplets": {"path": triplets, **pair, "negative": "hard_neg"},
            "pairs": {"path": triplets, **pair},
            "dropout": {"path": triplets, "column": "sent0"},
            "nli": {"path": self.labelled},
            "nsp": {"path": self.sentences},
            "parallel": {"anchor": self.sentences, "positive": self.translations},
            "scored": {"path": self.scored, "score_range": [0, 5]},
            "sample": {},
        }
        layout = ("config", "header", "separator", "anchor", "positive", "score")
        for key in layout:
            if source["use"] != "dropout":
                source.pop(key, None)
        source.update(settings[source["use"]])

    def give_geometry(self, evaluator, pairs):
        """Give the evaluator `geometry` files, and few of their lines."""
        if "parallel" in evaluator:
            parallel = [self.sentences, self.translations]
            evaluator.update(parallel=parallel, pairs=40, positives=10)
        else:
            evaluator["path"] = pairs


def make_small(recipe, files):
    """Make a recipe's batches, stages and evaluations small, on data of this machine and models of one width."""
    encoders = recipe.get("encoders") or {"encoder": recipe["encoder"]}
    for encoder in encoders.values():
        backbone, head = encoder["backbone"], encoder.get("head", {})
        if "model" not in backbone:
            # Such recipes count and time random weights; of their published sizes they do not fit in memory.
            backbone.pop("size", None)
            backbone["model"] = "t5-base"
        if "data" in head.get("transform", {}):
            files.give(head["transform"]["data"])
        if len(encoders) > 1:
            head.pop("projection", None)
            encoder["pooler"].pop("mlp_width", None)
            encoder["pooler"].pop("pretrained", None)
    for stage in recipe.get("stage", ()):
        make_stage_small(stage, files)
    recipe["evaluate"] = [
        small_evaluation(number, evaluate, files)
        for number, evaluate in enumerate(recipe.get("evaluate", ()))
    ]
    recipe["run"]["cache"] = False
    if recipe.get("runtime", {}).get("precision") == "bf16":
        # Not every processor has it.
        recipe["runtime"]["precision"] = "auto"


def make_stage_small(stage, files):
    stage.pop("epochs", None)
    stage.update(steps=STEPS, batch_size=8)
    if "micro_batch" in stage:
        stage["micro_batch"] = 3
    for source in stage["data"].get("sources", [stage["data"]]):
        files.give(source)
    if "validate" in stage:
        validation = {"use": "sts", "path": files.development, "split": "dev"}
        stage["validate"]["with"] = validation
    for watch in stage.get("watch", ()):
        files.give_geometry(watch["with"], files.development)


def small_evaluation(number, evaluate, files):
    """Return an evaluation on local files in the place of another."""
    if evaluate["use"] == "geometry":
        files.give_geometry(evaluate, files.test)
        return evaluate
    if evaluate["use"] == "encoding-cost":
        evaluate.update(sample=4, repeats=1)
        if "lengths" in evaluate:
            evaluate.update(lengths=[16], batch_sizes=[4])
        else:
            evaluate["texts"] = {"use": "sts", "path": files.test}
        return evaluate
    sts = {"use": "sts", "path": files.test, "task": f"t{number}"}
    for key in ("encoder", "second", "at"):
        if key in evaluate:
            sts[key] = evaluate[key]
    return sts


def cells_of(path, plugins):
    """The cells of a study, or the recipe as its only one."""
    document = read_document(path)
    if "study" in document.data:
        for cell in read_study(path, plugins=plugins, check_files=False).runs:
            yield cell.recipe.document, cell.recipe
    else:
        yield document, sentbed.load_recipe(path, check_files=False)


def what_is_run(recipe):
    """What makes two cells different ones for this test: models, poolers, data and losses."""
    encoders = []
    for encoder in recipe.encoders.values():
        backbone = encoder.backbone
        adapted = (backbone.quantization, backbone.lora is not None)
        encoders.append((backbone.name, backbone.model, adapted, encoder.pooler.name))
    stages = []
    for stage in recipe.stage:
        stages.append((stage.data.name, stage.loss.name))
    return (*encoders, *stages)


@pytest.fixture(scope="module")
def combinations():
    """The combinations of model, pooler and loss that recipes before this one have run."""
    return set()


def require_packages(text):
    """Skip where a recipe needs packages for adapters and 4-bit weights that are not there."""
    if "qlora" in text or '"nf4"' in text:
        for package in ("peft", "bitsandbytes", "accelerate"):
            pytest.importorskip(
                package, reason="needs the extra `qlora` of sentbed-backbones"
            )


def runs_small(recipe, directory):
    """Run a recipe, and look at what it has done step by step."""
    run = sentbed.run(recipe, directory / "run")
    steps = finished_steps(run.directory)
    assert [(step["stage"], step["step"]) for step in steps] == [
        (stage.name, step) for stage in recipe.stage for step in range(1, STEPS + 1)
    ]
    assert all(math.isfinite(step["loss"]) for step in steps)
    log = events(run.directory)
    validating = [stage.name for stage in recipe.stage if stage.validate is not None]
    validated = [e["stage"] for e in log if e["event"] == "validated"]
    # Before the first step and after the last one.
    assert validated == [name for name in validating for _ in range(2)]
    watched = [e["stage"] for e in log if e["event"] == "observed"]
    assert watched == [
        stage.name for stage in recipe.stage for _ in range(2 * len(stage.watch))
    ]
    assert {score.encoder for score in run.scores} == {
        e.encoder or "encoder" for e in recipe.evaluate
    }
    for encoder in recipe.encoders:
        place = run.directory / "encoder"
        vectors = sentbed.Encoder.load(
            place if len(recipe.encoders) == 1 else place / encoder
        ).encode(["A cat sits on the mat.", "A dog barks at night."])
        assert np.isfinite(vectors).all()
        assert not np.allclose(vectors[0], vectors[1], atol=1e-6)


@pytest.mark.parametrize("name", slow_unless(lambda name: name in QUICK, RECIPES))
def test_a_recipe_takes_its_models_from_the_hub(
    name,
    zoo,
    connected,
    combinations,
    tmp_path,
):
    require_packages((PAPERS / name).read_text("utf-8"))
    plugins = load_plugins()
    for number, (document, recipe) in enumerate(cells_of(PAPERS / name, plugins)):
        combination = what_is_run(recipe)
        if number > 0 and combination in combinations:
            continue
        combinations.add(combination)
        if recipe.runtime.name != "cpu":
            continue  # for another machine
        if any(stage.data.name == "synonyms" for stage in recipe.stage):
            continue  # needs WordNet and a tagger
        for encoder in recipe.encoders.values():
            model = encoder.backbone.model
            if model is None:
                zoo.publish(connected, "t5-base")
            elif not model.startswith("pkg:"):
                zoo.publish(connected, model)
        directory = tmp_path / str(number)
        table = copy.deepcopy(dict(document.data))
        make_small(table, LocalFiles(directory))
        small = structure_recipe(Document.of(table), plugins, directory)
        check(small, plugins)
        runs_small(small, directory)
