"""Devices of a plan: what is published, and what is measured once on this machine."""

from __future__ import annotations

import json

import attrs
import pytest
import toy_plugin
from sentbed_common import CACHE_VARIABLE
from sentbed_workbench.planned_device import RATES, accelerators, device_of


@attrs.frozen
class Accelerator(toy_plugin.Toy):
    """The fields of a runtime on accelerators."""

    name = "cuda"
    precision: str = "auto"
    tf32: bool = False
    devices: int | None = None
    nodes: int = 1
    parallel: str = "ddp"
    token_budget: int | None = None


@attrs.frozen
class Tpu(Accelerator):
    name = "tpu"


@pytest.mark.parametrize(
    ("runtime", "on", "memory", "precision", "flops"),
    [
        (Accelerator("bf16"), "NVIDIA H100 80GB HBM3", 80e9, "bf16", 989e12),
        (Accelerator(), "NVIDIA A100-SXM4-80GB", 80e9, "bf16", 312e12),
        (Accelerator(), "NVIDIA A100-SXM4-40GB", 40e9, "bf16", 312e12),
        (Accelerator("fp32"), "A100", 80e9, "fp32", 19.5e12),
        (Accelerator("fp32", tf32=True), "A100", 80e9, "fp32", 156e12),
        (Accelerator(), "Tesla V100-SXM2-32GB", 32e9, "fp32", 15.7e12),
        (Accelerator("fp16"), "Tesla T4", 16e9, "fp16", 65e12),
        (Tpu("bf16"), "v5e", 16e9, "bf16", 197e12),
        (Tpu("fp32"), "TPU v4", 32e9, "fp32", 275e12 / 6),
    ],
    ids=str,
)
def test_an_accelerator_is_found_by_its_name(runtime, on, memory, precision, flops):
    device = device_of(runtime, on)
    assert device.problem == ""
    assert (device.memory, device.precision) == (memory, precision)
    assert device.rates == pytest.approx((0.3 * flops, 0.6 * flops), rel=1e-2)


def test_every_published_name_finds_itself():
    for runtime in (Accelerator(), Tpu()):
        published = accelerators(runtime.name)
        assert published
        for name, figures in published.items():
            assert device_of(runtime, name).memory == figures["memory"] * 1e9


@pytest.mark.parametrize(
    ("runtime", "on", "problem"),
    [
        (Accelerator("bf16"), "T4", "it does not compute in bf16"),
        (Accelerator(), "Voodoo 3", "only those of H200, H100 PCIe"),
        (Accelerator(), "A1000", "the speed of a `A1000` is not known"),
        (Tpu(), "H100", "only those of v6e"),
        (Tpu(), None, "name one with `--on`"),
        (toy_plugin.Toy(), "EPYC", "this machine's processor"),
    ],
    ids=str,
)
def test_a_speed_that_is_not_known_says_why(runtime, on, problem):
    device = device_of(runtime, on)
    assert device.rates is None
    assert problem in device.problem


def test_devices_of_all_machines_count():
    device = device_of(Accelerator(devices=4, nodes=2, parallel="fsdp"), "A100")
    assert (device.count, device.parallel) == (8, "fsdp")


def test_a_processor_is_measured_once(tmp_path, monkeypatch):
    rates = pytest.importorskip("sentbed_workbench._torch.measured_rates")
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    monkeypatch.setattr(rates, "SECONDS", 0.01)
    monkeypatch.setattr(rates, "COPIED_BYTES", 2**20)
    monkeypatch.setattr(rates, "TEXTS", 2)
    threads = rates.torch.get_num_threads()
    first = device_of(toy_plugin.Toy())
    assert (first.kind, first.precision, first.problem) == ("toy", "fp32", "")
    assert first.rates is not None
    # A block on a core: more than a million operations a second, fewer than 10^13.
    assert 1e6 < first.rates[0] <= first.rates[1] < 1e13
    assert rates.torch.get_num_threads() == threads

    file = tmp_path / RATES
    cached = json.loads(file.read_text())
    file.write_text(json.dumps({key: [2e9, 1e9, 3e9] for key in cached}))
    assert device_of(toy_plugin.Toy()).rates == (1e9, 2e9)
    assert device_of(toy_plugin.Toy(), measure=True).rates != (1e9, 2e9)
    file.write_text("damaged")
    assert device_of(toy_plugin.Toy()).rates != (1e9, 2e9)


@pytest.mark.parametrize(("precision", "planned"), [("auto", "bf16"), ("int8", "fp32")])
def test_a_precision_that_only_an_engine_knows_is_planned_as_fp32(precision, planned):
    device = device_of(Accelerator(precision), "A100")
    assert device.precision == planned
