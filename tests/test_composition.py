"""A component in a field of another: checked once, held to what it needs, found by everything that looks."""

from __future__ import annotations

from typing import ClassVar

import attrs
import numpy as np
import pytest
from blocks import ROOT, blocks
from click.testing import CliRunner
from sentbed import Encoder, RecipeError
from sentbed._cli.main import main
from sentbed._recipe.component_compatibility import name_at_test
from sentbed.protocols import (
    Backbone,
    EncoderRecipe,
    Pooler,
)
from sentbed.tools import load_plugins, load_recipe, runs_code

PAGE = [
    block.text
    for block in blocks(ROOT / "docs" / "plugins" / "composing.md")
    if block.language == "python"
]
POOLER, _, LOSS, BACKBONE = PAGE
HOOKS = """

@sentbed.hookimpl
def losses():
    return [Scaled]


@sentbed.hookimpl
def backbones():
    return [Frozen]
"""

DOCUMENTED = POOLER + LOSS + BACKBONE + HOOKS

BRANCH = '''
"""The fault of the trial: a pooler that says nothing of what its inner one needs."""

from typing import ClassVar

import attrs
import sentbed
from sentbed.protocols import Pooler


@attrs.frozen
class Branch(Pooler):
    """Another pooler."""

    name: ClassVar[str] = "branch"
    needs = frozenset()

    inner: Pooler
    """The pooler."""

    def build(self, width):
        """Return the module of the inner pooler."""
        return self.inner.build(width)


@sentbed.hookimpl
def poolers():
    return [Branch]
'''

RECIPE = """
schema = 1
run = { name = "composed" }
runtime = { use = "cpu" }
[encoder]
max_length = 16
backbone = { use = "frozen", inner = { use = "bert", init = "random", vocab_size = 512 } }
pooler = { use = "dense", size = 6, inner = { use = "mean" } }
[[stage]]
name = "only"
data = { use = "sample" }
loss = { use = "scaled", loss = { use = "info-nce" } }
optimizer = { use = "adamw", lr = 1e-3 }
schedule = { use = "constant" }
batch_size = 8
steps = 2
[[evaluate]]
use = "sts"
path = "pkg:sentbed_data/sample/sts-test.tsv"
"""


@pytest.fixture
def module(distribute):
    """The components of the page, installed."""
    import importlib

    distribute("composed", {"composed": DOCUMENTED})
    return importlib.import_module("composed")


@pytest.fixture
def recipe(tmp_path):
    path = tmp_path / "composed.toml"
    path.write_text(RECIPE)
    return path


def run(*arguments):
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    return result.output


def test_a_run_trains_saves_and_loads_what_is_composed(module, recipe, tmp_path):
    directory = tmp_path / "run"
    run("run", str(recipe), "--out", str(directory))
    encoder = Encoder.load(directory / "encoder")

    assert encoder.protocol()["pooler"]["inner"] == {"use": "mean"}

    vectors = encoder.encode(["a cat", "a dog that sleeps"])

    assert vectors.shape == (2, 6)
    assert np.abs(vectors).max() < 1

    for weight in encoder.placed.module.backbone.parameters():
        assert not weight.requires_grad


def test_an_inner_component_is_set_varied_and_shown(module, recipe):
    plugins = load_plugins()
    changed = load_recipe(recipe, ["encoder.pooler.inner.use=first"], plugins)

    assert changed.encoders["encoder"].pooler.inner.name == "first"

    with recipe.open("a") as file:
        file.write('[study.axes.inner]\npath = "encoder.pooler.inner.use"\n')
        file.write('values = ["mean", "last"]\n')

    assert "2 cells" in run("study", str(recipe), "--dry-run")

    shown = run("show", "pooler", "dense")

    assert 'In a recipe: `inner = { use = "..." }`.' in shown
    assert 'pooler = { use = "dense", inner = { use = "..." } }' in shown


def test_the_problems_of_an_inner_component_are_told_once_at_its_path(
    module, recipe, monkeypatch
):
    calls = []

    def check(self):
        calls.append(self.name)
        return ["nothing is right; choose another"]

    mean = load_plugins().load("pooler", "mean")
    monkeypatch.setattr(mean, "check", check)

    with pytest.raises(RecipeError) as error:
        load_recipe(recipe)

    (problem,) = error.value.problems

    assert str(problem).endswith("composed.toml:8 encoder.pooler.inner")
    assert calls == ["mean"]


@attrs.frozen
class Hiding(Backbone):
    """A backbone that says nothing of the one within."""

    name: ClassVar[str] = "hiding"

    inner: Backbone
    """The backbone."""

    def build(self, context):
        """Build the inner backbone."""
        return self.inner.build(context)


def test_code_of_a_model_is_not_run_unasked_within_another_backbone():
    plugins = load_plugins()
    bert = plugins.load("backbone", "bert")
    pooler = plugins.load("pooler", "mean")()
    for trusts in (False, True):
        inner = bert(model="a/model", trust_remote_code=trusts)
        assert runs_code(EncoderRecipe(Hiding(inner), pooler)) == trusts


def test_what_an_inner_pooler_needs_the_backbone_must_have(module, recipe):
    text = recipe.read_text().replace('use = "mean"', 'use = "decoder"')
    recipe.write_text(text)

    with pytest.raises(RecipeError) as error:
        load_recipe(recipe)

    (problem,) = error.value.problems
    start = "the pooler `decoder` needs a decoder that reads"

    assert problem.message.startswith(start)
    assert str(problem).endswith("composed.toml:8 encoder.pooler.inner")


def test_the_needs_of_a_pooler_are_seen_within_one_that_hides_them(distribute, recipe):
    distribute("branching", {"branching": BRANCH})
    overrides = [
        'encoder.backbone={ use = "bert", init = "random", vocab_size = 512 }',
        'encoder.pooler={ use = "branch", inner = { use = "decoder" } }',
        "stage=",
    ]

    with pytest.raises(RecipeError) as error:
        load_recipe(recipe, overrides)

    (problem,) = error.value.problems

    assert problem.path == "encoder.pooler.inner"


@attrs.frozen
class Clipped(Pooler):
    """A pooler around another; its module is not built here."""

    name: ClassVar[str] = "clipped"

    inner: Pooler

    def build(self, width):
        raise NotImplementedError


def test_a_pooler_around_one_that_is_another_when_encoding_is_named_with_it():
    plugins = load_plugins()
    changing = plugins.load("pooler", "cls-mlp")(mlp_only_train=True)
    plain = plugins.load("pooler", "mean")()

    assert name_at_test(changing) == "first"
    assert name_at_test(Clipped(plain)) == "clipped"
    assert name_at_test(Clipped(Clipped(changing))) == "clipped of clipped of first"
