"""Products in int8 against integer products of NumPy, and models in int8 against themselves in fp32."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
import torch
from sentbed import Encoder, ModelError
from sentbed.protocols import TokenBatch
from sentbed_backbones._torch.int8_inner import STEEPEST, Int8Inner, cut
from sentbed_backbones._torch.int8_linear import Int8Linear, Integers, Rounding
from sentbed_backbones._torch.int8_products import LEAST_COSINE, Int8Products
from sentbed_backbones._torch.prepacked_cpu_linear import ACTIVATIONS, linear
from torch.nn import functional

SaveModel = Callable[..., Path]

CAPABILITIES = torch.cpu.get_capabilities()
pytestmark = pytest.mark.skipif(
    not any(CAPABILITIES.get(name) for name in ("amx_int8", "avx512_vnni", "avx_vnni")),
    reason="the processor has no int8 products",
)


def made(
    products: Int8Products,
    width: int,
    out: int,
    activation: str = "none",
    join: str = "add",
    **how: Any,
) -> Any:
    weight, bias = torch.randn(out, width) / width**0.5, torch.randn(out)
    return products.linear(weight, bias, activation, join, **how)


def rounded(rounding: Rounding, x: torch.Tensor) -> np.ndarray:
    rows = (
        x.double().numpy() * rounding.factors.double().numpy()
        + rounding.offsets.double().numpy()
    )
    return np.clip(np.floor(rows), 0, 255).astype(np.int64)


def times(integers: Integers, rows: np.ndarray, weight: torch.Tensor) -> np.ndarray:
    """The product of rows in uint8 with weights by NumPy's integers, before activation and join."""
    scales = integers.scales.double().numpy()
    weights = (weight / integers.scales[:, None]).round().numpy().astype(np.int64)
    return (
        rows - integers.zero
    ) @ weights.T * integers.scale * scales + integers.bias.double().numpy()


def integers(product: Int8Linear, x: torch.Tensor) -> np.ndarray:
    weight = product.weight * product.observed.smoothing(product.weight)
    return times(product.integers, rounded(product.rounding, x), weight)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("rows", [1, 7, 300])
def test_a_product_is_that_of_integers(activation: str, rows: int) -> None:
    torch.manual_seed(rows)
    products = Int8Products()
    product = made(products, 96, 64, activation)
    x = torch.randn(rows, 96) * torch.linspace(0.1, 9, 96) + 0.3
    product(x)
    product.round()
    product.choose(True)
    expected = ACTIVATIONS[activation][0](torch.from_numpy(integers(product, x)))
    torch.testing.assert_close(product(x).double(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("join", ["add", "mul"])
def test_a_product_is_joined_with_a_second_argument(join: str) -> None:
    torch.manual_seed(0)
    product = made(Int8Products(), 32, 48, join=join)
    x, other = torch.randn(20, 32), torch.randn(20, 48)
    product(x, other)
    product.round()
    product.choose(True)
    alone = torch.from_numpy(integers(product, x))
    expected = alone + other if join == "add" else alone * other
    torch.testing.assert_close(
        product(x, other).double(), expected, rtol=1e-4, atol=1e-4
    )


def test_inputs_are_rounded_and_clamped() -> None:
    x = torch.tensor([[-99.0, -0.26, 0.0, 0.24, 0.26, 200.0]])
    found = Rounding(torch.full((6,), 2.0), torch.full((6,), 100.5))(x)
    assert found.dtype == torch.uint8
    assert found.tolist() == [[0, 99, 100, 100, 101, 255]]


def test_the_middle_of_a_range_costs_no_steps() -> None:
    torch.manual_seed(0)
    product, x = made(Int8Products(), 64, 64), torch.randn(500, 64)
    shifted = x + torch.linspace(-500, 500, 64)
    exact = product(shifted)
    product.round()
    product.choose(True)
    assert (
        float((product(shifted) - exact).norm() / (exact - exact.mean(0)).norm()) < 0.02
    )


@pytest.mark.sweep(3)
@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu_new", "silu"])
@pytest.mark.parametrize("joined", [True, False])
def test_an_inner_layer_is_that_of_integers(activation: str, joined: bool) -> None:
    inner, x = inner_and_inputs(activation)
    other = torch.randn(len(x), 32) if joined else None
    inner(x, other)
    inner.round()
    inner.choose(True)
    channels, slopes = inner.cuts.channels, inner.cuts.slopes[:, None]
    weight = inner.widen[0]
    smooth = weight[channels] * slopes * inner.observed.smoothing(weight)
    wide = torch.from_numpy(times(inner.first, rounded(inner.rounding, x), smooth))
    wide = ACTIVATIONS[activation][0](wide) / inner.second.scale + inner.second.zero
    narrow = inner.narrow[0][:, channels] / inner.cuts.slopes
    expected = torch.from_numpy(
        times(inner.second, wide.round().clamp(0, 255).long().numpy(), narrow)
    )
    expected = expected if other is None else expected + other
    # A number in the middle between two integers may be rounded either way.
    assert float((inner(x, other) - expected).norm() / expected.norm()) < 1e-3


def inner_and_inputs(activation: str) -> tuple[Int8Inner, torch.Tensor]:
    torch.manual_seed(0)
    products = Int8Products()
    widen, narrow = torch.randn(480, 48) / 7, torch.randn(32, 480) / 22
    widen[[3, 50, 77]] *= torch.tensor([30.0, 6.0, 4.0])[:, None]
    narrow[:, [3, 50, 77]] /= torch.tensor([30.0, 6.0, 4.0])
    made = products.inner((widen, torch.randn(480)), activation, (narrow, None))
    assert isinstance(made, Int8Inner)
    return made, torch.randn(2000, 48)


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_channels_with_large_values_behind_the_activation_are_cut(
    activation: str,
) -> None:
    """With one height for all channels, 255 steps would be spent on the largest."""
    inner, x = inner_and_inputs(activation)
    exact = inner(x)
    inner.round()
    inner.choose(True)
    assert len(inner.cuts.channels) > 480
    whole = ACTIVATIONS[activation][0](functional.linear(x, *inner.widen))
    step = float(whole.max() - whole.min()) / 255
    plain = functional.linear((whole / step).round() * step, *inner.narrow)
    cut, uncut = (
        float((found - exact).norm() / exact.norm()) for found in (inner(x), plain)
    )
    assert cut < 0.02 < 0.04 < uncut


@pytest.mark.parametrize("slope", [1.0, 2.0])
@pytest.mark.parametrize("more", [0, 1, 4, 20])
def test_the_pieces_of_a_channel_are_the_whole_behind_relu(
    more: int, slope: float
) -> None:
    most = torch.tensor([0.5, 24.0, 3.0, 0.0, 7.0])
    cuts = cut(most, more, slope)
    assert len(most) <= len(cuts.channels) <= len(most) + more
    x = torch.linspace(-5, 1, 200)[:, None] * most
    pieces = ((x[:, cuts.channels] - cuts.starts) * cuts.slopes).relu().clamp(
        max=cuts.height
    ) / cuts.slopes
    together = torch.zeros_like(x).index_add(1, cuts.channels, pieces)
    torch.testing.assert_close(together, x.relu(), rtol=1e-5, atol=1e-5)
    assert float(cuts.slopes.max()) <= STEEPEST
    assert more == 0 or cuts.height < 24


def test_an_inner_layer_left_out_is_that_of_its_products() -> None:
    inner, x = inner_and_inputs("gelu")
    other = torch.randn(len(x), 32)
    inner(x)
    inner.round()
    inner.choose(False)
    kept = inner.kept
    widen = linear(*(part.to(kept) for part in inner.widen), activation="gelu")
    narrow = linear(*(part.to(kept) for part in inner.narrow))
    assert torch.equal(inner(x, other), narrow(widen(x.to(kept))).float() + other)


def test_a_channel_of_large_inputs_costs_the_others_little() -> None:
    """With one scale for all channels and no smoothing, 255 steps would be spent on the first channel."""
    torch.manual_seed(0)
    product = made(Int8Products(), 64, 64)
    x = torch.randn(500, 64)
    x[:, 0] *= 300
    product.weight[:, 0] /= 300
    exact = product(x)
    product.round()
    product.choose(True)
    smooth = float((product(x) - exact).norm() / exact.norm())
    step = float(x.max() - x.min()) / 255
    by_hand = product.exact((x / step).round() * step, None)
    plain = float((by_hand - exact).norm() / exact.norm())
    assert smooth < 0.02 < 0.2 < plain


def test_the_mean_error_of_rounded_weights_is_in_the_bias() -> None:
    torch.manual_seed(0)
    product = made(Int8Products(), 64, 64)
    x = torch.randn(4000, 64) + 3
    exact = product(x)
    middle = (product.observed.low + product.observed.high) / 2
    product.round()
    product.choose(True)
    error = product(x) - exact
    product.integers = attrs.evolve(
        product.integers, bias=product.bias + product.weight @ middle
    )
    assert float(error.mean(0).norm()) < 0.25 * float(
        (product(x) - exact).mean(0).norm()
    )


def test_the_product_that_hurts_is_found_and_left_out() -> None:
    torch.manual_seed(0)
    products = Int8Products()
    chain = [products.linear(torch.randn(64, 64) / 8) for _ in range(6)]
    x = torch.randn(200, 64)
    # Among the inputs of the fourth, one in ten rows is so large that the other nine are rounded to nothing.
    large = (torch.arange(200) % 10 == 0)[:, None]

    def encode() -> torch.Tensor:
        hidden = x
        for number, product in enumerate(chain):
            if number == 3:
                hidden = torch.where(large, hidden * 3000, hidden)
            hidden = functional.normalize(product(hidden))
        return hidden

    exact = encode()
    found = products.calibrate(encode)
    assert found.left_out == ("3 (64 to 64)",)
    assert found.cosine >= LEAST_COSINE
    assert functional.cosine_similarity(encode(), exact).mean() == pytest.approx(
        found.cosine, abs=1e-6
    )


def test_what_all_products_hurt_is_left_out_whole() -> None:
    torch.manual_seed(0)
    products = Int8Products()
    chain = [made(products, 16, 16) for _ in range(5)]
    x = torch.randn(50, 16) * torch.logspace(0, 6, 50)[:, None]

    def encode() -> torch.Tensor:
        return torch.cat([product(x) for product in chain], 1)

    assert len(products.calibrate(encode).left_out) == 5


def test_nothing_of_the_calibration_is_kept() -> None:
    products = Int8Products()
    product = made(products, 16, 16)
    x = torch.randn(30, 16)
    products.calibrate(lambda: product(x))
    floats = [
        v
        for v in vars(product).values()
        if isinstance(v, torch.Tensor) and v.is_floating_point()
    ]
    assert not [tensor for tensor in floats if tensor.ndim > 1]


KINDS = ["bert", "roberta", "t5", "t5-1.1", "opt", "opt-350m", "llama"]
POOLERS = {"opt": "last", "opt-350m": "last", "llama": "last"}
USES = {"roberta": "bert", "t5-1.1": "t5", "llama": "causal", "opt-350m": "opt"}
TEXTS = [
    "a",
    "the cat sat on the mat",
    "the dog ran and the cat sat",
    "a dog",
    "mat and cat and dog and a mat",
]


def encoder(kind: str, directory: Path, precision: str, **backbone: Any) -> Encoder:
    table = {
        "backbone": {"use": USES.get(kind, kind), "model": str(directory), **backbone},
        "pooler": {"use": POOLERS.get(kind, "mean")},
        "max_length": 16,
    }
    return Encoder.of(table, {"use": "cpu", "precision": precision})


@pytest.mark.sweep(1)
@pytest.mark.parametrize("kind", KINDS)
def test_vectors_are_near_those_in_fp32(save_model: SaveModel, kind: str) -> None:
    directory = save_model(kind)
    exact, int8 = (
        encoder(kind, directory, precision) for precision in ("fp32", "int8")
    )
    a, b = (torch.from_numpy(one.encode(TEXTS)) for one in (exact, int8))
    assert functional.cosine_similarity(a, b).min() >= 0.995
    assert not torch.allclose(a, b, rtol=0, atol=1e-6)
    protocol = int8.protocol()
    assert protocol["precision"] == "int8"
    assert protocol["int8"]["left_out"] == []
    assert protocol["int8"]["products"] % 2 == 0
    assert "int8" not in exact.protocol()


def test_a_vector_does_not_depend_on_the_texts_beside_it(save_model: SaveModel) -> None:
    one = encoder("bert", save_model("bert"), "int8")
    alone = np.concatenate([one.encode([text]) for text in TEXTS])
    np.testing.assert_allclose(one.encode(TEXTS), alone, rtol=0, atol=2e-2)


def test_two_encoders_are_calibrated_alike(save_model: SaveModel) -> None:
    directory = save_model("bert")
    first, second = (encoder("bert", directory, "int8") for _ in range(2))
    assert np.array_equal(first.encode(TEXTS), second.encode(TEXTS))
    assert first.placed.fingerprint() == second.placed.fingerprint()
    # Where the processor has bf16, `auto` is that.
    for precision in ("fp32", "auto"):
        assert (
            first.placed.fingerprint()
            != encoder("bert", directory, precision).placed.fingerprint()
        )


def test_a_backbone_that_encoders_share_is_calibrated_once(
    save_model: SaveModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    calibrated: list[int] = []
    calibrate = Int8Products.calibrate
    monkeypatch.setattr(
        Int8Products,
        "calibrate",
        lambda self, encode: calibrated.append(1) or calibrate(self, encode),
    )
    first = encoder("bert", save_model("bert"), "int8")
    second = first.engine.assemble(
        first.backbone, first.recipe.pooler, first.recipe.head
    )
    assert len(calibrated) == 1
    together = first.placed.beside([second])
    assert together is not None
    batch = TokenBatch(np.array([[2, 9, 11, 3]], np.int32), None)
    left, right = np.split(together.encode(batch), 2, axis=1)
    assert np.array_equal(left, right)
    assert len(calibrated) == 1


def test_what_has_no_form_in_int8_says_what_to_do(save_model: SaveModel) -> None:
    with pytest.raises(
        ModelError, match=r"`BertModel`, as it is held here, has no form in int8.*auto"
    ):
        encoder("bert", save_model("bert"), "int8", dtype="bf16")
    with pytest.raises(ModelError, match=r"has no form in int8"):
        encoder("bert", save_model("electra", name="electra"), "int8")


def test_an_intervention_does_not_go_with_int8(save_model: SaveModel) -> None:
    opt = {"use": "opt", "model": str(save_model("opt", num_hidden_layers=9))}
    table = {
        "backbone": {**opt, "intervention": {"use": "token-prepending"}},
        "pooler": {"use": "prompt-eol"},
        "max_length": 16,
    }
    with pytest.raises(
        ModelError, match="the intervention `token-prepending` does not go with int8"
    ):
        Encoder.of(table, {"use": "cpu", "precision": "int8"})


def test_the_type_left_out_is_that_of_attention() -> None:
    products = Int8Products()
    product = made(products, 16, 16, "gelu")
    x = torch.randn(30, 16)
    product(x)
    product.round()
    product.choose(False)
    kept = products.attention
    expected = linear(product.weight.to(kept), product.bias.to(kept), "gelu")(
        x.to(kept)
    ).float()
    assert torch.equal(product(x), expected)


@pytest.mark.parametrize("name", ["amx_bf16", "avx512_bf16", "avx512_vnni"])
def test_attention_is_in_bf16_where_the_processor_has_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {name: True})
    assert Int8Products().attention == (
        torch.bfloat16 if name.endswith("bf16") else torch.float32
    )
