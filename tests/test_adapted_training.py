"""A tiny OPT trains under PromptEOL with LoRA, on plain and on 4-bit weights, from recipe to export."""

from __future__ import annotations

import numpy as np
import pytest
import sentbed
import torch
from sentbed import Encoder
from sentbed.protocols import BuildContext, EncoderRecipe, Training
from sentbed_backbones.adaptation import LoRA
from sentbed_backbones.opt import Opt
from sentbed_hardware.adamw import AdamW
from sentbed_hardware.cpu import Cpu
from sentbed_hardware.learning_rate_schedules import Constant
from sentbed_interop.merged_adapters import save_merged
from sentbed_losses.info_nce import InfoNCE
from sentbed_poolers.prompt_eol import PromptEOL

SENTENCES = [
    f"The {animal} {verb} near the {place}."
    for animal in ("cat", "dog", "bird", "old horse")
    for verb in ("sleeps", "waits", "runs and jumps")
    for place in ("house", "river", "big tree")
]
OTHERS = [
    f"Close to the {place}, a {animal} {verb}."
    for animal in ("cat", "dog", "bird", "old horse")
    for verb in ("sleeps", "waits", "runs and jumps")
    for place in ("house", "river", "big tree")
]


def trainer_of(encoder, loss, optimizer, steps):
    towers = {"anchor": "encoder", "positive": "encoder"}
    training = Training(loss, optimizer, Constant(), steps, towers)
    return encoder.engine.trainer({"encoder": encoder.placed}, training)


@pytest.fixture
def model(tmp_path):
    torch.manual_seed(0)
    built = Opt(init="random", vocab_size=400).build(
        BuildContext(lambda: SENTENCES + OTHERS)
    )
    built.save(tmp_path / "opt")
    return str(tmp_path / "opt")


@pytest.mark.parametrize(
    "quantization", [None, pytest.param("nf4", marks=pytest.mark.slow)]
)
def test_only_the_adapter_is_trained_saved_and_exported(model, tmp_path, quantization):
    backbone = Opt(
        model=sentbed.ModelId(model),
        lora=LoRA(r=4, dropout=0.0),
        quantization=quantization,
    )
    engine = Cpu().build()
    engine.seed(0)
    encoder = Encoder.build(EncoderRecipe(backbone, PromptEOL(), max_length=16), engine)
    placed = encoder.placed
    before = {name: value.clone() for name, value in placed.module.state_dict().items()}
    vectors_before = encoder.encode(SENTENCES)
    trainer = trainer_of(encoder, InfoNCE(temperature=0.05), AdamW(lr=5e-3), 12)
    tokenizer = encoder.tokenizer(normalize=False)
    columns = {
        "anchor": tokenizer.encode(SENTENCES, 16),
        "positive": tokenizer.encode(OTHERS, 16),
    }
    losses = [trainer.step(columns).loss for _ in range(12)]

    assert losses[-1] < losses[0] - 0.5

    after = placed.module.state_dict()
    changed = {
        name for name, value in after.items() if not torch.equal(value, before[name])
    }

    assert changed
    assert all("lora_" in name for name in changed)

    adapters = sum(value.numel() for name, value in after.items() if "lora_" in name)
    states = trainer.optimizer.state_dict()["state"].values()
    state_size = sum(
        value.numel()
        for state in states
        for name, value in state.items()
        if name != "step"
    )

    assert state_size == 2 * adapters

    vectors = encoder.encode(SENTENCES)

    assert np.abs(vectors - vectors_before).max() > 0.01

    encoder.save(tmp_path / "saved")
    written = {
        path.name for path in (tmp_path / "saved" / "backbone").rglob("*.safetensors")
    }

    assert written == {"adapter_model.safetensors"}
    np.testing.assert_array_equal(
        Encoder.load(tmp_path / "saved").encode(SENTENCES), vectors
    )

    save_merged(encoder, tmp_path / "exported")
    exported = Encoder.load(tmp_path / "exported")

    assert (exported.recipe.backbone.lora, exported.recipe.backbone.quantization) == (
        None,
        None,
    )
    np.testing.assert_allclose(exported.encode(SENTENCES), vectors, atol=2e-5)
    assert not list((tmp_path / "exported").rglob("adapter*"))


def test_a_quantised_model_without_adapter_has_nothing_to_train(model):
    engine = Cpu().build()
    backbone = Opt(model=sentbed.ModelId(model), quantization="nf4")
    encoder = Encoder.build(EncoderRecipe(backbone, PromptEOL(), max_length=16), engine)

    with pytest.raises(
        sentbed.RunError,
        match=r"nothing in this encoder can be trained.*add `lora = \{\}`",
    ):
        trainer_of(encoder, InfoNCE(), AdamW(lr=1e-3), 1)
