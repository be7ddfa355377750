"""What the packed forms of BERT, OPT, LLaMA and T5 have in common."""

from __future__ import annotations

import pytest
import torch
import transformers
from sentbed_backbones._torch.fast_bert import FastBert
from sentbed_backbones._torch.fast_causal import FastCausal
from sentbed_backbones._torch.fast_t5 import FastT5
from sentbed_backbones._torch.prepacked_cpu_linear import Products
from sentbed_backbones._torch.token_states import (
    CausalStates,
    EncoderDecoderStates,
    EncoderStates,
)
from torch.nn import functional

PADDING = 1
SHAPES = [(1, 1), (1, 14), (2, 3), (3, 31), (7, 9), (13, 1), (5, 14), (2, 50)]
"""Rows and tokens of batches."""

SIZES = {
    "vocab_size": 80,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    "pad_token_id": PADDING,
}
T5_SIZES = {
    "vocab_size": 80,
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 48,
    "num_heads": 4,
    "num_layers": 2,
    "pad_token_id": PADDING,
}
MODELS = {
    "bert": transformers.BertConfig(**SIZES, intermediate_size=48),
    "roberta": transformers.RobertaConfig(**SIZES, intermediate_size=48),
    "opt": transformers.OPTConfig(**SIZES, ffn_dim=48, word_embed_proj_dim=32),
    "llama": transformers.LlamaConfig(
        **SIZES, intermediate_size=48, num_key_value_heads=2
    ),
    "t5": transformers.T5Config(**T5_SIZES),
    "t5-1.1": transformers.T5Config(**T5_SIZES, feed_forward_proj="gated-gelu"),
}
FORMS = {
    "bert": FastBert,
    "roberta": FastBert,
    "opt": FastCausal,
    "llama": FastCausal,
    "t5": FastT5,
}


@pytest.fixture(params=MODELS)
def model(request):
    """A random model, whose biases, norms and position biases are not 0 and 1."""
    model = transformers.AutoModel.from_config(MODELS[request.param])
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            mean, deviation = 0.0, 0.1
            if "norm" in name.lower() and name.endswith("weight"):
                mean = 1.0
            if "relative_attention_bias" in name:
                deviation = 1.0
            parameter.normal_(mean, deviation)
    return model.eval()


def form_of(model):
    return FORMS[model.config.model_type]


def pack(model, dtype=torch.float32, layers=True):
    options = {"decodes": True} if form_of(model) is FastT5 else {}
    return form_of(model)(model, Products(dtype), layers, **options)


@torch.no_grad()
def states_of_transformers(model, ids, mask):
    kind = model.config.model_type
    if kind == "t5":
        return EncoderDecoderStates(model, True)(ids, mask)
    if kind in ("opt", "llama"):
        return CausalStates(model, True)(ids, mask)
    return EncoderStates(model, True, counts=kind == "bert")(ids, mask)


def random_ids(rows, length, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(5, 70, (rows, length), generator=generator)


def padded_ids(rows, length, side="right"):
    lengths = torch.arange(rows) * 5 % length + 1
    lengths[0] = length
    mask = (torch.arange(length) < lengths[:, None]).long()
    if side == "left":
        mask = mask.flip(1)
    return torch.where(mask.bool(), random_ids(rows, length), PADDING), mask


def tensors(states, mask=None):
    """Return the states of the real tokens, of each layer, and of the decoder."""
    layers = [states.last_hidden_state, *(states.layers or ())]
    if mask is not None:
        layers = [layer[mask.bool()] for layer in layers]
    if states.decoder_state is not None:
        layers.append(states.decoder_state)
    return layers


def assert_close(actual, expected, atol=1e-5):
    """Compare states; kernels add in orders of their own, and rounding grows with the largest state."""
    for tensor, other in zip(actual, expected, strict=True):
        largest = max(1.0, other.abs().max().item())
        torch.testing.assert_close(tensor, other, rtol=0, atol=atol * largest)


def assert_equal(actual, expected):
    assert all(map(torch.equal, actual, expected))


def test_states_without_onednn_are_those_of_transformers(model, monkeypatch):
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    ids, mask = padded_ids(5, 9)
    expected = states_of_transformers(model, ids, mask)
    assert_close(tensors(pack(model)(ids, mask), mask), tensors(expected, mask))


@pytest.mark.parametrize("group", [2, 3, 5, 16])
def test_rows_that_attend_as_a_group_do_not_see_each_other(model, monkeypatch, group):
    monkeypatch.setattr(form_of(model), "group", lambda *_: group)
    packed = pack(model)
    for rows, length in SHAPES:
        ids = random_ids(rows, length)
        expected = states_of_transformers(model, ids, None)
        assert_close(tensors(packed(ids, None)), tensors(expected))


@pytest.mark.instructions("bf16")
def test_bf16_states_point_where_those_of_transformers_do(model):
    packed = pack(model, torch.bfloat16, layers=False)
    for rows, length in SHAPES:
        for ids, mask in ((random_ids(rows, length), None), padded_ids(rows, length)):
            actual = tensors(packed(ids, mask), mask)
            expected = states_of_transformers(model, ids, mask)._replace(layers=None)
            for state, other in zip(actual, tensors(expected, mask), strict=True):
                assert state.dtype == torch.bfloat16
                cosine = functional.cosine_similarity(state.float(), other, dim=-1)
                assert cosine.min() > 0.999


@pytest.mark.parametrize("side", ["right", "left"])
def test_what_stands_in_the_place_of_padding_does_not_matter(model, side):
    if model.config.model_type == "roberta":
        pytest.skip("RoBERTa finds padding by its id")
    packed = pack(model)
    ids, mask = padded_ids(5, 12, side)
    other = torch.where(mask.bool(), ids, 33)
    assert_close(tensors(packed(other, mask), mask), tensors(packed(ids, mask), mask))


def test_a_row_of_padding_alone_is_finite_and_disturbs_no_other(model):
    packed = pack(model)
    ids, mask = padded_ids(4, 8, "left")
    mask[2] = 0
    others = torch.tensor([0, 1, 3])
    actual = tensors(packed(ids, mask))
    expected = tensors(packed(ids[others], mask[others]))
    assert all(states.isfinite().all() for states in actual)
    assert_close([states[others] for states in actual], expected, atol=1e-6)


def test_layers_are_returned_on_request_and_change_nothing(model):
    ids = random_ids(3, 6)
    last, every = pack(model, layers=False)(ids, None), pack(model)(ids, None)
    assert last.layers is None
    assert torch.equal(every.layers[-1], last.last_hidden_state)
    assert torch.equal(every.last_hidden_state, last.last_hidden_state)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_weights_are_copied(model, dtype):
    packed = pack(model.to(dtype), dtype)
    ids = random_ids(2, 40)
    before = [states.clone() for states in tensors(packed(ids, None))]
    with torch.no_grad():
        for tensor in (*model.parameters(), *model.buffers()):
            tensor.fill_(7)
    # T5 keeps the position bias of the last length.
    packed(random_ids(2, 3), None)
    assert_equal(tensors(packed(ids, None)), before)


def test_states_have_no_gradient(model):
    states = tensors(pack(model)(random_ids(2, 5), None))
    assert not any(state.requires_grad for state in states)
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_there_is_no_dropout_in_training_mode(model):
    for part in model.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.5
    packed = pack(model.train())
    ids = random_ids(3, 6)
    expected = states_of_transformers(model.eval(), ids, None)
    assert_close(tensors(packed(ids, None)), tensors(expected))


def test_a_subclass_with_a_forward_pass_of_its_own_is_not_packed(model):
    kind = type("Shifted", (type(model),), {})
    assert form_of(model).fits(model)
    assert not form_of(model).fits(kind(model.config))


def test_a_model_with_a_layer_of_another_package_is_not_packed(model):
    class Adapter(torch.nn.Linear):
        pass

    for name, part in model.named_modules():
        if isinstance(part, torch.nn.Linear):
            model.set_submodule(name, Adapter(part.in_features, part.out_features))
            break
    assert not form_of(model).fits(model)


def test_several_threads_at_a_time_get_what_one_gets(model, assert_reentrant):
    # T5 keeps the position bias of the last length: lengths take turns.
    padded = [padded_ids(rows, length) for rows, length in SHAPES]
    plain = [(random_ids(rows, length), None) for rows, length in SHAPES]
    assert_reentrant(pack(model), [*padded, *plain])
