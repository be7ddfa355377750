"""Shapes that are built from a configuration alone are those of the backbone that is loaded."""

from __future__ import annotations

import pytest
import torch
from sentbed.protocols import BuildContext
from sentbed_backbones.adaptation import Freeze, LoRA
from sentbed_backbones.bert import Bert
from sentbed_backbones.causal import Causal
from sentbed_backbones.opt import Opt
from sentbed_backbones.t5 import T5

NOTHING: frozenset[str] = frozenset()
DECODER = frozenset({"decoder"})


def shapes_of(backbone, needs=NOTHING):
    with torch.device("meta"):
        return backbone.build(BuildContext(tuple, needs=needs, shapes_only=True))


def trained(module):
    return [tuple(p.shape) for p in module.parameters() if p.requires_grad]


def held_bytes(module):
    return sum(getattr(p, "held_bytes", p.nbytes) for p in module.parameters())


@pytest.mark.parametrize(
    ("kind", "make", "needs"),
    [
        ("bert", Bert, NOTHING),
        ("bert", lambda model: Bert(model=model, init="random"), NOTHING),
        (
            "bert",
            lambda model: Bert(model=model, freeze=Freeze(embeddings=True, layers=1)),
            NOTHING,
        ),
        ("t5", T5, NOTHING),
        ("t5", T5, DECODER),
        ("opt", lambda model: Opt(model=model, lora=LoRA(r=3)), NOTHING),
        ("llama-grouped", lambda model: Causal(model=model, dtype="bf16"), NOTHING),
    ],
    ids=["bert", "random", "frozen", "t5", "decoder", "lora", "bf16"],
)
def test_shapes_are_those_of_the_model_that_is_loaded(
    kind,
    make,
    needs,
    save_model,
):
    directory = save_model(kind)
    backbone = make(model=str(directory))
    loaded = backbone.build(BuildContext(tuple, needs=needs))
    (directory / "model.safetensors").write_bytes(b"no weight is read")
    shapes = shapes_of(backbone, needs)
    assert trained(shapes.module) == trained(loaded.module)
    assert held_bytes(shapes.module) == held_bytes(loaded.module)
    assert (shapes.width, shapes.max_length) == (loaded.width, loaded.max_length)
    texts = ["A test."]
    expected = loaded.tokenizer.encode(texts, 16).ids.tolist()
    assert shapes.tokenizer.encode(texts, 16).ids.tolist() == expected


@pytest.mark.slow
def test_four_bits_take_what_bitsandbytes_takes(
    save_model,
):
    pytest.importorskip("bitsandbytes")
    model = str(
        save_model("opt", hidden_size=128, ffn_dim=512, word_embed_proj_dim=128)
    )
    backbone = Opt(model=model, dtype="bf16", quantization="nf4", lora=LoRA(r=2))
    loaded = backbone.build(BuildContext(tuple)).module
    loaded_bytes = held_bytes(loaded)
    for parameter in loaded.parameters():
        state = getattr(parameter, "quant_state", None)
        if state is None:
            continue
        second = state.state2
        tables = [state.absmax, state.code, state.offset]
        tables += [second.absmax, second.code]
        for table in tables:
            loaded_bytes += table.nbytes
    shapes = shapes_of(backbone).module
    assert held_bytes(shapes) == pytest.approx(loaded_bytes, rel=0.01)
    assert trained(shapes) == trained(loaded)


@pytest.mark.slow
def test_a_random_model_has_at_most_the_largest_vocabulary(
    sentences,
):
    backbone = Bert(init="random", vocab_size=200)
    shapes = shapes_of(backbone)
    loaded = backbone.build(BuildContext(lambda: sentences))
    missing = 200 - loaded.model.config.vocab_size
    assert missing > 0
    counts = []
    for built in (shapes, loaded):
        count = 0
        for parameter in built.module.parameters():
            count += parameter.numel()
        counts.append(count)

    assert counts[0] - missing * 128 == counts[1]
    assert "at most 200" in shapes.origin["vocabulary"]
    assert shapes.tokenizer is None
