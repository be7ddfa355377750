from __future__ import annotations

import pytest
import torch
import transformers
from sentbed_backbones._torch import fast_bert
from sentbed_backbones._torch.fast_bert import ATTENTION_TOKENS, FastBert
from sentbed_backbones._torch.prepacked_cpu_linear import Products
from sentbed_backbones.bert import Bert
from torch.nn import functional

PLAIN = ["bert", "roberta", "xlm-roberta"]
SHAPES = [
    (1, 1),
    (1, 2),
    (1, 14),
    (2, 3),
    (3, 7),
    (5, 8),
    (7, 14),
    (9, 31),
    (13, 5),
    (65, 1),
    (4, 38),
]


@pytest.fixture
def load(save_model):
    def model(kind="bert", **overrides):
        return transformers.AutoModel.from_pretrained(
            save_model(kind, **overrides)
        ).eval()

    return model


def random_ids(rows, length, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(5, 70, (rows, length), generator=generator)


def right_padded(rows, length, pad_id):
    lengths = torch.arange(rows) * 5 % length + 1
    lengths[0] = length
    mask = (torch.arange(length) < lengths[:, None]).long()
    return torch.where(mask.bool(), random_ids(rows, length), pad_id), mask


@torch.no_grad()
def states_of(model, ids, mask=None):
    return model(input_ids=ids, attention_mask=mask).last_hidden_state


@pytest.mark.parametrize("kind", PLAIN)
def test_fp32_states_are_those_of_transformers_without_padding(load, kind):
    model = load(kind)
    packed = FastBert(model, Products(torch.float32))
    for rows, length in SHAPES:
        ids = random_ids(rows, length)
        states = packed(ids, None)
        assert states.attention_mask is None
        torch.testing.assert_close(
            states.last_hidden_state, states_of(model, ids), rtol=0, atol=1e-5
        )


@pytest.mark.parametrize("kind", PLAIN)
def test_fp32_states_are_those_of_transformers_with_padding(load, kind):
    model = load(kind)
    packed = FastBert(model, Products(torch.float32))
    for rows, length in SHAPES:
        ids, mask = right_padded(rows, length, model.config.pad_token_id)
        states = packed(ids, mask)
        assert states.attention_mask is mask
        real = mask.bool()
        expected = states_of(model, ids, mask)
        torch.testing.assert_close(
            states.last_hidden_state[real], expected[real], rtol=0, atol=1e-5
        )


@pytest.mark.parametrize("kind", PLAIN)
def test_the_padding_token_inside_a_text_is_read_as_transformers_reads_it(load, kind):
    """A text may hold `<pad>` literally; RoBERTa's positions do not count it."""
    model = load(kind)
    ids = random_ids(2, 9)
    ids[0, 4] = model.config.pad_token_id
    mask = torch.ones_like(ids)
    expected = states_of(model, ids, mask)
    states = FastBert(model, Products(torch.float32))(ids, mask).last_hidden_state
    torch.testing.assert_close(states, expected, rtol=0, atol=1e-5)


@pytest.mark.instructions("bf16")
@pytest.mark.parametrize("amx", [True, False])
def test_bf16_states_with_padding_point_where_fp32_states_do(load, processor, amx):
    processor(amx_bf16=amx)
    model = load()
    packed = FastBert(model, Products(torch.bfloat16))
    for rows, length in SHAPES:
        ids, mask = right_padded(rows, length, 0)
        states = packed(ids, mask).last_hidden_state.float()
        cosine = functional.cosine_similarity(
            states, states_of(model, ids, mask), dim=-1
        )
        assert cosine[mask.bool()].min() > 0.999


@pytest.mark.instructions("bf16")
@pytest.mark.parametrize("amx", [True, False])
def test_a_bf16_sentence_has_the_same_states_alone_and_among_others(
    load, processor, amx
):
    processor(amx_bf16=amx)
    packed = FastBert(load(), Products(torch.bfloat16))
    ids = random_ids(7, 14)
    assert (packed.group(14) > 1) == amx
    together = packed(ids, None).last_hidden_state.float()
    for row in range(7):
        alone = packed(ids[row : row + 1], None).last_hidden_state.float()
        assert (
            functional.cosine_similarity(alone[0], together[row], dim=-1).min() > 0.9999
        )


@pytest.mark.instructions("bf16")
@pytest.mark.parametrize("length", [1, 2, 14, 40])
def test_short_attention_is_that_of_the_fused_kernel(
    load, monkeypatch, processor, length
):
    model, ids = load(), random_ids(9, length)
    processor()
    plain = FastBert(model, Products(torch.bfloat16))(
        ids, None
    ).last_hidden_state.float()
    monkeypatch.setattr(fast_bert, "suits", lambda *_: False)
    fused = FastBert(model, Products(torch.bfloat16))(
        ids, None
    ).last_hidden_state.float()
    assert not torch.equal(plain, fused) or length == 1
    assert functional.cosine_similarity(plain, fused, dim=-1).min() > 0.999
    assert (
        functional.cosine_similarity(plain, states_of(model, ids), dim=-1).min() > 0.999
    )


def test_only_short_bf16_sentences_are_grouped_for_amx(load, processor):
    processor(amx_bf16=True)
    model = load()
    bf16, fp32 = (
        FastBert(model, Products(torch.bfloat16)),
        FastBert(model, Products(torch.float32)),
    )
    assert bf16.group(8) == ATTENTION_TOKENS // 8
    assert bf16.group(ATTENTION_TOKENS) == 1
    assert fp32.group(8) == 1
    bf16.words = bf16.words.to("meta")
    assert bf16.group(8) == 1


def test_the_epsilon_of_layer_normalisation_is_the_models_own(load):
    model = load(layer_norm_eps=0.1)
    ids = random_ids(3, 7)
    states = FastBert(model, Products(torch.float32))(ids, None).last_hidden_state
    torch.testing.assert_close(states, states_of(model, ids), rtol=0, atol=1e-5)


@pytest.mark.sweep(2)
@pytest.mark.parametrize(
    ("kind", "overrides"),
    [
        ("bert", {"hidden_act": "relu"}),
        ("bert", {"hidden_act": "gelu_new"}),
        ("bert", {"is_decoder": True}),
        ("distilbert", {}),
        ("electra", {}),
        ("camembert", {}),
        ("mpnet", {}),
    ],
)
def test_another_architecture_is_encoded_by_a_copy_of_the_module(
    save_model, no_texts, kind, overrides
):
    built = Bert(model=str(save_model(kind, **overrides))).build(no_texts)
    built.module.train()
    copy = built.inference(built.module, torch.float32)
    assert not isinstance(copy, FastBert)
    assert built.module.training
    assert not copy.training
    assert not any(parameter.requires_grad for parameter in copy.parameters())
    assert all(parameter.requires_grad for parameter in built.module.parameters())
    ids, mask = right_padded(5, 9, built.tokenizer.pad_id)
    states = copy(ids, mask).last_hidden_state
    expected = states_of(built.module.model.eval(), ids, mask)
    torch.testing.assert_close(
        states[mask.bool()], expected[mask.bool()], rtol=0, atol=1e-6
    )
    with torch.no_grad():
        for parameter in built.module.parameters():
            parameter.fill_(7.0)
    assert torch.equal(copy(ids, mask).last_hidden_state, states)


def test_a_copy_in_bf16_has_bf16_weights_and_leaves_the_original_in_fp32(
    save_model, no_texts
):
    built = Bert(model=str(save_model("electra"))).build(no_texts)
    copy = built.inference(built.module, torch.bfloat16)
    assert {parameter.dtype for parameter in copy.parameters()} == {torch.bfloat16}
    assert {parameter.dtype for parameter in built.module.parameters()} == {
        torch.float32
    }


@pytest.mark.parametrize("kind", PLAIN)
@pytest.mark.parametrize("training", [True, False])
def test_plain_architectures_are_packed_without_dropout_whatever_mode_the_module_is_in(
    save_model, no_texts, kind, training
):
    built = Bert(model=str(save_model(kind)), dropout=0.5).build(no_texts)
    built.module.train(training)
    packed = built.inference(built.module, torch.float32)
    assert isinstance(packed, FastBert)
    assert built.module.training == training
    ids = random_ids(3, 6)
    expected = states_of(built.module.model.eval(), ids)
    torch.testing.assert_close(
        packed(ids, None).last_hidden_state, expected, rtol=0, atol=1e-5
    )
