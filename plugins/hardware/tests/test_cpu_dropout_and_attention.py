from __future__ import annotations

import math

import pytest
import torch
import transformers
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
    mask = CpuDropoutAndAttention().mask((count,), rate, dtype)
    assert mask.dtype == dtype
    dropped, kept = mask.unique().tolist()
    assert dropped == 0
    assert kept == pytest.approx(
        1 / (1 - rate), rel=2**-8 if dtype == torch.bfloat16 else 1e-4
    )
    deviation = math.sqrt(rate * (1 - rate) / count)
    assert abs((mask == 0).double().mean().item() - rate) < 5 * deviation
    halves = (mask == 0).double()
    for lag in (1, 2, 3, 4, BLOCK):
        together = (halves[lag:] * halves[:-lag]).mean().item()
        assert abs(together - rate**2) < 5 * math.sqrt(rate**2 * (1 - rate**2) / count)


def test_masks_follow_the_seed_and_not_the_number_of_threads():
    def masks(seed, threads):
        torch.manual_seed(seed)
        torch.set_num_threads(threads)
        with CpuDropoutAndAttention():
            x = torch.ones(BLOCK // 256 + 3, 512)
            return [functional.dropout(x, 0.3), functional.dropout(x, 0.3)]

    first, second = masks(1, 1)
    assert not torch.equal(first, second)
    assert all(
        torch.equal(a, b) for a, b in zip(masks(1, 2), (first, second), strict=True)
    )
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
        found = functional.dropout(torch.ones(7, 5), rate, training)
    assert torch.equal(found, torch.full((7, 5), expected))
    assert rate == 1.0 or torch.equal(torch.get_rng_state(), state)


# attention


def inputs_of(length, dtype):
    """Queries, keys and values as a model has them: `(batch, heads, length, width)`, not contiguous."""
    return [
        torch.randn(BATCH, length, HEADS, WIDTH)
        .to(dtype)
        .requires_grad_()
        .transpose(1, 2)
        for _ in range(3)
    ]


def naive(
    parts,
    allowed,
    dropout,
    scale,
):
    """One head of one text at a time, in fp64."""
    texts = []
    for text in range(BATCH):
        heads = []
        for head in range(HEADS):
            query, key, value = (part[text, head].double() for part in parts)
            scores = (query @ key.T * scale).masked_fill(~allowed[text], -math.inf)
            heads.append((scores.softmax(-1) * dropout[text, head].double()) @ value)
        texts.append(torch.stack(heads))
    return torch.stack(texts)


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
def test_attention_and_its_gradients_are_those_of_a_naive_loop(
    kind, dtype, dropout, tolerance
):
    length = 11
    parts = inputs_of(length, dtype)
    allowed = torch.ones(BATCH, length, length, dtype=torch.bool)
    given = {}
    if kind in ("padding", "added"):
        allowed[1, :, 5:] = False
        given["attn_mask"] = allowed[:, None]
    if kind == "added":
        given["attn_mask"] = torch.zeros(allowed.shape).masked_fill(
            ~allowed, -math.inf
        )[:, None]
    if kind == "causal":
        allowed = allowed.tril()
        given["is_causal"] = True
    torch.manual_seed(1)
    with CpuDropoutAndAttention():
        found = functional.scaled_dot_product_attention(
            *parts, dropout_p=dropout, scale=0.4, **given
        )
    torch.manual_seed(1)
    shape = (BATCH, HEADS, length, length)
    mask = (
        CpuDropoutAndAttention().mask(shape, dropout, dtype)
        if dropout
        else torch.ones(shape)
    )
    expected = naive(parts, allowed, mask, 0.4)
    assert found.dtype == dtype
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=2 * tolerance)
    slope = torch.randn(found.shape)
    own = torch.autograd.grad(found, parts, slope.to(dtype))
    for one, other in zip(
        own, torch.autograd.grad(expected, parts, slope.double()), strict=True
    ):
        assert other.norm() > 1
        assert (one.double() - other).norm() < tolerance * other.norm()


def test_texts_that_see_nothing_have_finite_attention():
    parts = inputs_of(6, torch.bfloat16)
    nothing = torch.zeros(BATCH, 1, 6, 6, dtype=torch.bool)
    with CpuDropoutAndAttention():
        found = functional.scaled_dot_product_attention(*parts, attn_mask=nothing)
    gradients = torch.autograd.grad(found.sum(), parts)
    assert all(torch.isfinite(part).all() for part in (found, *gradients))


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
        found = functional.scaled_dot_product_attention(*parts, **options)
    torch.manual_seed(1)
    assert torch.equal(
        found, functional.scaled_dot_product_attention(*parts, **options)
    )


@pytest.mark.sweep(1)
@pytest.mark.parametrize("family", ["bert", "opt", "t5"])
def test_a_models_bf16_gradient_is_as_near_to_fp32_as_with_pytorchs_attention(
    family,
):
    sizes = {
        "vocab_size": 50,
        "hidden_size": 32,
        "num_attention_heads": 2,
    }
    config = {
        "bert": lambda: transformers.BertConfig(
            **sizes, num_hidden_layers=2, intermediate_size=64
        ),
        "opt": lambda: transformers.OPTConfig(
            **sizes,
            num_hidden_layers=2,
            ffn_dim=64,
            word_embed_proj_dim=32,
            dropout=0.0,
        ),
        "t5": lambda: transformers.T5Config(
            vocab_size=50,
            d_model=32,
            d_kv=16,
            d_ff=64,
            num_layers=2,
            num_heads=2,
            dropout_rate=0.0,
        ),
    }[family]()
    if family == "bert":
        config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.0
    model = (
        transformers.T5EncoderModel
        if family == "t5"
        else transformers.AutoModel.from_config
    )(config)
    model.train()
    ids = torch.randint(3, 50, (4, 12))
    mask = torch.ones_like(ids)
    mask[1, 7:] = 0
    weights = torch.randn(4, 12, 32)

    def gradient(dtype, own):
        model.zero_grad()
        with torch.autocast("cpu", dtype, dtype != torch.float32):
            if own:
                with CpuDropoutAndAttention():
                    states = model(input_ids=ids, attention_mask=mask).last_hidden_state
            else:
                states = model(input_ids=ids, attention_mask=mask).last_hidden_state
        ((states.float() * weights) * mask[:, :, None]).sum().backward()
        return torch.cat(
            [p.grad.flatten() for p in model.parameters() if p.grad is not None]
        )

    exact = gradient(torch.float32, own=False)
    assert torch.equal(gradient(torch.float32, own=True), exact)
    theirs, own = (
        (gradient(torch.bfloat16, own=own) - exact).norm() / exact.norm()
        for own in (False, True)
    )
    assert own < max(1.25 * theirs, 0.01)
