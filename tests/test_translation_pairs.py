"""Training on translation pairs against a frozen teacher that is wider than its student."""

from __future__ import annotations

import numpy as np
import sentbed
import torch
from safetensors.torch import load_file, save_file
from sentbed.protocols import BuildContext
from sentbed_backbones.bert import Bert

RECIPE = """
schema = 1
[run]
name = "pairs"
[runtime]
use = "cpu"
threads = 1
[encoders.source]
max_length = 16
backbone = { use = "bert", init = "random", vocab_size = 300, size = "mini" }
pooler = { use = "first" }
[encoders.en]
max_length = 16
backbone = { use = "bert", init = "random", vocab_size = 300, size = "tiny" }
pooler = { use = "cls-mlp", mlp_only_train = true, mlp_width = 256 }
[[stage]]
name = "b"
train = "en"
freeze = "source"
columns = { anchor = "en", positive = "source" }
data = { use = "pairs", path = "pkg:sentbed_data/sample/triplets.csv", anchor = "sent0", positive = "sent1" }
loss = { use = "queue", size = 16 }
optimizer = { use = "adamw", lr = 1e-3 }
schedule = { use = "constant" }
steps = 2
batch_size = 8
"""
SENTENCES = ["A cat sits on the mat.", "A dog barks at night.", "Two men play chess."]


def load(tmp_path, *settings):
    file = tmp_path / "recipe.toml"
    file.write_text(RECIPE)
    return sentbed.load_recipe(file, settings)


def test_what_is_evaluated_is_the_state_of_the_first_token_itself(
    tmp_path,
):
    run = sentbed.run(load(tmp_path), tmp_path / "run")
    encoder = sentbed.Encoder.load(run.directory / "encoder" / "en")
    # The trained backbone, read without a pooler or head of its own.
    built = Bert(init="random").build(
        BuildContext(tuple, run.directory / "encoder" / "en" / "backbone")
    )
    states = []
    for sentence in SENTENCES:
        tokens = built.tokenizer.encode([sentence], 16)
        ids = torch.from_numpy(tokens.ids[None].astype(np.int64))
        states.append(
            built.module.eval()(ids, None).last_hidden_state[0, 0].detach().numpy()
        )
    np.testing.assert_allclose(encoder.encode(SENTENCES), states, atol=1e-5)


def test_a_teacher_has_the_mlp_of_its_own_model(tmp_path):
    torch.manual_seed(0)
    Bert(init="random", vocab_size=100).build(BuildContext(lambda: SENTENCES)).save(
        tmp_path / "model"
    )
    file = tmp_path / "model" / "model.safetensors"
    weight, bias = torch.randn(128, 128) / 10, torch.randn(128)
    save_file(
        {**load_file(file), "pooler.dense.weight": weight, "pooler.dense.bias": bias},
        file,
    )

    def encoder(**pooler):
        model = {"use": "bert", "model": str(tmp_path / "model")}
        return sentbed.Encoder.of(
            {"backbone": model, "pooler": pooler, "max_length": 16}
        )

    teacher = encoder(use="cls-mlp", pretrained=True)
    states = torch.from_numpy(encoder(use="first").encode(SENTENCES))
    expected = torch.tanh(states @ weight.T + bias).numpy()
    np.testing.assert_allclose(teacher.encode(SENTENCES), expected, atol=1e-5)
    teacher.save(tmp_path / "saved")
    loaded = sentbed.Encoder.load(tmp_path / "saved")
    np.testing.assert_array_equal(loaded.encode(SENTENCES), teacher.encode(SENTENCES))
