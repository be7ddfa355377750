"""Products in int8 against integer products of NumPy, and models in int8 against themselves in fp32."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentbed import Encoder, ModelError
from sentbed.protocols import TokenBatch
from sentbed_backbones._torch.int8_products import LEAST_COSINE, Int8Linear, Int8Products, quantized
from sentbed_backbones._torch.prepacked_cpu_linear import ACTIVATIONS, linear
from torch.nn import functional

SaveModel = Callable[..., Path]

CAPABILITIES = torch.cpu.get_capabilities()
pytestmark = pytest.mark.skipif(
    not any(CAPABILITIES.get(name) for name in ("amx_int8", "avx512_vnni", "avx_vnni")),
    reason="the processor has no int8 products",
)


def made(
    products: Int8Products, width: int, out: int, activation: str = "none", join: str = "add", **how: Any
) -> Any:
    weight, bias = torch.randn(out, width) / width**0.5, torch.randn(out)
    return products.linear(weight, bias, activation, join, **how)


def integers(product: Int8Linear, x: torch.Tensor) -> np.ndarray:
    """The product by NumPy's integers, before activation and join."""
    rows = x.double().numpy() * product.factors.double().numpy() + product.zero
    rows = np.clip(np.floor(rows + 0.5), 0, 255).astype(np.int64) - product.zero
    scales = product.scales.double().numpy()
    weights = (product.weight * product.smoothing / product.scales[:, None]).round().numpy().astype(np.int64)
    return rows @ weights.T * product.scale * scales + product.corrected.double().numpy()


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
    torch.testing.assert_close(product(x, other).double(), expected, rtol=1e-4, atol=1e-4)


def test_inputs_are_rounded_and_clamped() -> None:
    x = torch.tensor([[-9.0, -0.26, 0.0, 0.24, 0.26, 200.0]])
    found = quantized(x, torch.full((6,), 2.0), torch.full((6,), 100.5))
    assert found.dtype == torch.uint8
    assert found.tolist() == [[82, 99, 100, 100, 101, 255]]


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
    product.round()
    product.choose(True)
    error = product(x) - exact
    product.corrected = product.bias
    assert float(error.mean(0).norm()) < 0.25 * float((product(x) - exact).mean(0).norm())


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
    assert functional.cosine_similarity(encode(), exact).mean() == pytest.approx(found.cosine, abs=1e-6)


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
    floats = [v for v in vars(product).values() if isinstance(v, torch.Tensor) and v.is_floating_point()]
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


@pytest.mark.parametrize("kind", KINDS)
def test_vectors_are_near_those_in_fp32(save_model: SaveModel, kind: str) -> None:
    directory = save_model(kind)
    exact, int8 = (encoder(kind, directory, precision) for precision in ("fp32", "int8"))
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
    assert first.placed.fingerprint() != encoder("bert", directory, "bf16").placed.fingerprint()


def test_a_backbone_that_encoders_share_is_calibrated_once(
    save_model: SaveModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    calibrated: list[int] = []
    calibrate = Int8Products.calibrate
    monkeypatch.setattr(
        Int8Products, "calibrate", lambda self, encode: calibrated.append(1) or calibrate(self, encode)
    )
    first = encoder("bert", save_model("bert"), "int8")
    second = first.engine.assemble(first.backbone, first.recipe.pooler, first.recipe.head)
    assert len(calibrated) == 1
    together = first.placed.beside([second])
    assert together is not None
    batch = TokenBatch(np.array([[2, 9, 11, 3]], np.int32), None)
    left, right = np.split(together.encode(batch), 2, axis=1)
    assert np.array_equal(left, right)
    assert len(calibrated) == 1


def test_what_has_no_form_in_int8_says_what_to_do(save_model: SaveModel) -> None:
    with pytest.raises(ModelError, match=r"`BertModel`, as it is held here, has no form in int8.*auto"):
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
    with pytest.raises(ModelError, match="the intervention `token-prepending` does not go with int8"):
        Encoder.of(table, {"use": "cpu", "precision": "int8"})


def test_the_type_left_out_is_that_of_attention() -> None:
    products = Int8Products()
    product = made(products, 16, 16, "gelu")
    x = torch.randn(30, 16)
    product(x)
    product.round()
    product.choose(False)
    kept = products.attention
    expected = linear(product.weight.to(kept), product.bias.to(kept), "gelu")(x.to(kept)).float()
    assert torch.equal(product(x), expected)
