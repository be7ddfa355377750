"""What `sentbed check` says of models of the hub, from a hub on this machine."""

from __future__ import annotations

import huggingface_hub
import pytest
from click.testing import CliRunner
from hub_replicas.local_hub import LocalHub
from sentbed._cli.main import main
from sentbed_backbones.hub_models import hub_remark

RECIPE = """
schema = 1
[run]
name = "asks"
[runtime]
use = "cpu"
[encoder]
backbone = { use = "bert", model = "acme/tiny" }
pooler = { use = "mean" }
"""


@pytest.fixture
def hub(tmp_path):
    hub_remark.cache_clear()
    hub = LocalHub()
    with hub.connected(tmp_path / "home", licences=False):
        yield hub
    hub_remark.cache_clear()


@pytest.fixture
def check(tmp_path):
    file = tmp_path / "recipe.toml"
    file.write_text(RECIPE)

    def run(*overrides):
        options = [word for override in overrides for word in ("--set", override)]
        return CliRunner().invoke(main, ["check", str(file), *options])

    return run


@pytest.fixture
def files(tmp_path):
    directory = tmp_path / "files"
    directory.mkdir()
    (directory / "config.json").write_text("{}")
    (directory / "model.safetensors").write_bytes(b"")
    return directory


def test_a_model_that_is_there_is_no_problem(hub, check, files):
    hub.add("acme/tiny", files)
    result = check()
    assert result.exit_code == 0, result.output
    assert "no problems" in result.output
    assert "`acme/tiny`: a run fetches it" in result.output
    assert hub.fetched == []


def test_a_gated_model_is_a_problem(hub, check, files):
    hub.add("acme/tiny", files).gated = True
    result = check()
    assert result.exit_code == 2
    assert "the hub gives no model `acme/tiny`" in result.output
    assert "no problems" not in result.output


def test_a_model_that_is_not_there_is_a_problem(hub, check):
    result = check()
    assert result.exit_code == 2
    assert "the hub gives no model `acme/tiny`" in result.output


def test_a_model_without_weights_is_a_problem(hub, check, files):
    (files / "model.safetensors").rename(files / "tf_model.h5")
    hub.add("acme/tiny", files)
    result = check()
    assert result.exit_code == 2
    assert "has neither `*.safetensors` nor `pytorch_model.bin`" in result.output


def test_a_hub_that_does_not_answer_is_no_problem(check, monkeypatch):
    endpoint = "http://127.0.0.1:9"
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", endpoint)
    hub_remark.cache_clear()
    result = check()
    hub_remark.cache_clear()
    assert result.exit_code == 0, result.output
    assert f"`acme/tiny`: {endpoint} was not asked" in result.output
