from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sentbed.protocols import TokenStates
from sentbed_poolers.latent_attention import LatentAttention


def norm(row, layer):
    scale, shift = (
        value.detach().double().numpy() for value in (layer.weight, layer.bias)
    )
    centred = row - row.mean()
    return centred / np.sqrt((centred**2).mean() + layer.eps) * scale + shift


def matrix(layer):
    return layer.weight.detach().double().numpy()


def naive(module, states):
    """One sentence, one token, one head and one latent after the other, in float64."""
    latents = [
        norm(row, module.latent_norm)
        for row in module.latents.detach().double().numpy()
    ]
    keys, values = np.split(
        np.array([matrix(module.key_value) @ row for row in latents]), 2, axis=1
    )
    size = keys.shape[1] // module.heads
    rows = []
    masks = states.attention_mask.numpy() if states.attention_mask is not None else None
    for number, sentence in enumerate(states.last_hidden_state.double().numpy()):
        kept = []
        for place, token in enumerate(sentence):
            if masks is not None and not masks[number, place]:
                continue
            query = matrix(module.query) @ norm(token, module.token_norm)
            read = []
            for head in range(module.heads):
                columns = slice(head * size, (head + 1) * size)
                scores = [
                    math.exp(query[columns] @ key[columns] / math.sqrt(size))
                    for key in keys
                ]
                total = sum(
                    score * value[columns]
                    for score, value in zip(scores, values, strict=True)
                ) / sum(scores)
                read.append(total)
            first = token + matrix(module.out) @ np.concatenate(read)
            wide = matrix(module.widen) @ norm(first, module.inner_norm)
            wide = wide + module.widen.bias.detach().double().numpy()
            half = len(wide) // 2
            gate = np.array(
                [g * 0.5 * (1 + math.erf(g / math.sqrt(2))) for g in wide[half:]]
            )
            inner = matrix(module.narrow) @ (wide[:half] * gate)
            kept.append(first + inner + module.narrow.bias.detach().double().numpy())
        rows.append(sum(kept) / len(kept))
    return np.array(rows)


def built(width=6, **fields):
    """A module with norms that are not those of the start."""
    torch.manual_seed(3)
    module = LatentAttention(**{"latents": 5, "heads": 2, **fields}).build(width)
    with torch.no_grad():
        for layer in (module.token_norm, module.latent_norm, module.inner_norm):
            layer.weight.normal_(1, 0.2)
            layer.bias.normal_(0, 0.2)
    return module


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize(
    "fields", [{}, {"head_width": 3, "heads": 4}, {"latents": 1}], ids=str
)
@torch.no_grad()
def test_vectors_are_those_of_a_naive_loop(random_states, fields, side):
    module, states = built(**fields), random_states([7, 2, 1, 9, 9], side=side)
    expected = naive(module, states)
    np.testing.assert_allclose(module(states).numpy(), expected, rtol=0, atol=1e-6)
    whole = states._replace(
        last_hidden_state=states.last_hidden_state[3:], attention_mask=None
    )
    np.testing.assert_allclose(module(whole).numpy(), expected[3:], rtol=0, atol=1e-6)


def test_sizes_are_those_of_the_released_model():
    """512 latents, 8 heads as wide as a token state of 4096, an inner layer of 8 times the width."""
    with torch.device("meta"):
        module = LatentAttention().build(4096)
    shapes = {name: tuple(value.shape) for name, value in module.named_parameters()}
    assert shapes["latents"] == (512, 4096)
    assert shapes["query.weight"] == (8 * 4096, 4096)
    assert shapes["key_value.weight"] == (2 * 8 * 4096, 4096)
    assert shapes["out.weight"] == (4096, 8 * 4096)
    assert shapes["widen.weight"] == (8 * 4096, 4096)
    assert shapes["narrow.weight"] == (4096, 4 * 4096)
    without_bias = {"query", "key_value", "out"}
    assert not {f"{name}.bias" for name in without_bias} & shapes.keys()


def test_latents_are_drawn_from_a_standard_normal_distribution():
    torch.manual_seed(0)
    latents = LatentAttention().build(64).latents.detach()
    # 32,768 draws.
    assert latents.mean().item() == pytest.approx(0, abs=0.03)
    assert latents.std().item() == pytest.approx(1, rel=0.02)


def test_the_gradient_is_that_of_the_naive_loop_and_reaches_every_weight_and_no_padding(
    random_states,
):
    module, states = built(width=4), random_states([3, 1], width=4)
    mask = states.attention_mask
    hidden = states.last_hidden_state.clone().requires_grad_()
    module(TokenStates(hidden, mask)).sin().sum().backward()
    assert hidden.grad is not None
    assert not hidden.grad[~mask.bool()].any()
    assert hidden.grad[mask.bool()].abs().amin(-1).gt(0).all()
    for name, weight in module.named_parameters():
        assert weight.grad is not None, name
        assert weight.grad.abs().max() > 0, name

    def naive_loss(of):
        return float(np.sin(naive(module, TokenStates(of, mask))).sum())

    step = 1e-5 * torch.randn(
        hidden.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1)
    )
    exact = hidden.detach().double()
    slope = (naive_loss(exact + step) - naive_loss(exact - step)) / 2
    assert (hidden.grad.double() * step).sum().item() == pytest.approx(slope, rel=1e-4)
