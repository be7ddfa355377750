"""Fetching a model by its hub id, from a hub on this machine."""

from __future__ import annotations

import hashlib

import pytest
import torch
from hub_replicas.local_hub import LocalHub
from huggingface_hub import constants
from huggingface_hub.errors import HFValidationError
from safetensors.torch import load_file
from sentbed import ModelError
from sentbed._files import sha256
from sentbed.protocols import BuildContext
from sentbed_backbones.adaptation import LoRA
from sentbed_backbones.bert import Bert
from sentbed_backbones.hub_models import MODEL_WEIGHTS, chosen_weights

TAG = "v1"
OWN_CODE = """
import transformers

class OwnConfig(transformers.BertConfig):
    model_type = "own-bert"

class OwnModel(transformers.BertModel):
    config_class = OwnConfig
"""


@pytest.fixture
def hub(tmp_path):
    hub = LocalHub()
    with hub.connected(tmp_path / "home"):
        yield hub


def build(**parameters):
    return Bert(**parameters).build(BuildContext(tuple))


def refused(**parameters):
    """Return the message of the error with which a backbone is not built."""
    with pytest.raises(ModelError) as caught:
        build(**parameters)
    message = str(caught.value)
    assert "\n" not in message
    return message


def weights_of(built):
    return built.module.model.state_dict()


@pytest.mark.slow
def test_a_hub_model_is_fetched_once_and_then_read_without_the_network(
    hub,
    save_model,
    tmp_path,
):
    directory = save_model()
    (directory / "pytorch_model.bin").write_bytes(b"pickle")
    (directory / "README.md").write_text("# Tiny")
    (directory / "onnx").mkdir()
    (directory / "onnx" / "config.json").write_text("{}")
    (directory / "onnx" / "model.safetensors").write_bytes(b"")
    repository = hub.add("acme/tiny", directory)
    repository.revisions[TAG] = directory

    newest = build(model="acme/tiny")
    tagged = build(model="acme/tiny", revision=TAG)
    digest = hashlib.sha256((directory / "model.safetensors").read_bytes()).hexdigest()
    origin = {
        "model": "acme/tiny",
        "init": "pretrained",
        "sha256": {"model.safetensors": digest},
        "commit": repository.commit(),
    }
    assert dict(newest.origin) == origin
    assert dict(tagged.origin) == origin

    expected = load_file(directory / "model.safetensors")
    for name, value in weights_of(newest).items():
        assert torch.equal(value, expected[name]), name
    assert sorted(hub.fetched) == [
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ]

    with hub.connected(tmp_path / "home", offline=True):
        assert dict(build(model="acme/tiny").origin) == origin
        message = refused(model="acme/other")
    assert message.startswith("the hub gives no model `acme/other`: ")
    assert len(hub.fetched) == 4


def test_a_model_or_revision_that_is_not_there_is_named(hub, save_model):
    hub.add("acme/tiny", save_model())
    message = refused(model="acme/missing")
    assert message.startswith("the hub gives no model `acme/missing`: ")
    message = refused(model="acme/tiny", revision="v9")
    assert message.startswith("the hub gives no model `acme/tiny` at revision `v9`: ")


@pytest.mark.slow
def test_a_hub_model_with_trusted_code_is_fetched_with_its_code(
    hub,
    save_model,
    edit_json,
):
    directory = save_model()
    (directory / "own.py").write_text(OWN_CODE)
    maps = {"AutoConfig": "own.OwnConfig", "AutoModel": "own.OwnModel"}
    edit_json(directory / "config.json", model_type="own-bert", auto_map=maps)
    hub.add("acme/own", directory)

    assert "`trust_remote_code = true`" in refused(model="acme/own")
    built = build(model="acme/own", trust_remote_code=True)
    assert type(built.module.model).__name__ == "OwnModel"
    assert "own.py" in hub.fetched


@pytest.mark.slow
def test_an_adapter_is_fetched_at_its_own_revision(hub, save_model, tmp_path):
    directory = save_model()
    hub.add("acme/tiny", directory)
    build(model=str(directory), lora=LoRA(r=2)).save(tmp_path / "trained")
    files = tmp_path / "trained" / "adapter"
    repository = hub.add("acme/adapter", files)
    repository.revisions[TAG] = files

    adapted = {"model": "acme/tiny", "adapter": "acme/adapter"}
    built = build(**adapted, adapter_revision=TAG)
    digest = sha256(files / "adapter_model.safetensors")
    assert built.origin["adapter"] == {"adapter_model.safetensors": digest}
    assert built.origin["adapter_commit"] == repository.commit(TAG)

    message = refused(**adapted, adapter_revision="v9")
    assert message.startswith(
        "the hub gives no model `acme/adapter` at revision `v9`: "
    )


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        (
            ["pytorch_model.bin", "model.safetensors", "tf_model.h5"],
            ["model.safetensors"],
        ),
        (
            [
                "consolidated.safetensors",
                "model-00001-of-00002.safetensors",
                "model-00002-of-00002.safetensors",
            ],
            ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"],
        ),
        (
            ["pytorch_model.bin", "pytorch_model-00001-of-00001.bin"],
            ["pytorch_model.bin"],
        ),
        (["pytorch_model.bin", "adapter_model.safetensors"], ["pytorch_model.bin"]),
        (["pytorch_model.bin", "value_head.safetensors"], ["pytorch_model.bin"]),
    ],
)
def test_the_weights_that_transformers_reads_are_chosen(names, chosen):
    assert chosen_weights(names, MODEL_WEIGHTS) == chosen


def refusal(model):
    with pytest.raises(ModelError, match="the hub gives no model") as caught:
        Bert(model=model).build(BuildContext(tuple))
    assert f"`{model}`" in str(caught.value)
    assert "\n" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize("model", ["a/b/c", "two words"])
def test_a_name_that_cannot_be_a_hub_id_is_a_model_error(model):
    assert isinstance(refusal(model).__cause__, HFValidationError)


def test_a_network_that_cannot_be_reached_is_a_model_error(monkeypatch, tmp_path):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    assert refusal("acme/unreachable").__cause__ is not None
