from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers
from sentbed_backbones._torch.fast_causal import FastCausal
from sentbed_backbones._torch.prepacked_cpu_linear import Products
from sentbed_backbones._torch.shared_prefix import SharedPrefixStates
from torch.nn import functional

POSITIONS = 64
YARN = {
    "rope_type": "yarn",
    "rope_theta": 10000.0,
    "factor": 4.0,
    "original_max_position_embeddings": 16,
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
DYNAMIC = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0}
FACTORS = {
    "short_factor": [1.0] * 8,
    "long_factor": [1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5],
}
LONG = {"rope_type": "longrope", "rope_theta": 10000.0, "factor": 4.0, **FACTORS}

VARIANTS: dict[str, dict[str, Any]] = {
    "opt": {},
    "opt-gelu": {"activation_function": "gelu"},
    "opt-norm-behind": {"do_layer_norm_before": False},
    "opt-projected": {"word_embed_proj_dim": 32},
    "opt-norm-behind-projected": {
        "do_layer_norm_before": False,
        "word_embed_proj_dim": 32,
    },
    "opt-without-bias": {"enable_bias": False},
    "opt-without-norm-weights": {"layer_norm_elementwise_affine": False},
    "opt-without-final-norm": {"_remove_final_layer_norm": True},
    "llama": {},
    "llama-swish": {"hidden_act": "swish"},
    "llama-grouped-queries": {"num_key_value_heads": 2},
    "llama-one-key-head": {"num_key_value_heads": 1},
    "llama-attention-bias": {"attention_bias": True},
    "llama-inner-bias": {"mlp_bias": True, "num_key_value_heads": 2},
    "llama-wide-heads": {"head_dim": 24},
    "llama-epsilon": {"rms_norm_eps": 0.1},
    "llama-rope-linear": {
        "rope_parameters": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 3.0}
    },
    "llama-rope-yarn": {"rope_parameters": YARN},
    "llama-rope-llama3": {"rope_parameters": LLAMA3, "num_key_value_heads": 2},
}
SHAPES = [(1, 1), (1, 14), (2, 3), (3, 31), (7, 9), (13, 1), (2, 50)]
PREFIX = 9


def small(variant, **overrides):
    """A random model of two layers, biases and norms included; its weights are larger than at the start of
    training, so that attention and inner layer change the states."""
    common = {
        "vocab_size": 80,
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "max_position_embeddings": POSITIONS,
        "pad_token_id": 1,
    }
    settings = {**common, **VARIANTS.get(variant, {}), **overrides}
    if variant.startswith("opt"):
        model = transformers.OPTModel(transformers.OPTConfig(ffn_dim=96, **settings))
    else:
        model = transformers.LlamaModel(
            transformers.LlamaConfig(intermediate_size=96, **settings)
        )
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            around = 1.0 if "norm" in name and name.endswith("weight") else 0.0
            parameter.normal_(around, 0.1)
    return model.eval()


@pytest.fixture(params=VARIANTS)
def model(request):
    return small(request.param)


@pytest.fixture(params=["opt", "llama-grouped-queries"])
def either(request):
    """A model of each architecture, where the variants run the same code."""
    return small(request.param)


def pack(model, dtype=torch.float32, layers=False):
    return SharedPrefixStates(FastCausal(model, Products(dtype), layers))


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
    return torch.where(mask.bool(), random_ids(rows, length), 1), mask


def the_prefix(seed=5):
    return random_ids(1, PREFIX, seed)[0]


@torch.no_grad()
def one_by_one(
    model,
    ids,
    mask,
    prefix,
):
    """The states of each row's real tokens, prefix included, from transformers without any padding."""
    for row in range(len(ids)):
        kept = ids[row] if mask is None else ids[row][mask[row].bool()]
        text = kept if prefix is None else torch.cat([prefix, kept])
        yield model(input_ids=text[None], output_hidden_states=True)


def assert_same(model, states, ids, mask, prefix=None):
    shared = 0 if prefix is None else len(prefix)
    assert states.last_hidden_state.shape[:2] == (len(ids), shared + ids.shape[1])
    if mask is None:
        assert states.attention_mask is None
    else:
        assert states.attention_mask is not None
        assert states.attention_mask.dtype == mask.dtype
        assert states.attention_mask[:, :shared].all()
        assert torch.equal(states.attention_mask[:, shared:], mask)
    for row, expected in enumerate(one_by_one(model, ids, mask, prefix)):
        real = (
            slice(None)
            if states.attention_mask is None
            else states.attention_mask[row].bool()
        )
        token_states = states.last_hidden_state[row][real]
        torch.testing.assert_close(
            token_states, expected.last_hidden_state[0], rtol=0, atol=1e-5
        )
        if states.layers is not None:
            assert len(states.layers) == len(expected.hidden_states)
            for layer, right in zip(states.layers, expected.hidden_states, strict=True):
                torch.testing.assert_close(
                    layer[row][real], right[0], rtol=0, atol=1e-5
                )


@pytest.mark.sweep(5)
@pytest.mark.parametrize(
    ("side", "prefix"), [(None, None), ("left", the_prefix())], ids=["alone", "prefix"]
)
def test_fp32_states_are_those_of_transformers(model, side, prefix):
    assert FastCausal.fits(model)
    assert_all_shapes(model, side, prefix)


@pytest.mark.parametrize("prefix", [None, the_prefix()], ids=["alone", "prefix"])
@pytest.mark.parametrize("side", [None, "right", "left"])
def test_fp32_states_under_any_padding_are_those_of_transformers(either, side, prefix):
    assert_all_shapes(either, side, prefix)


def assert_all_shapes(model, side, prefix):
    packed = pack(model, layers=True)
    for rows, length in SHAPES:
        ids, mask = (
            (random_ids(rows, length), None)
            if side is None
            else mixed(rows, length, side)
        )
        assert_same(model, packed(ids, mask, prefix), ids, mask, prefix)


@torch.no_grad()
def test_padded_states_are_those_of_a_padded_batch_in_transformers(model):
    packed = pack(model)
    for side in ("right", "left"):
        ids, mask = mixed(6, 11, side)
        expected = model(input_ids=ids, attention_mask=mask).last_hidden_state
        states = packed(ids, mask).last_hidden_state
        real = mask.bool()
        torch.testing.assert_close(states[real], expected[real], rtol=0, atol=1e-5)


def test_a_mask_without_padding_changes_nothing(either):
    packed = pack(either)
    ids = random_ids(4, 7)
    for prefix in (None, the_prefix()):
        states = packed(ids, torch.ones_like(ids), prefix).last_hidden_state
        assert torch.equal(states, packed(ids, None, prefix).last_hidden_state)


@pytest.mark.sweep(3)
@pytest.mark.parametrize("group", [2, 3, 5, 16])
def test_rows_that_attend_as_a_group_behind_a_prefix_do_not_see_each_other(
    either, monkeypatch, group
):
    prefix = the_prefix()
    # No more than there are: a prefix is a single row.
    monkeypatch.setattr(FastCausal, "group", lambda _, rows, *__: min(group, rows))
    packed = pack(either)
    for rows, length in SHAPES:
        ids = random_ids(rows, length)
        assert_same(either, packed(ids, None, prefix), ids, None, prefix)


def test_rows_are_grouped_on_a_processor_only_where_they_are_short(either):
    fp32, bf16 = (
        FastCausal(either, Products(torch.float32)),
        FastCausal(either, Products(torch.bfloat16)),
    )
    assert fp32.group(100, 23, 0) == 1
    assert fp32.group(100, 23, 37) == 2
    assert fp32.group(100, 12, 37) == 4
    assert bf16.group(100, 8, 0) == 4
    for packed in (fp32, bf16):
        assert packed.group(100, 200, 0) == packed.group(100, 200, 37) == 1
        assert packed.group(3, 1, 37) == 3
        packed.words = packed.words.to("meta")
        assert packed.group(100, 8, 0) == packed.group(100, 8, 37) == 1


@pytest.mark.parametrize("scaling", [DYNAMIC, LONG], ids=["dynamic", "longrope"])
@torch.no_grad()
def test_scaling_that_depends_on_the_length_is_that_of_the_batch(scaling):
    """Short, long, short."""
    settings = {"max_position_embeddings": 24, "rope_parameters": scaling}
    if scaling is LONG:
        settings["rope_parameters"] = {**LONG, "original_max_position_embeddings": 24}
        settings["max_position_embeddings"] = POSITIONS
    model = small("llama", **settings)
    packed = pack(model)
    for length in (10, 40, 10):
        ids = random_ids(3, length)
        assert_same(model, packed(ids, None), ids, None)


@pytest.mark.instructions("bf16")
def test_bf16_states_point_where_fp32_states_do(model):
    prefix = the_prefix()
    exact, packed = (
        pack(model),
        pack(model, torch.bfloat16),
    )
    for side in ("right", "left"):
        for rows, length in SHAPES:
            ids, mask = mixed(rows, length, side)
            states = packed(ids, mask, prefix)
            assert states.last_hidden_state.dtype == torch.bfloat16
            assert states.attention_mask is not None
            real = states.attention_mask.bool()
            expected = exact(ids, mask, prefix).last_hidden_state[real]
            token_states = states.last_hidden_state[real].float()
            assert (
                functional.cosine_similarity(token_states, expected, dim=-1).min()
                > 0.999
            )


@pytest.mark.parametrize(
    ("variant", "overrides"),
    [
        ("opt", {"activation_function": "gelu_new"}),
        ("opt", {"activation_function": "silu"}),
        ("llama", {"hidden_act": "gelu"}),
    ],
)
def test_an_activation_that_is_not_packed_does_not_fit(variant, overrides):
    assert not FastCausal.fits(small(variant, **overrides))


def test_other_architectures_do_not_fit():
    sizes = {
        "vocab_size": 80,
        "hidden_size": 64,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
    }
    mistral = transformers.MistralModel(
        transformers.MistralConfig(**sizes, intermediate_size=96, num_key_value_heads=2)
    )
    bert = transformers.BertModel(
        transformers.BertConfig(**sizes, intermediate_size=96)
    )
    head = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(**sizes, intermediate_size=96)
    )
    for model in (mistral, bert, head):
        assert not FastCausal.fits(model)
    assert FastCausal.fits(head.model)


def test_several_threads_at_a_time_get_what_one_gets(either, assert_reentrant):
    prefix = the_prefix()
    padded = [(*mixed(rows, length, "left"), prefix) for rows, length in SHAPES]
    plain = [(random_ids(rows, length), None) for rows, length in SHAPES]
    assert_reentrant(pack(either), [*padded, *plain])


@pytest.mark.parametrize("scaling", [DYNAMIC, LONG], ids=["dynamic", "longrope"])
def test_frequencies_that_follow_the_longest_text_are_for_one_thread(
    scaling,
):
    model = small(
        "llama", rope_parameters={**scaling, "original_max_position_embeddings": 24}
    )
    assert not FastCausal(model, Products(torch.float32)).reentrant
