"""Python code that comes with a model runs only where the caller says so, whatever a directory says."""

from __future__ import annotations

import json
import shutil

import pytest
from click.testing import CliRunner
from random_encoders import random_encoder
from sentbed import Encoder, ModelError
from sentbed._cli.main import main

CODE = """
import pathlib
import transformers

pathlib.Path({trace!r}).touch()

class OwnConfig(transformers.BertConfig):
    model_type = "own-bert"

class OwnModel(transformers.BertModel):
    config_class = OwnConfig
"""

REFUSED = "wants to run Python code that comes with its model"
TRUST = "--trust-remote-code"


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """A saved encoder of random weights, without code."""
    directory = tmp_path_factory.mktemp("plain") / "encoder"
    backbone = {"use": "bert", "init": "random", "size": "tiny"}
    table = {"backbone": backbone, "pooler": {"use": "mean"}, "max_length": 16}
    random_encoder(table, ["one sentence", "two of them", "three are more"] * 9).save(
        directory
    )
    return directory


@pytest.fixture
def hostile(plain, tmp_path):
    """The encoder with code of its own, trusted by its `encoder.toml`; and the file that the code leaves."""
    encoder, trace = tmp_path / "hostile", tmp_path / "ran"
    shutil.copytree(plain, encoder)
    (encoder / "backbone" / "own.py").write_text(CODE.format(trace=str(trace)))
    config = encoder / "backbone" / "config.json"
    maps = {"AutoConfig": "own.OwnConfig", "AutoModel": "own.OwnModel"}
    changes = {"model_type": "own-bert", "auto_map": maps}
    config.write_text(json.dumps(json.loads(config.read_text()) | changes))
    toml = encoder / "encoder.toml"
    toml.write_text(
        toml.read_text().replace(
            "trust_remote_code = false", "trust_remote_code = true"
        )
    )
    return encoder, trace


def test_an_encoder_that_trusts_itself_is_not_loaded_unless_the_caller_trusts_it(
    hostile,
):
    encoder, trace = hostile
    with pytest.raises(ModelError, match=REFUSED):
        Encoder.load(encoder)
    assert not trace.exists()
    assert (
        Encoder.load(encoder, trust_remote_code=True).encode(["a sentence"]).shape[0]
        == 1
    )
    assert trace.exists()


def test_code_without_trust_in_the_recipe_does_not_run_either(
    hostile,
):
    encoder, trace = hostile
    toml = encoder / "encoder.toml"
    toml.write_text(
        toml.read_text().replace(
            "trust_remote_code = true", "trust_remote_code = false"
        )
    )
    with pytest.raises(ModelError, match="brings Python code of its own"):
        Encoder.load(encoder, trust_remote_code=True)
    assert not trace.exists()


@pytest.mark.sweep(2)
@pytest.mark.parametrize(
    "command", ["encode-file", "encode-directory", "evaluate", "export"]
)
def test_a_command_runs_code_only_when_told(
    command,
    hostile,
    put,
    tmp_path,
):
    encoder, trace = hostile
    texts = str(put("texts.txt", "one\ntwo\n"))
    pairs = str(
        put(
            "pairs.tsv",
            "sentence1\tsentence2\tscore\na b\tc d\t1.0\na c\tb d\t2.0\nx y\tx z\t3.0\n",
        )
    )
    arguments = {
        "encode-file": [
            "encode",
            str(encoder),
            "--input",
            texts,
            "--output",
            str(tmp_path / "v.npy"),
        ],
        "encode-directory": [
            "encode",
            str(encoder),
            "--input",
            texts,
            "--output",
            str(tmp_path / "v"),
        ],
        "evaluate": [
            "evaluate",
            str(encoder),
            "--with",
            "sts",
            "--set",
            f"path={pairs}",
            "--no-cache",
        ],
        "export": ["export", str(encoder), str(tmp_path / "exported")],
    }[command]
    refused = CliRunner().invoke(main, arguments)
    assert refused.exit_code == 1, refused.output
    assert REFUSED in refused.output
    assert TRUST in refused.output
    assert not trace.exists()
    trusted = CliRunner().invoke(main, [*arguments, TRUST])
    assert trusted.exit_code == 0, trusted.output
    assert trace.exists()
