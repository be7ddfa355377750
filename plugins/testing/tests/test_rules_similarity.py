"""The rules of similarities find what is planted."""

from __future__ import annotations

from typing import ClassVar

import attrs
import pytest
from component_checks import check_component
from sentbed.protocols import Similarity
from sentbed_testing import ConformanceError


@attrs.frozen
class Planted(Similarity):
    """Dot products with a fault."""

    name: ClassVar[str] = "planted"

    fault: str = ""
    """What is wrong."""

    def similarity(self, first, second):
        if self.fault == "detached":
            return first @ second.detach().T
        if self.fault == "one-row":
            return (first @ second.T)[:1]
        if self.fault == "of-the-block":
            return (first - first.mean(dim=0)) @ second.T
        if self.fault == "in-place":
            return first.mul_(2.0) @ second.T
        return first @ second.T

    def pairwise(self, first, second):
        if self.fault == "other-pairs":
            return (first * second.flip(0)).sum(dim=1)
        return self.similarity(first, second).diagonal()

    def operations(self, width, first=1, second=1):
        return 0 if self.fault == "free" else 2 * width


@attrs.frozen
class Unmasked(Similarity):
    """MaxSim over padding, too."""

    name: ClassVar[str] = "unmasked"
    compares = frozenset({"tokens"})

    def similarity(self, first, second):
        products = first.vectors[:, None, :, None] * second.vectors[:, None]
        return products.sum(dim=-1).amax(dim=-1).sum(dim=-1)


def test_a_similarity_that_keeps_its_contract_passes_every_rule():
    assert not check_component(Planted)[1]


@pytest.mark.parametrize(
    ("fault", "rule"),
    [
        ("detached", "gradient"),
        ("one-row", "shape"),
        ("of-the-block", "alone"),
        ("in-place", "stateless"),
        ("other-pairs", "pairwise"),
        ("free", "cost"),
    ],
)
def test_a_fault_is_found(fault, rule):
    with pytest.raises(ConformanceError) as broken:
        check_component(Planted, example={"fault": fault})
    assert rule in {failure.rule for failure in broken.value.failures}


def test_padding_that_counts_is_found():
    with pytest.raises(ConformanceError) as broken:
        check_component(Unmasked)
    assert "alone" in {failure.rule for failure in broken.value.failures}


@attrs.frozen
class Doubling(Similarity):
    """MaxSim that doubles the token vectors that it gets."""

    name: ClassVar[str] = "doubling"
    compares = frozenset({"tokens"})

    def similarity(self, first, second):
        first.vectors.mul_(2.0)
        return self._maxima(first, second)

    def _maxima(self, first, second):
        products = first.vectors[:, None, :, None] * second.vectors[:, None]
        similarities = products.sum(dim=-1)
        hidden = ~second.mask[None, :, None]
        maxima = similarities.masked_fill(hidden, -float("inf")).amax(dim=-1)
        return maxima.masked_fill(~first.mask[:, None], 0.0).sum(dim=-1)


def test_token_vectors_that_are_changed_in_place_are_found():
    with pytest.raises(ConformanceError) as broken:
        check_component(Doubling)
    assert "for tokens, a call writes into its arguments" in str(broken.value)
