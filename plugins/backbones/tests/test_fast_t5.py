from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers
from sentbed.protocols import BuildContext
from sentbed_backbones._torch.fast_t5 import ATTENTION_TOKENS, LARGEST_FP16, FastT5
from sentbed_backbones._torch.prepacked_cpu_linear import Products
from sentbed_backbones._torch.t5 import T5Family
from sentbed_backbones._torch.token_states import EncoderDecoderStates, EncoderStates
from sentbed_backbones.t5 import T5
from torch.nn import functional

GATED = {"feed_forward_proj": "gated-gelu"}
VARIANTS: dict[str, tuple[type, dict[str, Any]]] = {
    "t5-encoder": (transformers.T5EncoderModel, {}),
    "t5": (transformers.T5Model, {}),
    "t5-1.1-encoder": (transformers.T5EncoderModel, GATED),
    "t5-1.1": (transformers.T5Model, GATED),
    "gated-gelu-new": (
        transformers.T5EncoderModel,
        {"feed_forward_proj": "gated-gelu_new"},
    ),
    "mt5-encoder": (transformers.MT5EncoderModel, {}),
    "mt5": (transformers.MT5Model, {}),
    "wide-heads": (transformers.T5Model, {"d_kv": 24}),
    "shallow-decoder": (transformers.T5Model, {"num_decoder_layers": 1}),
    "another-start": (transformers.T5Model, {"decoder_start_token_id": 7}),
    "few-buckets": (
        transformers.T5EncoderModel,
        {"relative_attention_num_buckets": 8, "relative_attention_max_distance": 16},
    ),
    "epsilon": (transformers.T5Model, {"layer_norm_epsilon": 0.1}),
    "one-layer": (transformers.T5EncoderModel, {"num_layers": 1}),
}
SHAPES = [(1, 1), (1, 14), (2, 3), (3, 31), (7, 9), (13, 1), (5, 14), (2, 200)]


def small(variant, **overrides):
    kind, settings = VARIANTS[variant]
    common = {
        "vocab_size": 80,
        "d_model": 32,
        "d_kv": 8,
        "d_ff": 48,
        "num_heads": 4,
        "num_layers": 3,
        "num_decoder_layers": 2,
    }
    model = kind(kind.config_class(**{**common, **settings, **overrides}))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            spread = 1.0 if "relative_attention_bias" in name else 0.1
            parameter.normal_(1.0 if "norm" in name else 0.0, spread)
    return model.eval()


def decodes(model):
    return hasattr(model, "decoder")


def pack(model, dtype=torch.float32, layers=False):
    return FastT5(model, Products(dtype), layers, decodes(model))


@torch.no_grad()
def expected(model, ids, mask, layers=False):
    states = EncoderDecoderStates if decodes(model) else EncoderStates
    return states(model, layers)(ids, mask)


@pytest.fixture(params=VARIANTS)
def model(request):
    return small(request.param)


@pytest.fixture(params=["t5-encoder", "t5-1.1"])
def either(request):
    """An encoder with a plain inner layer, an encoder and decoder with a gated one."""
    return small(request.param)


def random_ids(rows, length, seed=0):
    return torch.randint(
        5, 70, (rows, length), generator=torch.Generator().manual_seed(seed)
    )


def mixed(rows, length, side):
    lengths = torch.arange(rows) * 5 % length + 1
    lengths[0] = length
    mask = (torch.arange(length) < lengths[:, None]).long()
    if side == "left":
        mask = mask.flip(1)
    return torch.where(mask.bool(), random_ids(rows, length), 0), mask


def tensors(states):
    yield states.last_hidden_state
    yield from states.layers or ()
    if states.decoder_state is not None:
        yield states.decoder_state


def assert_close(actual, right):
    for a, b in zip(tensors(actual), tensors(right), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-5)


@pytest.mark.sweep(4)
def test_fp32_states_are_those_of_transformers(model):
    assert FastT5.fits(model)
    assert_all_shapes(model, "left")


@pytest.mark.parametrize("side", [None, "right"])
def test_fp32_states_under_any_padding_are_those_of_transformers(either, side):
    assert_all_shapes(either, side)


def assert_all_shapes(model, side):
    packed = pack(model, layers=True)
    for rows, length in SHAPES:
        ids, mask = (
            (random_ids(rows, length), None)
            if side is None
            else mixed(rows, length, side)
        )
        states = packed(ids, mask)
        assert states.attention_mask is mask
        assert (states.decoder_state is not None) == decodes(model)
        assert states.layers is not None
        assert len(states.layers) == model.config.num_layers + 1
        assert_close(states, expected(model, ids, mask, layers=True))


@pytest.mark.parametrize("side", ["right", "left"])
def test_a_padded_row_has_the_states_that_it_has_alone(either, side):
    packed = pack(either)
    ids, mask = mixed(7, 19, side)
    states = packed(ids, mask)
    for row, real in enumerate(mask.bool()):
        alone = packed(ids[row : row + 1, real], None)
        torch.testing.assert_close(
            states.last_hidden_state[row, real],
            alone.last_hidden_state[0],
            rtol=0,
            atol=1e-5,
        )
        if states.decoder_state is not None:
            torch.testing.assert_close(
                states.decoder_state[row], alone.decoder_state[0], rtol=0, atol=1e-5
            )


def test_the_decoder_is_not_computed_where_it_is_not_wanted():
    model = small("t5")
    ids = random_ids(3, 6)
    states = FastT5(model, Products(torch.float32))(ids, None)
    assert states.decoder_state is None
    with_decoder = pack(model)(ids, None)
    assert with_decoder.decoder_state is not None
    assert torch.equal(states.last_hidden_state, with_decoder.last_hidden_state)


def test_only_short_bf16_rows_on_a_processor_are_grouped():
    model = small("t5-encoder")
    fp32, bf16 = pack(model), pack(model, torch.bfloat16)
    assert bf16.group(100, 8) == ATTENTION_TOKENS // 8
    assert bf16.group(3, 1) == 3
    assert bf16.group(100, ATTENTION_TOKENS) == bf16.group(100, 200) == 1
    assert fp32.group(100, 8) == 1
    bf16.words = bf16.words.to("meta")
    assert bf16.group(100, 8) == 1


def test_the_bias_of_a_length_is_computed_once(monkeypatch):
    packed = pack(small("t5-encoder"))
    bucket, lengths = packed.bucket, []

    def counted(distances):
        lengths.append(len(distances))
        return bucket(distances)

    monkeypatch.setattr(packed, "bucket", counted)
    for length in (6, 6, 6, 9, 9, 6):
        packed(random_ids(2, length), None)
        packed(*mixed(3, length, "right"))
    assert lengths == [6, 9, 6]


def test_fp16_states_that_overflow_are_bounded_as_in_transformers(
    monkeypatch,
):
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    model = small("t5")
    with torch.no_grad():
        for stack in (model.encoder, model.decoder):
            stack.block[0].layer[-1].DenseReluDense.wo.weight *= 1e5
    model = model.half()
    ids = random_ids(3, 7)
    packed, right = (
        pack(model, torch.float16, layers=True)(ids, None),
        expected(model, ids, None, layers=True),
    )
    assert packed.layers is not None
    assert right.layers is not None
    assert right.layers[1].abs().max() == packed.layers[1].abs().max() == LARGEST_FP16
    for state, other in zip(tensors(packed), tensors(right), strict=True):
        assert state.dtype == torch.float16
        assert (
            functional.cosine_similarity(state.float(), other.float(), dim=-1).min()
            > 0.999
        )


@pytest.mark.parametrize(
    "projection", ["gelu", "gelu_new", "silu", "gated-relu", "gated-silu"]
)
def test_a_feed_forward_part_that_is_not_packed_does_not_fit(projection):
    assert not FastT5.fits(small("t5-encoder", feed_forward_proj=projection))


def test_other_architectures_do_not_fit():
    sizes = {
        "vocab_size": 80,
        "d_model": 32,
        "d_kv": 8,
        "d_ff": 48,
        "num_heads": 4,
        "num_layers": 1,
    }
    umt5 = transformers.UMT5EncoderModel(transformers.UMT5Config(**sizes))
    head = transformers.T5ForConditionalGeneration(transformers.T5Config(**sizes))
    causal = transformers.T5EncoderModel(
        transformers.T5Config(**sizes, is_decoder=True)
    )
    for model in (umt5, head, head.encoder, causal):
        assert not FastT5.fits(model)


@pytest.mark.parametrize(
    "needs", [frozenset(), frozenset({"layers"}), frozenset({"decoder"})], ids=str
)
@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_the_backbone_encodes_by_the_packed_form(sentences, needs, version):
    context = BuildContext(lambda: sentences, needs=needs)
    built = T5(version=version, vocab_size=300, dropout=0.5).build(context)
    packed = built.inference(built.module, torch.float32)
    assert any(isinstance(part, FastT5) for part in packed.modules())
    ids = random_ids(4, 9)
    states = packed(ids, None)
    assert (states.decoder_state is not None) == ("decoder" in needs)
    assert (states.layers is not None) == ("layers" in needs)
    assert_close(states, expected(built.model.eval(), ids, None, "layers" in needs))


def test_the_family_packs_nothing_that_does_not_fit():
    sizes = {
        "vocab_size": 80,
        "d_model": 32,
        "d_kv": 8,
        "d_ff": 48,
        "num_heads": 4,
        "num_layers": 1,
    }
    model = transformers.UMT5EncoderModel(transformers.UMT5Config(**sizes))
    family = T5Family(T5(), frozenset())
    assert family.fast_pass(model, Products(torch.float32)) is None
