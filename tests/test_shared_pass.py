"""Runs that differ in what comes after the backbone share a pass, with real backbones and poolers."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from sentbed import Encoder, run
from sentbed._recipe.load import load_recipe
from sentbed._registry.registry import load_plugins
from sentbed.protocols import EncoderRecipe
from sentbed.tools import run_in
from sentbed_backbones.bert import Bert
from sentbed_backbones.opt import Opt
from sentbed_hardware._torch.engine import TorchEngine
from sentbed_hardware._torch.placed_encoder import TorchEncoder
from sentbed_hardware.cpu import Cpu
from sentbed_poolers.mean import Mean
from sentbed_studies.shared_forward_passes import (
    can_share,
    share_passes,
)
from sentbed_studies.shared_work_plan import groups
from sentbed_workbench.vector_cache import SEGMENT

RECIPE = """
schema = 1
[run]
name = "shared"
[runtime]
use = "cpu"
threads = 1
[encoder]
max_length = 32
backbone = {{ {backbone} }}
pooler = {pooler}
head = {head}
[[evaluate]]
use = "sts"
path = "pkg:sentbed_data/sample/sts-test.tsv"
"""
HEADS = (
    "{}",
    "{ normalize = true }",
    "{ projection = 16 }",
    "{ projection = 16, normalize = true }",
)
POOLERS = {
    "bert": ["first", "mean", "last", "cls-mlp"],
    "bert, layers": ["mean-first-last"],
    "bert, drawn": ["first", "cls-mlp"],
    "opt": ["mean", "last"],
    "opt, prompt": ["prompt-eol"],
}
TEXTS = ["one text", "another, longer text", "a third one"]


@pytest.fixture(autouse=True)
def _no_pages(monkeypatch):
    """Write no report: vectors and scores are compared, and pages take most of the time."""

    def write(directory, *_, **__):
        return directory

    monkeypatch.setattr("sentbed_report.write_report.write_report", write)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """What a recipe says of a small BERT or OPT that lies in files."""
    root = tmp_path_factory.mktemp("models")
    torch.manual_seed(0)
    for kind, cls in (("bert", Bert), ("opt", Opt)):
        backbone = cls(init="random", vocab_size=320)
        Encoder.build(
            EncoderRecipe(backbone, Mean()), Cpu().build(), lambda: TEXTS
        ).save(root / kind)

    def table(kind):
        return f'use = "{kind}", model = "{root / kind / "backbone"}"'

    return table


@pytest.fixture
def recipe(tmp_path):
    def load(backbone, pooler="mean", head="{}", *changes):
        path = tmp_path / "recipe.toml"
        table = pooler if pooler.startswith("{") else f'{{ use = "{pooler}" }}'
        path.write_text(RECIPE.format(backbone=backbone, pooler=table, head=head))
        return load_recipe(path, changes)

    return load


@pytest.fixture
def passes(monkeypatch):
    """The number of texts in each pass through a backbone."""
    rows = []
    forward = TorchEncoder._forward

    def count(encoder, batch):
        rows.append(len(batch.input_ids))
        return forward(encoder, batch)

    # Several encoders beside each other call it, too.
    monkeypatch.setattr(TorchEncoder, "_forward", count)
    return rows


@pytest.mark.slow
@pytest.mark.parametrize(
    "precision", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"]
)
@pytest.mark.parametrize("case", POOLERS)
def test_runs_beside_each_other_have_the_scores_and_vectors_of_runs_alone(
    case,
    precision,
    model,
    recipe,
    passes,
    tmp_path,
    monkeypatch,
):
    def build(self):
        return TorchEngine(
            torch.device("cpu"), precision, {"precision": str(precision)}
        )

    monkeypatch.setattr(Cpu, "build", build)
    poolers = POOLERS[case]
    kind, _, what = case.partition(", ")
    backbone = model(kind) + (', init = "random"' if what == "drawn" else "")
    recipes = [
        recipe(backbone, pooler, head) for pooler in poolers for head in HEADS[1:3]
    ]

    assert groups(recipes) == [list(range(len(recipes)))]

    plugins = load_plugins()
    alone, shared = [], []
    monkeypatch.setenv("SENTBED_CACHE", str(tmp_path / "alone"))
    for number, recipe_of_run in enumerate(recipes):
        alone.append(run(recipe_of_run, tmp_path / f"alone-{number}", plugins).scores)
    each = len(passes) // len(recipes)

    assert len(passes) == each * len(recipes) > 0

    passes.clear()
    monkeypatch.setenv("SENTBED_CACHE", str(tmp_path / "shared"))
    for number, recipe_of_run in enumerate(recipes):
        directory = tmp_path / f"shared-{number}"
        directory.mkdir()
        share = partial(share_passes, recipe_of_run, recipes[number + 1 :])
        result = run_in(recipe_of_run, directory, plugins, share)
        shared.append(result.scores)
        assert saved(directory) == saved(tmp_path / f"alone-{number}")

    assert len(passes) == each
    assert shared == alone
    assert len({scores[0].value for scores in alone}) > len(poolers)
    assert kept(tmp_path / "shared") == kept(tmp_path / "alone")


def saved(run):
    files = {
        str(path.relative_to(run)): path.read_bytes()
        for path in run.rglob("encoder/**/*.*")
    }
    assert "encoder/backbone/model.safetensors" in files
    return files


def kept(root):
    files = {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob(f"*{SEGMENT}")
    }
    assert files
    return files


def test_a_model_from_files_is_shared_under_any_seed_unless_something_is_drawn(
    model, recipe
):
    files = model("bert")
    for more, shares in (
        ("", True),
        (", lora = {}", False),
        (', init = "random"', False),
    ):
        first, second = (
            recipe(files + more, "mean", "{}", f"run.seed={seed}") for seed in (1, 2)
        )
        assert can_share(first, second) == shares
        assert can_share(first, recipe(files + more, "first", HEADS[2], "run.seed=1"))
