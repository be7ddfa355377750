"""Equal weights, parts and engines have equal fingerprints; all others have not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from sentbed.protocols import Head
from sentbed_hardware._common.module_fingerprint import fingerprint
from transformers import BertConfig


class Scaling(torch.nn.Module):
    """Has a weight, buffers and a configuration."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.arange(6.0).reshape(2, 3))
        self.register_buffer("kept", torch.tensor(1.5))
        self.register_buffer("passing", torch.tensor([True, False]), persistent=False)
        self.config = BertConfig(name_or_path="here")


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
    "configuration": lambda m: setattr(m.config, "layer_norm_eps", 1e-5),
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


def test_what_changes_no_vector_is_not_in_the_fingerprint():
    expected = fingerprint(Scaling(), None)
    module = Scaling().eval().requires_grad_(False)
    module.weight.data = module.weight.data.t().contiguous().t()
    module.config.name_or_path = "elsewhere"
    assert fingerprint(module, None) == expected


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
