"""Attention by plain products against PyTorch's own."""

from __future__ import annotations

import pytest
import torch
from sentbed_backbones._torch import short_attention as module
from sentbed_backbones._torch.short_attention import LONGEST, short_attention, suits
from torch.nn import functional

CPU = torch.device("cpu")


def parts(length, large=1.0):
    torch.manual_seed(length)
    query, key, value = torch.randn(3, 5, 4, length, 16)
    return query * large, key, value


def biases(length):
    seen = (
        torch.arange(length)
        < torch.tensor([1, length, length // 2 + 1, length, 2])[:, None, None, None]
    )
    hidden = torch.zeros(seen.shape).masked_fill(~seen, -torch.inf)
    of_heads = torch.randn(1, 4, length, length)
    return {
        "none": None,
        "padding": hidden,
        "heads": of_heads,
        "both": torch.where(seen, of_heads, torch.finfo(torch.float32).min),
    }


@pytest.mark.parametrize("kind", ["none", "padding", "heads", "both"])
@pytest.mark.parametrize("scale", [None, 1.0])
@pytest.mark.parametrize("length", [2, 14, 33])
def test_it_is_softmax_attention(length, scale, kind):
    query, key, value = parts(length)
    bias = biases(length)[kind]
    scores = torch.einsum("bhqd,bhkd->bhqk", query, key).double() * (
        16**-0.5 if scale is None else scale
    )
    weights = (scores if bias is None else scores + bias).softmax(-1)
    expected = torch.einsum("bhqk,bhkd->bhqd", weights, value.double())
    output = short_attention(query, key, value, bias, scale)
    torch.testing.assert_close(output.double(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("large", [400.0, -400.0])
def test_scores_too_large_for_exponentials_are_left_to_pytorch(large, monkeypatch):
    query, key, value = parts(7)
    query, key = query.abs() * large, key.abs()
    expected = functional.scaled_dot_product_attention(query, key, value)
    calls = []
    attend = functional.scaled_dot_product_attention
    monkeypatch.setattr(
        module.functional,
        "scaled_dot_product_attention",
        lambda *a, **k: calls.append(True) or attend(*a, **k),
    )
    assert torch.equal(short_attention(query, key, value), expected)
    assert calls == [True]
    assert expected.isfinite().all()


def test_texts_with_scores_too_large_do_not_disturb_the_others():
    query, key, value = parts(6)
    query[3], key[3] = query[3].abs() * 400, key[3].abs()
    others = [0, 1, 2, 4]
    output = short_attention(query, key, value)
    assert torch.equal(
        output[others], short_attention(query[others], key[others], value[others])
    )
    expected = functional.scaled_dot_product_attention(query[3:4], key[3:4], value[3:4])
    assert torch.equal(output[3:4], expected)


def test_one_row_that_sees_nothing_weighs_all_alike():
    query, key, value = parts(4)
    blind = torch.full((5, 1, 1, 4), torch.finfo(torch.float32).min)
    output = short_attention(query, key, value, blind)
    torch.testing.assert_close(output, value.mean(2, keepdim=True).expand_as(value))


def test_it_suits_short_texts_on_processors_without_a_matrix_unit(processor):
    bf16, fp32 = torch.bfloat16, torch.float32
    processor()
    for dtype in (bf16, fp32):
        assert suits(dtype, CPU, LONGEST[dtype])
        assert not suits(dtype, CPU, LONGEST[dtype] + 1)
        assert not suits(dtype, torch.device("meta"), 8)
    assert not suits(torch.float16, CPU, 8)
    processor(amx_bf16=True)
    assert not suits(bf16, CPU, 8)
    assert suits(fp32, CPU, 8)
