"""What `sentbed check` says of models of the hub, against a local server."""

from __future__ import annotations

import huggingface_hub
import pytest
from click.testing import CliRunner
from hub_replicas.server import local_hub
from sentbed._cli.main import main
from sentbed_backbones.hub_models import download_remark, hub_answers

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
    hub_answers.cache_clear()
    download_remark.cache_clear()
    with local_hub() as hub, hub.connected(tmp_path / "home"):
        yield hub
    hub_answers.cache_clear()
    download_remark.cache_clear()


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
    (directory / "model.safetensors").write_bytes(bytes(30_000_000))
    return directory


def pickled(directory):
    (directory / "model.safetensors").rename(directory / "pytorch_model.bin")
    return directory


def test_files_and_sizes_are_said(hub, check, files):
    hub.add("acme/tiny", files)
    result = check()
    assert result.exit_code == 0, result.output
    assert "no problems" in result.output
    assert "  `acme/tiny`: `model.safetensors`, 0.03 GB\n" in result.output
    assert hub.fetched() == []


def test_pickled_weights_are_said_with_their_conversion(hub, check, files):
    repository = hub.add("acme/tiny", pickled(files))
    result = check()
    assert result.exit_code == 0, result.output
    assert (
        "`pytorch_model.bin`, 0.03 GB, pickled; they are converted to safetensors once"
        in result.output
    )
    commit = repository.convert(7, files)
    download_remark.cache_clear()
    output = check().output
    assert f"(`refs/pr/7`, commit {commit[:12]})" in output
    assert "`pytorch_model.bin`, 0.03 GB, pickled; the hub's conversion" in output


def test_a_gated_model_says_where_to_accept_its_licence(hub, check, files):
    hub.add("acme/tiny", files).gated = True
    result = check()
    assert result.exit_code == 2
    assert (
        f"it is gated; accept its licence at {hub.endpoint}/acme/tiny, then log in"
        in result.output
    )
    assert "`hf auth login`" in result.output
    assert "no problems" not in result.output


def test_a_model_that_is_not_there_is_a_problem(hub, check):
    result = check()
    assert result.exit_code == 2
    assert (
        "the hub gives no model `acme/tiny`: there is no such repository, or it is private"
        in result.output
    )


def test_a_missing_revision_is_a_problem(hub, check, files):
    hub.add("acme/tiny", files)
    result = check('encoder.backbone.revision="v9"')
    assert result.exit_code == 2
    assert (
        "`acme/tiny` at revision `v9`: the repository has no such revision"
        in result.output
    )


def test_a_model_without_weights_names_what_it_has(hub, check, files):
    (files / "model.safetensors").rename(files / "tf_model.h5")
    hub.add("acme/tiny", files)
    result = check()
    assert result.exit_code == 2
    assert "(it has `tf_model.h5`, which is of another library)" in result.output


@pytest.mark.parametrize(
    "endpoint", ["http://127.0.0.1:9", "mirror.example", "http://mirror.example:x"]
)
def test_a_hub_that_does_not_answer_is_not_waited_for(check, endpoint, monkeypatch):
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", endpoint)
    hub_answers.cache_clear()
    download_remark.cache_clear()
    result = check()
    hub_answers.cache_clear()
    download_remark.cache_clear()
    assert result.exit_code == 0, result.output
    assert (
        f"`acme/tiny`: not asked for, since {endpoint} does not answer" in result.output
    )
