"""Operations and memory of passes equal arithmetic, for products and attention."""

from __future__ import annotations

import pytest
import torch
from sentbed_common.pass_cost import (
    PassCost,
    parameters,
    pass_cost,
    weight_bytes,
)
from torch.nn import functional

ROWS = 10
WIDE = 64
NARROW = 32


def test_a_product_has_two_operations_per_multiply_add_and_keeps_its_result():
    x = torch.randn(ROWS, WIDE)
    weight = torch.randn(NARROW, WIDE)
    bias = torch.randn(NARROW)
    with torch.inference_mode():
        cost = pass_cost(lambda: functional.linear(x, weight, bias))
    assert cost == PassCost(2 * ROWS * WIDE * NARROW, 4 * ROWS * NARROW)


@pytest.mark.parametrize("key_heads", [4, 2])
def test_attention_has_two_products_of_all_pairs_for_each_head(key_heads):
    texts = 2
    heads = 4
    length = 16
    width = 8
    query = torch.randn(texts, heads, length, width)
    key = torch.randn(texts, key_heads, length, width)

    def attention():
        return functional.scaled_dot_product_attention(
            query,
            key,
            key,
            enable_gqa=True,
        )

    with torch.inference_mode():
        cost = pass_cost(attention)
    assert cost.operations == 2 * 2 * texts * heads * length * length * width


def test_memory_is_that_of_the_tensors_that_live_together():
    x = torch.randn(100, 10)

    def compute():
        first = x + 1  # 4,000 bytes
        view = first[:50]
        second = view * 2  # 2,000 bytes
        del first, view
        third = second + 1  # 2,000 bytes
        del second
        third += 1
        return torch.cat([third, third])  # 4,000 bytes

    with torch.inference_mode():
        assert pass_cost(compute) == PassCost(0, 6000)


def test_weights_that_are_shared_count_once_and_buffers_are_held_but_no_parameters():
    first = torch.nn.Linear(4, 4, bias=False)
    second = torch.nn.Linear(4, 4)
    second.weight = first.weight
    third = torch.nn.BatchNorm1d(4)
    module = torch.nn.Sequential(first, second, third)
    assert parameters(module) == 16 + 4 + 8
    # Two float32 buffers of four numbers, and a count in int64.
    assert weight_bytes(module) == 4 * (16 + 4 + 8) + 4 * 8 + 8
