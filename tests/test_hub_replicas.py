"""Models are read from the hub in the layouts that its repositories have, or it is said why not."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
import sentbed
from hub_replicas.layouts import read_layouts
from sentbed._recipe.load import read_document
from sentbed._registry.registry import load_plugins
from sentbed.protocols import BuildContext
from sentbed_backbones.model_file_checks import is_local
from sentbed_studies.study import read_study
from slow_parameters import slow_unless

RECIPES = Path(__file__).parent.parent / "recipes"
LAYOUTS = read_layouts()

BACKBONES = {
    "bert": "bert",
    "roberta": "bert",
    "xlm-roberta": "bert",
    "t5": "t5",
    "opt": "opt",
}
"""Architecture -> the backbone that reads it; all others are `causal`."""


QUICK = (
    "bert-base-uncased",
    "facebook/opt-125m",
    "google/t5-v1_1-base",
    "huggyllama/llama-13b",
)
TEXTS = 40


def models_of_recipes():
    """Every hub id that a recipe of the project, or a cell of its studies, gives a backbone."""
    models = set()
    for path in sorted(RECIPES.rglob("*.toml")):
        if "schema" not in tomllib.loads(path.read_text("utf-8")):
            continue
        recipes = [sentbed.load_recipe(path, check_files=False)]
        if "study" in read_document(path).data:
            recipes = []
            for cell in read_study(path, check_files=False).runs:
                recipes.append(cell.recipe)
        for recipe in recipes:
            for encoder in recipe.encoders.values():
                for field in ("model", "adapter"):
                    model = getattr(encoder.backbone, field, None)
                    if model is not None and not is_local(model):
                        models.add(model)
    return models


@pytest.mark.slow
def test_every_model_of_a_recipe_has_a_replica():
    models = models_of_recipes()
    assert len(models) > 30
    assert models - LAYOUTS.keys() == set()
    for name, layout in LAYOUTS.items():
        assert name in models or layout.source.startswith(("issue: ", "memory: ")), name


def load(name, replica, **settings):
    kind = json.loads((replica.main / "config.json").read_text("utf-8"))["model_type"]
    backbone = load_plugins().load("backbone", BACKBONES.get(kind, "causal"))
    needs = frozenset(
        {"decoder"}
        if LAYOUTS[name].architecture == "T5ForConditionalGeneration"
        else ()
    )
    return backbone(model=name, **settings).build(BuildContext(tuple, needs=needs))


def assert_same(built, replica, texts):
    """The weights are those of the replica, and the ids those of its tokenizer's own library."""
    import torch

    model = built.module.model
    state = model.state_dict()
    assert len(state) > 10
    for key, value in state.items():
        name = key if key in replica.weights else f"{model.base_model_prefix}.{key}"
        assert torch.equal(value.float(), replica.weights[name].float()), key
    ids = built.tokenizer.encode(texts, 400)
    for row, text in enumerate(texts):
        token_ids = ids.ids[ids.offsets[row] : ids.offsets[row + 1]].tolist()
        assert token_ids == replica.encode(text), text


@pytest.mark.sweep(1)
@pytest.mark.parametrize("name", slow_unless(lambda name: name in QUICK, LAYOUTS))
def test_a_repository_gives_its_weights_and_ids(name, zoo, connected):
    repository = zoo.publish(connected, name)
    replica = zoo.replica(name)
    connected.fetched.clear()
    built = load(name, replica)
    texts = tuple(zoo.texts[:TEXTS])
    assert_same(
        built, replica, (*texts, f'This sentence : "{texts[0]}" means in one word:"')
    )

    files = list(connected.fetched)
    layout = LAYOUTS[name]
    origin = built.origin
    assert len(files) == len(set(files)) > 0
    assert "consolidated.safetensors" not in files
    assert "training_args.bin" not in files
    assert origin["commit"] == repository.commit()
    for file in files:
        assert "/" not in file
        if not layout.pickled_only:
            assert not file.endswith(".bin")


@pytest.mark.slow
def test_an_encoder_alone_has_no_decoder_to_read(zoo, connected):
    zoo.publish(connected, "sentence-transformers/sentence-t5-base")
    backbone = load_plugins().load("backbone", "t5")(
        model="sentence-transformers/sentence-t5-base"
    )
    with pytest.raises(
        sentbed.ModelError,
        match="they hold an encoder alone: name the whole model, or choose",
    ):
        backbone.build(BuildContext(tuple, needs=frozenset({"decoder"})))


@pytest.fixture
def other_machine(hub, tmp_path, monkeypatch):
    """A home in which nothing has been fetched yet, on a hub of which nothing is known."""
    monkeypatch.setenv("SENTBED_CACHE", str(tmp_path / "sentbed"))
    return tmp_path / "home"


def sentence(name, zoo):
    """Why a repository cannot be read."""
    with pytest.raises(sentbed.ModelError) as caught:
        load(name, zoo.replica(name))
    text = str(caught.value)
    assert "\n" not in text
    assert f"`{name}`" in text
    return text


def test_a_gated_repository_says_to_accept_the_licence(zoo, hub, other_machine):
    name = "meta-llama/Meta-Llama-3-8B"
    zoo.publish(hub, name)
    with hub.connected(other_machine, licences=False):
        text = sentence(name, zoo)
    assert "gated" in text
