"""Texts of one length attend without a mask, in encoding and training: a GPU then takes flash attention."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sentbed import Encoder
from sentbed._encoder.batching import pad
from sentbed.protocols import EncoderRecipe, TokenIds, Training
from sentbed_backbones.bert import Bert
from sentbed_backbones.causal import Causal
from sentbed_backbones.opt import Opt
from sentbed_backbones.t5 import T5
from sentbed_hardware.adamw import AdamW
from sentbed_hardware.cpu import Cpu
from sentbed_hardware.learning_rate_schedules import Constant
from sentbed_losses.info_nce import InfoNCE
from sentbed_poolers.last import Last
from sentbed_poolers.mean import Mean

TEXTS = [
    "a cat sleeps near the house",
    "two birds sing in a tree",
    "rain falls on the river today",
]
BACKBONES = {
    "bert": (Bert, Mean()),
    "t5": (T5, Mean()),
    "opt": (Opt, Last()),
    "llama": (Causal, Last()),
}
BOTH_WAYS = {"attention": "bidirectional"}


@pytest.fixture
def attended(monkeypatch):
    """Mask and causality of every attention."""
    calls = []
    whole = torch.nn.functional.scaled_dot_product_attention

    def attend(*arguments, attn_mask=None, is_causal=False, **more):
        calls.append((None if attn_mask is None else tuple(attn_mask.shape), is_causal))
        return whole(*arguments, attn_mask=attn_mask, is_causal=is_causal, **more)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", attend)
    return calls


def encoder_of(name, **fields):
    backbone, pooler = BACKBONES[name]
    engine = Cpu(threads=1).build()
    engine.seed(0)
    recipe = EncoderRecipe(
        backbone(init="random", vocab_size=400, **fields), pooler, max_length=32
    )
    return Encoder.build(recipe, engine, lambda: TEXTS)


def of_length(length):
    ids = np.random.default_rng(length).integers(5, 20, 3 * length, dtype=np.int32)
    return TokenIds(ids, np.arange(4, dtype=np.int64) * length)


@pytest.mark.parametrize(
    ("name", "fields"),
    [*((name, {}) for name in BACKBONES), ("opt", BOTH_WAYS), ("llama", BOTH_WAYS)],
)
@pytest.mark.parametrize("trains", [False, True])
def test_texts_of_one_length_attend_without_a_mask(name, fields, trains, attended):
    encoder = encoder_of(name, **fields)
    attended.clear()
    if trains:
        towers = {"anchor": "encoder", "positive": "encoder"}
        training = Training(
            InfoNCE(temperature=0.05), AdamW(lr=1e-3), Constant(), 10, towers
        )
        trainer = encoder.engine.trainer({"encoder": encoder.placed}, training)
        trainer.step({"anchor": of_length(7), "positive": of_length(7)})
    else:
        encoder.placed.encode(
            pad(of_length(7), np.arange(3), encoder.backbone.tokenizer.pad_id)
        )
    # Two layers; a T5 adds what it has learned of distances.
    expected = {
        "bert": (None, False),
        "t5": ((1, 2, 7, 7), False),
        "opt": (None, not fields),
        "llama": (None, not fields),
    }
    assert attended == [expected[name]] * 2
