from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers
from sentbed_backbones._torch.pooler_states import PoolerStates
from sentbed_backbones._torch.shared_prefix import SharedPrefixStates
from sentbed_backbones._torch.token_states import CausalStates

VOCABULARY, WIDTH, LENGTH = 60, 32, 9
LENGTHS = (9, 4, 1, 7)

IDS = {
    "vocab_size": VOCABULARY,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 1,
}
LLAMA = {
    "hidden_size": WIDTH,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 64,
}
CAUSAL: dict[str, dict[str, Any]] = {
    "gpt2": {"n_embd": WIDTH, "n_layer": 3, "n_head": 4, "n_positions": 40},
    "mistral": {**LLAMA, "num_key_value_heads": 2, "sliding_window": 5},
    "llama": LLAMA,
    "opt": {
        "hidden_size": WIDTH,
        "ffn_dim": 64,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "word_embed_proj_dim": WIDTH,
        "max_position_embeddings": 40,
    },
}


def small(kind):
    """A model in eval mode, with weights as far from the mean as a trained model's."""
    config = transformers.AutoConfig.for_model(kind, **IDS, **CAUSAL[kind])
    model = transformers.AutoModel.from_config(config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, float(parameter.ndim == 1), 0.1)
    return model.eval()


def batch(side):
    """Rows of mixed lengths; what is padding is no pad id, and must not matter."""
    mask = (torch.arange(LENGTH) < torch.tensor(LENGTHS)[:, None]).long()
    if side == "left":
        mask = mask.flip(1)
    real = torch.randint(
        5, VOCABULARY, (sum(LENGTHS),), generator=torch.Generator().manual_seed(1)
    )
    ids = torch.full_like(mask, 3)
    ids[mask.bool()] = real
    return ids, mask


def rows(ids, mask):
    """Each row's real ids, `(1, length)`."""
    return [row[kept.bool()][None] for row, kept in zip(ids, mask, strict=True)]


def assert_close(actual, expected):
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-5)


def assert_rows(states, expected):
    """The real tokens' states, and those of each layer where there are any, are those of these outputs."""
    assert states.attention_mask is not None
    assert len(states.last_hidden_state) == len(expected)
    for row, output in enumerate(expected):
        real = states.attention_mask[row].bool()
        assert_close(states.last_hidden_state[row][real], output.last_hidden_state[0])
        if states.layers is not None:
            assert len(states.layers) == len(output.hidden_states) == 4
            for layer, right in zip(states.layers, output.hidden_states, strict=True):
                assert_close(layer[row][real], right[0])


@pytest.fixture(autouse=True)
def _no_gradient():
    with torch.no_grad():
        yield


PREFIX = torch.tensor([11, 12, 13, 14, 15, 16, 17])


def behind(model, prefix, ids, mask):
    """Naively: each text whole, without cache and padding."""
    return [
        model(input_ids=torch.cat([prefix[None], row], 1), output_hidden_states=True)
        for row in rows(ids, mask)
    ]


# Behind a prefix, padding on the left would stand within the text, and in the window of Mistral's attention.
@pytest.mark.parametrize(
    ("kind", "side"),
    [
        (k, s)
        for k in CAUSAL
        for s in ("right", "left")
        if (k, s) != ("mistral", "left")
    ],
)
def test_states_behind_a_prefix_are_those_of_the_whole_text(kind, side):
    model = small(kind)
    shared = SharedPrefixStates(CausalStates(model, True))
    ids, mask = batch(side)
    expected = behind(model, PREFIX, ids, mask)
    for _ in range(2):
        states = shared(ids, mask, PREFIX)
        assert states.attention_mask.tolist() == [
            [1] * len(PREFIX) + row for row in mask.tolist()
        ]
        assert_rows(states, expected)


@pytest.mark.parametrize("kind", CAUSAL)
def test_rows_of_one_length_need_no_mask_behind_a_prefix(kind):
    model = small(kind)
    ids = batch("right")[0]
    states = SharedPrefixStates(CausalStates(model, False))(ids, None, PREFIX)
    assert states.attention_mask is None
    assert states.layers is None
    for row, output in enumerate(behind(model, PREFIX, ids, torch.ones_like(ids))):
        assert_close(states.last_hidden_state[row], output.last_hidden_state[0])


def test_a_prefix_goes_through_the_model_once():
    model = small("gpt2")
    lengths = []
    model.wte.register_forward_hook(
        lambda _, inputs, __: lengths.append(inputs[0].shape[1])
    )
    shared = SharedPrefixStates(CausalStates(model, False))
    ids, mask = batch("right")
    for _ in range(3):
        shared(ids, mask, PREFIX)
    assert lengths == [len(PREFIX), LENGTH, LENGTH, LENGTH]


def test_the_mask_state_behind_a_shared_prefix_is_that_of_the_whole_text():
    ids, _ = batch("right")
    model = small("llama")
    prefix = torch.cat([PREFIX, torch.tensor([50])])
    ids[0, 4] = 50
    whole_ids = torch.cat([prefix.expand(len(ids), -1), ids], 1)
    read = PoolerStates(CausalStates(model, False), [(-1,)], False, 50)
    expected = read(whole_ids, None).mask_state
    read = PoolerStates(
        SharedPrefixStates(CausalStates(model, False)), [(-1,)], False, 50
    )
    assert_close(read(ids, None, prefix).mask_state, expected)
