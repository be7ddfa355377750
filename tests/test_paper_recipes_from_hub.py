"""The recipes of the papers take their models from the hub, as these lie there, and train them two steps."""

from __future__ import annotations

import csv
import tomllib
from pathlib import Path

import pytest
import sentbed
from paper_runs import (
    SAMPLE,
    encoder_tables,
    local,
    require_packages,
    runs_small,
    short,
)
from sentbed._document.overrides import apply_overrides
from sentbed._recipe.checks import check
from sentbed._recipe.load import read_document, structure_recipe
from sentbed._registry.registry import load_plugins
from sentbed_studies.study import read_study
from slow_parameters import slow_unless

PAPERS = Path(__file__).parent.parent / "recipes" / "papers"
QUICK = ("prompteol-opt-125m.toml", "simcse-sup-bert-base.toml")
ROWS = 4
"""Scored pairs of every evaluation."""

RECIPES = []
"""Names of the recipes."""
for path in sorted(PAPERS.rglob("*.toml")):
    if "schema" in tomllib.loads(path.read_text("utf-8")):
        RECIPES.append(path.relative_to(PAPERS).as_posix())
assert len(RECIPES) > 50


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


@pytest.fixture
def few_pairs(tmp_path):
    """A directory with scored pairs for evaluations, few of them."""
    directory = tmp_path / "pairs"
    directory.mkdir()
    for name in ("sts-dev.tsv", "sts-test.tsv"):
        with sentbed.locate(f"{SAMPLE}/{name}").open(
            encoding="utf-8", newline=""
        ) as file:
            lines = list(csv.reader(file, delimiter="\t"))
        # The pairs are in the order of their scores; some measures need one of the highest.
        chosen = [lines[0], *lines[1 :: len(lines) // ROWS], lines[-1]]
        text = "\n".join("\t".join(line) for line in chosen)
        (directory / name).write_text(text + "\n", "utf-8")
    return str(directory)


def run_small(document, pairs, directory, plugins):
    """Run a recipe with the models that it names, on a few local texts."""
    directory.mkdir()
    settings = [*local(document.data, directory, pairs), *short(document.data)]
    for place, encoder in encoder_tables(document.data):
        if "model" not in encoder["backbone"]:
            # Such recipes count and time random weights; of their published sizes they do not fit in memory.
            settings += [f"{place}.backbone.size=", f"{place}.backbone.model=t5-base"]
    if document.data.get("runtime", {}).get("precision") == "bf16":
        # Not every processor has it.
        settings.append("runtime.precision=auto")
    settings.append("run.cache=false")
    recipe = structure_recipe(apply_overrides(document, settings), plugins, directory)
    check(recipe, plugins)
    runs_small(recipe, directory)


@pytest.mark.parametrize("name", slow_unless(lambda name: name in QUICK, RECIPES))
def test_a_recipe_takes_its_models_from_the_hub(
    name,
    zoo,
    connected,
    combinations,
    few_pairs,
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
        run_small(document, few_pairs, tmp_path / str(number), plugins)
