from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar

import attrs
import numpy as np
import pytest
import torch
from sentbed import ModelError
from sentbed.protocols import BuildContext, Head, Transform
from sentbed_hardware.engine_parts.encoder_module import EncoderModule

TEXTS = ("a small house by the sea", "rain", "two birds sing in a tree today")


def module_of(toys, head, pooler=None):
    backbone = toys.backbone().build(BuildContext(tuple))
    return EncoderModule(backbone, pooler or toys.mean(), head), backbone


ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "gelu": lambda x: x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2,
    "none": lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "tanh": np.tanh,
}


def linear(layer, vectors):
    """Apply a linear layer in float64."""
    result = vectors @ layer.weight.detach().double().numpy().T
    if layer.bias is not None:
        result = result + layer.bias.detach().double().numpy()

    return result


def vectors_by_hand(module, texts, head):
    """Return the vectors of token ids, one text after the other."""
    words = module.backbone.words.weight.detach().double().numpy()
    parts = module.projection.modules()
    layers = [part for part in parts if isinstance(part, torch.nn.Linear)]
    widths = [*head.hidden, head.projection]
    assert [layer.out_features for layer in layers] == [w for w in widths if w]
    vectors = []
    for ids in texts:
        vector = np.tanh(linear(module.backbone.dense, words[ids])).mean(0)
        for layer in layers:
            vector = linear(layer, vector)
            if layer is not layers[-1]:
                vector = ACTIVATIONS[head.activation](vector)

        vector = vector[: head.dimensions]
        if head.normalize:
            vector = vector / np.linalg.norm(vector)
        vectors.append(vector)

    return np.stack(vectors)


@pytest.mark.parametrize(
    "head",
    [
        Head(),
        Head(normalize=True),
        Head(projection=3),
        Head(projection=11, bias=True),
        Head(projection=3, bias=True, normalize=True),
        Head(hidden=(9,), projection=3),
        *(
            Head(hidden=(9, 5), activation=name, projection=3, bias=True)
            for name in ACTIVATIONS
        ),
        Head(dimensions=4, normalize=True),
        Head(hidden=(9,), projection=5, dimensions=2, normalize=True),
    ],
)
def test_vectors_are_those_computed_by_hand(toys, engine, head):
    module, _ = module_of(toys, head)
    texts = [toys.tokens(text).ids for text in TEXTS]
    expected = vectors_by_hand(module, texts, head)
    tensors = engine.placement.tensors(toys.batch(*TEXTS))
    vectors = module.eval()(*tensors).detach().numpy()
    assert vectors.shape == (3, module.width)
    np.testing.assert_allclose(vectors, expected, rtol=1e-5, atol=1e-6)


def test_parameters_are_counted_once_and_those_that_train_apart(toys):
    module, _ = module_of(toys, Head(projection=6), toys.first_dense(out=5))
    sizes = {name: value.numel() for name, value in module.named_parameters()}
    assert module.parameter_counts == (sum(sizes.values()), sum(sizes.values()))
    for name, value in module.backbone.named_parameters():
        value.requires_grad_(name.startswith("dense"))
    frozen = module.backbone.words.weight.numel()
    assert module.parameter_counts == (
        sum(sizes.values()),
        sum(sizes.values()) - frozen,
    )
    # Tied weights are one parameter.
    module.backbone.again = module.backbone.words
    assert module.parameter_counts[0] == sum(sizes.values())


def test_weights_in_four_bits_count_one_by_one(toys):
    bitsandbytes = pytest.importorskip(
        "bitsandbytes", reason="needs sentbed-backbones[qlora]"
    )
    module, _ = module_of(toys, Head())
    before = module.parameter_counts
    module.backbone.packed = bitsandbytes.nn.Linear4bit(
        64, 64, bias=False, quant_type="nf4"
    ).to("cpu")
    assert module.backbone.packed.weight.numel() == 64 * 64 // 2
    assert module.parameter_counts == (before[0] + 64 * 64, before[1])


def test_training_sees_all_dimensions_and_encoding_those_that_are_kept(toys, engine):
    module, _ = module_of(toys, Head(projection=6, dimensions=2))
    assert (module.width, module.trained_width) == (2, 6)
    batch = engine.placement.tensors(toys.batch(*TEXTS))
    whole = module.train()(*batch)
    torch.testing.assert_close(module.eval()(*batch), whole[:, :2], rtol=0, atol=0)


def test_a_layer_that_is_in_training_only_changes_the_width_there_alone(toys, engine):
    module, backbone = module_of(toys, Head(), toys.trained_dense(out=5))
    assert (module.width, module.trained_width) == (backbone.width, 5)
    batch = engine.placement.tensors(toys.batch(*TEXTS))
    mean = toys.mean().build(8)(module.backbone(*batch))
    torch.testing.assert_close(
        module.train()(*batch), module.pooler.dense(mean), rtol=0, atol=0
    )
    torch.testing.assert_close(module.eval()(*batch), mean, rtol=0, atol=0)


def test_a_projection_after_such_a_layer_is_refused(toys):
    with pytest.raises(
        ModelError,
        match=r"width 5 in training and 8 when encoding, .* take `projection` out",
    ):
        module_of(toys, Head(projection=6), toys.trained_dense(out=5))


def test_a_transform_reads_the_vector_of_encoding(toys, engine):
    module, backbone = module_of(
        toys, Head(transform=Fixed()), toys.trained_dense(out=5)
    )
    assert module.transformed().width == backbone.width
    mean, matrix = a_fit(backbone.width)
    batch = engine.placement.tensors(toys.batch(*TEXTS))
    bare = module.eval().transformed()(*batch).detach().numpy()
    fitted = module.transformed((mean, matrix)).eval()(*batch).detach().numpy()
    np.testing.assert_allclose(fitted, (bare - mean) @ matrix, rtol=1e-5, atol=1e-6)


@attrs.frozen
class Fixed(Transform):
    """A transform with a width of its own."""

    name: ClassVar[str] = "fixed"

    width: int = 3

    def output_width(self, width):
        return self.width

    def fit(self, vectors, backbone):
        raise NotImplementedError


def a_fit(width=6, to=3):
    rng = np.random.default_rng(0)
    return rng.standard_normal(width), rng.standard_normal((width, to))


@pytest.mark.parametrize("dimensions", [None, 2])
@pytest.mark.parametrize("normalize", [True, False])
def test_a_fitted_transform_stands_between_projection_and_cut(
    toys, engine, normalize, dimensions
):
    head = Head(
        projection=6,
        bias=True,
        normalize=normalize,
        dimensions=dimensions,
        transform=Fixed(),
    )
    module, _ = module_of(toys, head)
    batch = engine.placement.tensors(toys.batch(*TEXTS))
    bare = module.transformed().eval()
    inputs = bare(*batch).detach().numpy()
    projected, _ = module_of(toys, Head(projection=6, bias=True))
    projected.load_state_dict(module.state_dict())
    np.testing.assert_array_equal(inputs, projected.eval()(*batch).detach().numpy())
    mean, matrix = a_fit()
    expected = ((inputs - mean) @ matrix)[:, :dimensions]
    if normalize:
        expected = expected / np.linalg.norm(expected, axis=1, keepdims=True)
    fitted = module.transformed((mean, matrix)).eval()
    np.testing.assert_allclose(
        fitted(*batch).detach().numpy(), expected, rtol=1e-5, atol=1e-6
    )
    assert (bare.width, fitted.width, module.width) == (
        6,
        dimensions or 3,
        dimensions or 6,
    )
    assert (fitted.fitted_on, module.fitted_on) == ({}, None)


def test_training_sees_no_transform_and_it_has_no_gradient(toys, engine):
    module, _ = module_of(toys, Head(projection=6, normalize=True, transform=Fixed()))
    batch = engine.placement.tensors(toys.batch(*TEXTS))
    fitted = module.transformed(a_fit())
    torch.testing.assert_close(
        fitted.train()(*batch), module.train()(*batch), rtol=0, atol=0
    )
    assert not fitted.transform.weight.requires_grad
    assert not fitted.transform.bias.requires_grad


def test_a_fit_draws_no_number(toys):
    module, _ = module_of(toys, Head(projection=6, transform=Fixed()))
    before = torch.random.get_rng_state()
    module.transformed(a_fit())
    assert torch.equal(torch.random.get_rng_state(), before)


def test_dimensions_are_at_most_those_of_the_transform(toys):
    with pytest.raises(
        ModelError, match="keeps 4 dimensions of vectors that are 3 wide"
    ):
        module_of(toys, Head(projection=6, dimensions=4, transform=Fixed()))


def test_more_dimensions_than_there_are_cannot_be_kept(toys):
    with pytest.raises(
        ModelError, match="keeps 9 dimensions of vectors that are 8 wide"
    ):
        module_of(toys, Head(dimensions=9))
