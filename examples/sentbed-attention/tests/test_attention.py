from __future__ import annotations

import math

import pytest
import torch
from sentbed import ModelError
from sentbed.protocols import TokenStates
from sentbed_testing import PoolerContract

from sentbed_attention import Attention


def trained(width: int, heads: int) -> torch.nn.Module:
    """A pooler whose queries are not zero any more."""
    module: torch.nn.Module = Attention(heads=heads).build(width)
    with torch.no_grad():
        for query in module.parameters():
            query.normal_(generator=torch.Generator().manual_seed(1))
    return module


def naive(module: torch.nn.Module, tokens: torch.Tensor) -> list[float]:
    (queries,) = (query.detach() for query in module.parameters())
    width = queries.shape[1]
    vector = []
    for head, query in enumerate(queries):
        parts = [token[head * width : (head + 1) * width] for token in tokens]
        shares = [math.exp(float(query @ part) / math.sqrt(width)) for part in parts]
        for place in range(width):
            total = sum(share * float(part[place]) for share, part in zip(shares, parts, strict=True))
            vector.append(total / sum(shares))
    return vector


class TestAttention(PoolerContract):
    component = Attention()


class TestTwoHeads(PoolerContract):
    component = Attention(heads=2)


@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("short", [[1, 1, 0, 0], [0, 0, 1, 1]], ids=["right", "left"])
def test_the_vector_is_that_of_a_naive_loop(short: list[int], heads: int) -> None:
    hidden = torch.randn(2, 4, 6, generator=torch.Generator().manual_seed(0))
    mask = torch.tensor([[1, 1, 1, 1], short])
    module = trained(6, heads)
    vectors = module(TokenStates(hidden, mask))
    for vector, states, kept in zip(vectors, hidden, mask, strict=True):
        torch.testing.assert_close(vector, torch.tensor(naive(module, states[kept == 1])))
    torch.testing.assert_close(module(TokenStates(hidden[:1], None)), vectors[:1])


def test_before_training_it_is_the_mean_of_the_real_tokens() -> None:
    states = TokenStates(torch.tensor([[[1.0, 2.0], [3.0, 6.0], [9.0, 9.0]]]), torch.tensor([[1, 1, 0]]))
    assert Attention().build(2)(states).tolist() == [[2.0, 4.0]]


def test_states_in_bf16_are_summed_in_fp32() -> None:
    hidden = torch.randn(1, 64, 2, generator=torch.Generator().manual_seed(0)).bfloat16()
    module = trained(2, 1)
    vector = module(TokenStates(hidden, None))
    assert vector.dtype == torch.float32
    torch.testing.assert_close(vector[0], torch.tensor(naive(module, hidden[0].float())))


def test_heads_that_do_not_divide_the_width_are_refused() -> None:
    with pytest.raises(ModelError, match="4 heads, and a token state of width 6"):
        Attention(heads=4).build(6)
