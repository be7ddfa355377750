"""The base of engines that only encode, with an "other library" that is PyTorch itself.

`tests/test_engines.py` compares the vectors of the engines on this base with those of `cpu`.
"""

from __future__ import annotations

from typing import ClassVar

import attrs
import numpy as np
import pytest
import torch
from sentbed import RunError
from sentbed.errors import NotFiniteError
from sentbed.protocols import Head, Transform
from sentbed_hardware.engine_parts.encoder_module import traceable
from sentbed_hardware.engine_parts.encoding_engine import EncodingEngine
from torch.utils.flop_counter import FlopCounterMode

TEXTS = ("a small house by the sea", "rain", "two birds sing in a tree today")
FACTS = {"runtime": "traced", "device": "cpu", "precision": "fp32"}


class TracedEngine(EncodingEngine):
    """Runs the traceable module."""

    def __init__(self, facts=FACTS):
        super().__init__(facts)
        self.compilations = 0

    def compiled(self, backbone, module):
        self.compilations += 1
        encoder = traceable(module, backbone)

        def project(input_ids, mask):
            with torch.inference_mode():
                return encoder(*map(torch.from_numpy, (input_ids, mask))).numpy()

        return project

    def protocol_of(self, encoder):
        return {"traced": True}


@attrs.frozen
class Halving(Transform):
    """The first half of a vector, from which a mean is taken."""

    name: ClassVar[str] = "halving"

    def output_width(self, width):
        return width // 2

    def fit(self, vectors, backbone):
        raise NotImplementedError


HEAD = Head(
    hidden=(9,), activation="gelu", projection=6, transform=Halving(), normalize=True
)


@pytest.fixture
def traced():
    return TracedEngine()


def test_who_counts_operations_of_pytorch_sees_none_and_not_those_of_the_head_alone(
    toys, traced, assemble
):
    bare = assemble(HEAD, on=traced).transformed()
    fitted = bare.transformed((np.zeros(6), np.eye(6)[:, :3]), {})
    projected = np.arange(18, dtype=np.float32).reshape(3, 6)
    projected[0] = 0
    fitted.compilation.project = lambda ids, mask: projected
    counter = FlopCounterMode(display=False)
    with counter:
        vectors = fitted.encode(toys.batch(*TEXTS))
    assert counter.get_total_flops() == 0
    # A vector of zeros has no direction, and stays as it is.
    np.testing.assert_array_equal(vectors[0], [0, 0, 0])
    normalised = np.array([6, 7, 8]) / np.sqrt(149)
    np.testing.assert_allclose(vectors[1], normalised, rtol=1e-6)


def test_weights_are_compiled_once_and_anew_when_they_have_changed(
    toys, traced, assemble
):
    batch, encoder = toys.batch(*TEXTS), assemble(Head(projection=3), on=traced)
    before = encoder.encode(batch)
    fitted = encoder.transformed((np.zeros(3), np.eye(3)), {"texts": 3})
    np.testing.assert_array_equal(fitted.encode(batch), before)
    assert traced.compilations == 1
    assert traced.counters()["compile_seconds"] > 0
    with torch.no_grad():
        encoder.module.projection.weight.mul_(2)
    encoder.weights_changed()
    np.testing.assert_allclose(encoder.encode(batch), 2 * before, rtol=1e-5)
    assert traced.compilations == 2


def test_fingerprints_differ_by_weights_facts_and_protocol(
    traced,
    assemble,
    monkeypatch,
):
    encoder = assemble(on=traced)
    assert encoder.fingerprint() == assemble(on=TracedEngine()).fingerprint()
    other_library = TracedEngine({**FACTS, "version": "2"})
    others = [assemble(on=traced, seed=1), assemble(on=other_library), assemble()]
    fingerprints = {other.fingerprint() for other in (encoder, *others)}
    monkeypatch.setattr(TracedEngine, "protocol_of", lambda *of: {"texts": 4})
    assert encoder.protocol == {"texts": 4}
    fingerprints.add(encoder.fingerprint())
    assert None not in fingerprints
    assert len(fingerprints) == 5
    # Nothing of it needs the library.
    assert traced.compilations == 0


def test_what_a_graph_does_not_read_is_an_error(toys, traced, assemble):
    batch = attrs.evolve(toys.batch(*TEXTS), prefix=np.array([1, 2]))
    with pytest.raises(
        RunError,
        match="the batch has `prefix`, which the runtime `traced` does not read",
    ):
        assemble(on=traced).encode(batch)


def test_nan_is_found_in_weights_and_in_vectors(
    toys,
    traced,
    assemble,
    monkeypatch,
):
    encoder = assemble(Head(projection=3), on=traced)
    width = encoder.width
    wrong = np.full((3, width), np.nan, np.float32)
    encoder.compilation.project = lambda ids, mask: wrong
    with pytest.raises(
        NotFiniteError, match="the vectors have NaN or infinite values; "
    ):
        encoder.encode(toys.batch(*TEXTS))
    with torch.no_grad():
        encoder.module.projection.weight[0, 0] = torch.nan
    encoder.weights_changed()
    with pytest.raises(NotFiniteError, match=r"first in `projection.weight`"):
        encoder.encode(toys.batch(*TEXTS))
