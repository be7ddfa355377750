"""Checkpoints in the layouts of SimCSE's code, against its formula on transformers' own states."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from sentbed import Encoder, ModelError
from sentbed_interop.from_simcse import FromSimCSE
from sentbed_testing import SENTENCES

pytestmark = pytest.mark.slow

TEXTS = (*SENTENCES[:6], "")
WEIGHTS = "model.safetensors"


@pytest.fixture
def checkpoint(tiny_bert, tmp_path):
    """Write a checkpoint; returns its directory and the MLP."""

    def write(layer, prefix, name, kind="bert"):
        directory = tmp_path / "checkpoint"
        shutil.copytree(tiny_bert / "backbone", directory)
        states = load_file(directory / WEIGHTS)
        (directory / WEIGHTS).unlink()
        config = json.loads((directory / "config.json").read_text())
        if kind == "roberta":
            torch.manual_seed(0)
            config["model_type"] = kind
            model = transformers.RobertaModel(
                transformers.RobertaConfig(**config), add_pooling_layer=False
            )
            states = dict(model.state_dict())
        config["architectures"] = [
            f"{kind.title()}ForCL" if prefix else f"{kind.title()}Model"
        ]
        (directory / "config.json").write_text(json.dumps(config))
        draw = torch.Generator().manual_seed(1)
        mlp = {
            "weight": torch.randn(128, 128, generator=draw) / 8,
            "bias": torch.randn(128, generator=draw),
        }
        weights = {f"{prefix}{key}": value.clone() for key, value in states.items()}
        weights |= {f"{layer}.{key}": value for key, value in mlp.items()}
        if prefix and name != WEIGHTS:
            # The head for masked words shares the embeddings, as in training with `do_mlm`.
            weights["lm_head.decoder.weight"] = weights[
                f"{prefix}embeddings.word_embeddings.weight"
            ]
        if name == WEIGHTS:
            save_file(weights, directory / name, {"format": "pt"})
        else:
            torch.save(weights, directory / name)
        return directory, mlp

    return write


def by_hand(encoder, mlp):
    """Encode each text alone with transformers' model and the MLP over its first token."""
    model = encoder.backbone
    tokenizer = model.tokenizer.original
    rows = []
    for text in TEXTS:
        ids = torch.tensor(
            [tokenizer(text, truncation=True, max_length=20)["input_ids"]]
        )
        with torch.no_grad():
            first = model.model.eval()(input_ids=ids).last_hidden_state[0, 0]
        rows.append(
            first if mlp is None else torch.tanh(mlp["weight"] @ first + mlp["bias"])
        )
    return torch.stack(rows).numpy()


@pytest.mark.sweep(2)
@pytest.mark.parametrize("name", [WEIGHTS, "pytorch_model.bin"])
@pytest.mark.parametrize(
    ("layer", "prefix", "kind"),
    [
        ("mlp.dense", "bert.", "bert"),
        ("mlp.dense", "roberta.", "roberta"),
        ("pooler.dense", "", "bert"),
    ],
)
def test_both_layouts_give_the_vectors_of_simcse(
    layer, prefix, kind, name, checkpoint, tmp_path
):
    directory, mlp = checkpoint(layer, prefix, name, kind)
    assert FromSimCSE().recognises(directory) == bool(prefix)
    encoder = FromSimCSE(max_length=20).read(directory)
    assert encoder.recipe.pooler.name == "cls-mlp"
    assert encoder.recipe.backbone.model == str(directory)
    stored = {"safetensors": load_file, "bin": torch.load}[name.rpartition(".")[2]](
        directory / name
    )
    weights = encoder.backbone.model.state_dict()
    assert weights.keys() == {
        key.removeprefix(prefix) for key in stored if not key.startswith(("lm_", layer))
    }
    for key, value in weights.items():
        torch.testing.assert_close(value, stored[prefix + key], rtol=0, atol=0)
    np.testing.assert_allclose(
        encoder.encode(TEXTS), by_hand(encoder, mlp), rtol=0, atol=1e-5
    )
    encoder.save(tmp_path / "saved")
    shutil.rmtree(directory)
    np.testing.assert_array_equal(
        Encoder.load(tmp_path / "saved").encode(TEXTS), encoder.encode(TEXTS)
    )


def test_an_unsupervised_model_uses_the_mlp_in_training_only(checkpoint):
    directory, mlp = checkpoint("mlp.dense", "bert.", WEIGHTS)
    encoder = FromSimCSE(mlp_only_train=True, max_length=20).read(directory)
    np.testing.assert_allclose(
        encoder.encode(TEXTS), by_hand(encoder, None), rtol=0, atol=1e-5
    )
    pooler = encoder.placed.module.pooler
    torch.testing.assert_close(pooler.dense.weight.detach(), mlp["weight"])


def test_a_pickle_with_more_than_tensors_is_refused_and_not_run(checkpoint, tmp_path):
    directory, _ = checkpoint("mlp.dense", "bert.", "pytorch_model.bin")
    torch.save({"weight": Touch(tmp_path / "ran")}, directory / "pytorch_model.bin")
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        FromSimCSE().read(directory)
    assert not (tmp_path / "ran").exists()


class Touch:
    """Makes a file when it is unpickled."""

    def __init__(self, file):
        self.file = file

    def __reduce__(self):
        return Path.touch, (self.file,)


def test_what_is_no_simcse_model_is_refused(checkpoint, tiny_bert, tiny_t5):
    assert not FromSimCSE().recognises(tiny_bert / "backbone")
    assert not FromSimCSE().recognises(tiny_bert)
    with pytest.raises(
        ModelError,
        match=r"has no MLP .*; write a recipe with this model and `pooler = ",
    ):
        FromSimCSE().read(tiny_bert / "backbone")
    with pytest.raises(
        ModelError, match="is a `t5`, and SimCSE's code trains `bert` and `roberta`"
    ):
        FromSimCSE().read(tiny_t5 / "backbone")
    directory, mlp = checkpoint("mlp.dense", "bert.", WEIGHTS)
    weights = load_file(directory / WEIGHTS)
    weights["mlp.dense.weight"][0, 0] = float("nan")
    save_file(weights, directory / WEIGHTS, {"format": "pt"})
    with pytest.raises(
        ModelError, match="NaN or infinite values as the weight of a layer"
    ):
        FromSimCSE().read(directory)
    save_file(
        {f"mlp.dense.{key}": value for key, value in mlp.items()}, directory / WEIGHTS
    )
    with pytest.raises(
        ModelError, match=r"makes no encoder|do not fit|cannot be loaded"
    ):
        FromSimCSE().read(directory)
    (directory / WEIGHTS).unlink()
    with pytest.raises(
        ModelError,
        match=r"holds no weights \(`\*.safetensors` or `pytorch_model.bin`\)",
    ):
        FromSimCSE().read(directory)
