from __future__ import annotations

import functools
import math
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
import torch
from sentbed.protocols import Head
from sentbed_common import source_code_hashes as sources
from sentbed_hardware._common.module_fingerprint import fingerprint


@pytest.fixture(autouse=True)
def _code_as_it_was_loaded(monkeypatch):
    """Sources may be written while tests run; what is loaded stays as it is."""
    monkeypatch.setattr(sources, "STARTED", math.inf)


@attrs.frozen
class Window:
    """Settings in an object with slots."""

    width: int


@dataclass(slots=True)
class Stride:
    """Settings in a dataclass with slots."""

    length: int


class Scaling(torch.nn.Module):
    """Has what a module may hold beside parameters."""

    def __init__(self, by=2.0):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.arange(6.0).reshape(2, 3))
        self.register_buffer("kept", torch.tensor(1.5))
        self.register_buffer("passing", torch.tensor([True, False]), persistent=False)
        self.loose = torch.tensor([1, 2])
        self.table = np.arange(3)
        self.by = by
        self.dtype_of_sums = torch.float32
        self.names = {"a", "b", "c"}
        self.act = torch.nn.functional.relu
        self.held = [torch.tensor([3.0])]
        self.step = functools.partial(torch.add, other=1)
        self.settings = types.SimpleNamespace(scale=0.5)
        self.window = Window(3)
        self.stride = Stride(3)
        self.float32 = np.float32(0.5)
        self.file = Path("table")
        self.content = b"1"
        self._private = 0.5


CHANGES: dict[str, Callable[[Any], object]] = {
    "one weight": lambda m: m.weight.data[1, 2].add_(1e-6),
    "sign of a zero": lambda m: m.weight.data[0, 0].neg_(),
    "shape": lambda m: setattr(m.weight, "data", m.weight.data.reshape(3, 2)),
    "dtype": lambda m: setattr(m.weight, "data", m.weight.data.bfloat16()),
    "order in memory and values": lambda m: setattr(
        m.weight, "data", m.weight.data.reshape(3, 2).t()
    ),
    "buffer": lambda m: m.kept.add_(1),
    "buffer that is not saved": lambda m: m.passing.logical_not_(),
    "tensor that is not registered": lambda m: m.loose.add_(1),
    "array": lambda m: m.table.__iadd__(1),
    "number": lambda m: setattr(m, "by", 3.0),
    "data type of a computation": lambda m: setattr(m, "dtype_of_sums", torch.float64),
    "function": lambda m: setattr(m, "act", torch.nn.functional.gelu),
    "tensor in a list": lambda m: m.held[0].add_(1),
    "function with arguments": lambda m: setattr(
        m, "step", functools.partial(torch.add, other=2)
    ),
    "value of an object": lambda m: setattr(m.settings, "scale", 0.25),
    "value of an object with slots": lambda m: setattr(m, "window", Window(4)),
    "value of a dataclass with slots": lambda m: setattr(m, "stride", Stride(4)),
    "number of NumPy": lambda m: setattr(m, "float32", np.float32(0.25)),
    "path": lambda m: setattr(m, "file", Path("other")),
    "bytes": lambda m: setattr(m, "content", b"2"),
    "private number": lambda m: setattr(m, "_private", 0),
    "set": lambda m: m.names.add("d"),
    "part": lambda m: m.add_module("more", torch.nn.ReLU()),
    "another part": lambda m: m.add_module("more", torch.nn.GELU()),
}


def test_whatever_a_module_computes_with_is_in_its_fingerprint():
    fingerprints = [fingerprint(Scaling(), None), fingerprint(Scaling(), "cuda")]
    for change in CHANGES.values():
        module = Scaling()
        change(module)
        fingerprints.append(fingerprint(module, None))
    assert None not in fingerprints
    assert len(set(fingerprints)) == len(CHANGES) + 2


def test_a_field_that_has_no_value_yet_is_left_out():
    @attrs.define
    class Lazy:
        width: int
        cache: int = attrs.field(init=False)

    module = Scaling()
    module.window = Lazy(3)
    assert fingerprint(module, None) is not None


def test_what_changes_no_vector_is_not_in_the_fingerprint():
    expected = fingerprint(Scaling(), None)
    module = Scaling().eval().requires_grad_(False)
    module.weight.data = module.weight.data.t().contiguous().t()
    assert fingerprint(module, None) == expected


@pytest.mark.parametrize(
    "dtype", [torch.bfloat16, torch.float16, torch.float64, torch.int8, torch.bool]
)
def test_weights_of_any_type_are_hashed(dtype):
    fingerprints = set()
    for middle in (0, 1):
        module = torch.nn.Module()
        module.register_buffer("x", torch.tensor([1, middle, 1]).to(dtype))
        fingerprints.add(fingerprint(module, None))
    assert len(fingerprints) == 2


def test_weights_in_four_bits_are_hashed_with_their_scales():
    bitsandbytes = pytest.importorskip(
        "bitsandbytes", reason="needs sentbed-backbones[qlora]"
    )
    weight = torch.randn(64, 64, generator=torch.Generator().manual_seed(0))

    def quantised(factor):
        layer = bitsandbytes.nn.Linear4bit(
            64, 64, bias=False, compute_dtype=torch.float32, quant_type="nf4"
        )
        layer.weight = bitsandbytes.nn.Params4bit(
            factor * weight, requires_grad=False, quant_type="nf4"
        )
        return layer.to("cpu")

    layer, double = quantised(1), quantised(2)
    assert torch.equal(layer.weight.data, double.weight.data)
    assert fingerprint(layer, None) == fingerprint(quantised(1), None)
    assert fingerprint(layer, None) != fingerprint(double, None)


def test_weights_that_are_elsewhere_have_no_fingerprint():
    assert fingerprint(torch.nn.Linear(2, 2, device="meta"), None) is None


def test_code_that_changed_since_it_was_loaded_has_no_fingerprint(
    assemble, monkeypatch
):
    assert assemble().fingerprint() is not None
    monkeypatch.setattr(sources, "STARTED", 0.0)
    assert assemble().fingerprint() is None


def test_an_encoder_has_the_fingerprint_of_its_weights_parts_and_engine(
    toys, assemble, engine_of
):
    encoders = {
        "plain": assemble(),
        "weights": assemble(seed=1),
        "head": assemble(head=Head(projection=6, bias=True, normalize=True)),
        "bias": assemble(head=Head(projection=6)),
        "pooler": assemble(pooler=toys.norm()),
        "precision": assemble(on=engine_of(torch.bfloat16)),
        "compiled": assemble(on=engine_of(compile=True)),
    }
    fingerprints = {encoder.fingerprint() for encoder in encoders.values()}
    assert len(fingerprints) == len(encoders)
    assert assemble().fingerprint() == encoders["plain"].fingerprint()


def test_a_fingerprint_names_the_gpu(assemble, monkeypatch):
    fingerprints = set()
    for name in ("H100", "A100"):
        encoder = assemble()
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda _, name=name: name)
        encoder.placement.device = torch.device("cuda", 0)
        fingerprints.add(encoder.fingerprint())
    assert len(fingerprints) == 2


def test_encoding_leaves_the_fingerprint_and_a_step_changes_it(toys, assemble, columns):
    encoder = assemble()
    first = encoder.fingerprint()
    encoder.encode(toys.batch("rain", "two birds"))
    assert encoder.fingerprint() == first
    toys.train(encoder, toys.loss(), toys.sgd()).step(columns)
    assert encoder.fingerprint() != first
