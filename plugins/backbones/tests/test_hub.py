"""Fetching a model by its hub id, against a local server that speaks as much of the hub's API as is used."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys

import pytest
import torch
from hub_replicas.server import local_hub
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

CLIENT = """
import json, sys
from safetensors.torch import save_file
from sentbed import ModelError
from sentbed.protocols import BuildContext
from sentbed_backbones.bert import Bert

requests = json.loads(sys.argv[1])
answers = []
for parameters in requests:
    try:
        built = Bert(**parameters).build(BuildContext(tuple))
    except ModelError as error:
        answers.append({"error": str(error), "cause": type(error.__cause__).__name__})
    else:
        weights = {k: v.contiguous() for k, v in built.module.model.state_dict().items()}
        save_file(weights, sys.argv[2])
        ids = built.tokenizer.encode(["The cat sat."], 16).ids.tolist()
        answers.append({"origin": dict(built.origin), "ids": ids})
print(json.dumps(answers))
"""

OWN_CODE = """
import transformers

class OwnConfig(transformers.BertConfig):
    model_type = "own-bert"

class OwnModel(transformers.BertModel):
    config_class = OwnConfig
"""


@pytest.fixture
def hub():
    with local_hub() as hub:
        yield hub


def publish(hub, name, directory):
    """Put a directory on the hub, with a tag; return the number of its commit."""
    commit = hub.add(name, directory).references["main"]
    hub.repositories[name].references[TAG] = commit
    return commit


@pytest.fixture
def ask(tmp_path, hub):
    """Build backbones in a process of their own, whose hub is the local one; `weights` holds the last."""

    def run(*requests, **environment):
        kept = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("HF_", "HUGGING"))
        }
        ours = hub.environment(tmp_path / "home")
        done = subprocess.run(
            [
                sys.executable,
                "-c",
                CLIENT,
                json.dumps(requests),
                str(tmp_path / "weights"),
            ],
            env={**kept, **ours, **environment},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


@pytest.mark.slow
def test_a_hub_model_is_fetched_once_and_then_read_without_the_network(
    hub,
    ask,
    save_model,
    tmp_path,
):
    directory = save_model()
    (directory / "pytorch_model.bin").write_bytes(b"pickle")
    (directory / "README.md").write_text("# Tiny")
    (directory / "onnx").mkdir()
    (directory / "onnx" / "config.json").write_text("{}")
    (directory / "onnx" / "model.safetensors").write_bytes(b"")
    commit = publish(hub, "acme/tiny", directory)

    newest, tagged, missing, no_revision = ask(
        {"model": "acme/tiny"},
        {"model": "acme/tiny", "revision": TAG},
        {"model": "acme/missing"},
        {"model": "acme/tiny", "revision": "v9"},
    )
    digest = hashlib.sha256((directory / "model.safetensors").read_bytes()).hexdigest()
    for answer in (newest, tagged):
        assert answer["origin"] == {
            "model": "acme/tiny",
            "init": "pretrained",
            "sha256": {"model.safetensors": digest},
            "commit": commit,
        }
    expected = load_file(directory / "model.safetensors")
    fetched = load_file(tmp_path / "weights")
    assert fetched.keys() == {key for key in expected if not key.startswith("pooler.")}
    assert all((value == expected[key]).all() for key, value in fetched.items())

    assert set(hub.fetched()) == {
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    }

    assert missing["error"].startswith("the hub gives no model `acme/missing`: ")
    assert no_revision["error"].startswith(
        "the hub gives no model `acme/tiny` at revision `v9`: "
    )
    for answer in (missing, no_revision):
        assert "\n" not in answer["error"]
        assert answer["cause"] in ("RepositoryNotFoundError", "RevisionNotFoundError")

    request_count = len(hub.requests)
    cached, unknown = ask(
        {"model": "acme/tiny"}, {"model": "acme/other"}, HF_HUB_OFFLINE="1"
    )
    assert cached == newest
    assert unknown["error"].startswith("the hub gives no model `acme/other`: ")
    assert "\n" not in unknown["error"]
    assert unknown["cause"] == "LocalEntryNotFoundError"
    assert len(hub.requests) == request_count


@pytest.mark.slow
def test_a_hub_model_with_trusted_code_is_fetched_with_its_code(
    hub,
    ask,
    save_model,
    edit_json,
):
    directory = save_model()
    (directory / "own.py").write_text(OWN_CODE)
    maps = {"AutoConfig": "own.OwnConfig", "AutoModel": "own.OwnModel"}
    edit_json(directory / "config.json", model_type="own-bert", auto_map=maps)
    publish(hub, "acme/own", directory)
    local, refused, fetched = ask(
        {"model": str(directory), "trust_remote_code": True},
        {"model": "acme/own"},
        {"model": "acme/own", "trust_remote_code": True},
    )
    assert "ids" in local
    assert "`trust_remote_code = true`" in refused["error"]
    assert fetched.get("ids") == local["ids"], fetched


@pytest.mark.slow
def test_an_adapter_is_fetched_at_its_own_revision(
    hub,
    ask,
    save_model,
    tmp_path,
):
    directory = save_model()
    trained = Bert(model=str(directory), lora=LoRA(r=2)).build(BuildContext(tuple))
    trained.save(tmp_path / "trained")
    publish(hub, "acme/tiny", directory)
    commit = publish(hub, "acme/adapter", tmp_path / "trained" / "adapter")
    adapted = {"model": "acme/tiny", "adapter": "acme/adapter"}
    tagged, no_revision = ask(
        {**adapted, "adapter_revision": TAG}, {**adapted, "adapter_revision": "v9"}
    )
    digest = sha256(tmp_path / "trained" / "adapter" / "adapter_model.safetensors")
    assert tagged["origin"]["adapter"] == {"adapter_model.safetensors": digest}
    assert tagged["origin"]["adapter_commit"] == commit
    assert no_revision["error"].startswith(
        "the hub gives no model `acme/adapter` at revision `v9`: "
    )


def pickled(directory):
    """Put a model's weights into a pickle."""
    torch.save(
        load_file(directory / "model.safetensors"), directory / "pytorch_model.bin"
    )
    (directory / "model.safetensors").unlink()
    return directory


@pytest.mark.slow
def test_a_pickled_hub_model_is_fetched(
    hub,
    ask,
    save_model,
    tmp_path,
):
    directory = pickled(save_model())
    expected = torch.load(directory / "pytorch_model.bin")
    publish(hub, "acme/pickled", directory)
    (online,) = ask({"model": "acme/pickled"})
    assert list(online["origin"]["sha256"]) == ["pytorch_model.bin"]
    fetched = load_file(tmp_path / "weights")
    assert all(torch.equal(value, expected[name]) for name, value in fetched.items())
    (offline,) = ask({"model": "acme/pickled"}, HF_HUB_OFFLINE="1")
    assert offline == online


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


@pytest.mark.parametrize("model", ["a/b/c", "two words", "-dash"])
def test_a_name_that_cannot_be_a_hub_id_is_a_model_error(model):
    assert isinstance(refusal(model).__cause__, HFValidationError)


def test_a_network_that_cannot_be_reached_is_a_model_error(monkeypatch, tmp_path):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    assert refusal("acme/unreachable").__cause__ is not None
