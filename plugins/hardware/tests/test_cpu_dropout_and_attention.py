from __future__ import annotations

import math

import pytest
import torch
from sentbed_hardware._torch.cpu_dropout_and_attention import (
    BLOCK,
    CpuDropoutAndAttention,
)
from torch.nn import functional

BATCH, HEADS, WIDTH = 3, 2, 8


@pytest.fixture(autouse=True)
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    torch.manual_seed(0)
    yield
    torch.set_num_threads(before)


# masks


@pytest.mark.sweep(2)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_a_mask_drops_at_the_rate_and_keeps_the_mean(rate, dtype):
    count = 2 * BLOCK + 5
    mask = CpuDropoutAndAttention().dropout_mask((count,), rate, dtype)
    assert mask.dtype == dtype
    low, high = mask.unique().tolist()
    assert low == 0
    tolerance = 2**-8 if dtype == torch.bfloat16 else 1e-4
    assert high == pytest.approx(1 / (1 - rate), rel=tolerance)
    dropped = (mask == 0).double()
    require_frequency(dropped, rate)
    for lag in (1, 2, 3, 4, BLOCK):
        require_frequency(dropped[lag:] * dropped[:-lag], rate**2)


def require_frequency(values, probability):
    """Require that the mean of zeros and ones is within five standard deviations of their probability."""
    deviation = math.sqrt(probability * (1 - probability) / len(values))
    assert abs(values.mean().item() - probability) < 5 * deviation


def test_masks_follow_the_seed_and_not_the_number_of_threads():
    def masks(seed, threads):
        torch.manual_seed(seed)
        torch.set_num_threads(threads)
        with CpuDropoutAndAttention():
            x = torch.ones(BLOCK // 256 + 3, 512)
            return [functional.dropout(x, 0.3), functional.dropout(x, 0.3)]

    first, second = masks(1, 1)
    assert not torch.equal(first, second)
    assert all(map(torch.equal, masks(1, 2), (first, second)))
    assert not torch.equal(masks(2, 1)[0], first)


def test_the_gradient_of_dropout_has_the_mask_of_its_output():
    x = torch.rand(50, 40).add(1).requires_grad_()
    with CpuDropoutAndAttention():
        y = functional.dropout(x, 0.3)
    y.sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(y, x * x.grad)
    assert 0 < (x.grad == 0).sum() < x.numel()


@pytest.mark.parametrize(
    ("rate", "training", "expected"),
    [(0.0, True, 1.0), (0.4, False, 1.0), (1.0, True, 0.0)],
)
def test_what_needs_no_mask_draws_nothing(rate, training, expected):
    state = torch.get_rng_state()
    with CpuDropoutAndAttention():
        result = functional.dropout(torch.ones(7, 5), rate, training)
    assert torch.equal(result, torch.full((7, 5), expected))
    assert rate == 1.0 or torch.equal(torch.get_rng_state(), state)


# attention


def inputs_of(length, dtype):
    """Queries, keys and values as a model has them: `(batch, heads, length, width)`, not contiguous."""
    inputs = []
    for _ in range(3):
        states = torch.randn(BATCH, length, HEADS, WIDTH).to(dtype).requires_grad_()
        inputs.append(states.transpose(1, 2))

    return inputs


def attention_by_hand(inputs, allowed, dropout_mask, scale):
    """Compute attention in float64."""
    query, key, value = (states.double() for states in inputs)
    scores = query @ key.transpose(2, 3) * scale
    scores = scores.masked_fill(~allowed[:, None], -math.inf)
    return (scores.softmax(-1) * dropout_mask.double()) @ value


@pytest.mark.sweep(4)
@pytest.mark.parametrize("kind", ["none", "padding", "added", "causal"])
@pytest.mark.parametrize(
    ("dtype", "dropout", "tolerance"),
    [
        (torch.float32, 0.3, 1e-6),
        (torch.bfloat16, 0.3, 2e-2),
        (torch.bfloat16, 0.0, 2e-2),
    ],
)
def test_attention_and_its_gradients_are_those_computed_by_hand(
    kind, dtype, dropout, tolerance
):
    length = 11
    inputs = inputs_of(length, dtype)
    allowed = torch.ones(BATCH, length, length, dtype=torch.bool)
    options = {"dropout_p": dropout, "scale": 0.4}
    if kind == "causal":
        allowed = allowed.tril()
        options["is_causal"] = True
    elif kind != "none":
        allowed[1, :, 5:] = False
        options["attn_mask"] = allowed[:, None]
    if kind == "added":
        bias = torch.zeros(allowed.shape).masked_fill(~allowed, -math.inf)
        options["attn_mask"] = bias[:, None]
    torch.manual_seed(1)
    with CpuDropoutAndAttention():
        attended = functional.scaled_dot_product_attention(*inputs, **options)

    torch.manual_seed(1)
    mask = torch.ones(BATCH, HEADS, length, length)
    if dropout:
        mask = CpuDropoutAndAttention().dropout_mask(mask.shape, dropout, dtype)
    expected = attention_by_hand(inputs, allowed, mask, 0.4)
    assert attended.dtype == dtype
    torch.testing.assert_close(attended.double(), expected, rtol=0, atol=2 * tolerance)

    slope = torch.randn(attended.shape)
    gradients = torch.autograd.grad(attended, inputs, slope.to(dtype))
    by_hand = torch.autograd.grad(expected, inputs, slope.double())
    for gradient, exact in zip(gradients, by_hand, strict=True):
        assert exact.norm() > 1
        assert (gradient.double() - exact).norm() < tolerance * exact.norm()


def test_texts_that_see_nothing_have_finite_attention():
    parts = inputs_of(6, torch.bfloat16)
    nothing = torch.zeros(BATCH, 1, 6, 6, dtype=torch.bool)
    with CpuDropoutAndAttention():
        attended = functional.scaled_dot_product_attention(*parts, attn_mask=nothing)
    gradients = torch.autograd.grad(attended.sum(), parts)
    assert all(torch.isfinite(tensor).all() for tensor in (attended, *gradients))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"dropout_p": 0.2, "attn_mask": "learned"},
        {"dropout_p": 0.2, "enable_gqa": True},
    ],
)
def test_what_has_no_faster_form_is_pytorchs_to_the_bit(
    options,
):
    parts = inputs_of(9, torch.float32)
    if "attn_mask" in options:
        options = {
            **options,
            "attn_mask": torch.randn(BATCH, HEADS, 9, 9, requires_grad=True),
        }
    torch.manual_seed(1)
    with CpuDropoutAndAttention():
        attended = functional.scaled_dot_product_attention(*parts, **options)
    torch.manual_seed(1)
    expected = functional.scaled_dot_product_attention(*parts, **options)
    assert torch.equal(attended, expected)
