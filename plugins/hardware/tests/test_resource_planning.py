from __future__ import annotations

import math
from typing import Any

import attrs
import pytest
import torch
from sentbed import RuntimeUnavailableError
from sentbed.protocols import (
    Loss,
    LossOutput,
    LossTraits,
)
from sentbed_hardware._torch import resource_planning
from sentbed_hardware.adafactor import Adafactor
from sentbed_hardware.adamw import AdamW
from sentbed_hardware.cpu import Cpu
from sentbed_hardware.cuda import Cuda
from sentbed_hardware.peak_rates import CUDA, find

SHAPES = {
    "embeddings": (50, 6),
    "dense.weight": (6, 9),
    "dense.bias": (9,),
    "kernel": (3, 4, 5),
    "temperature": (),
}


def bytes_of(state: Any) -> int:
    tensors = [
        value
        for entry in state.values()
        for value in entry.values()
        if torch.is_tensor(value)
    ]
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


@pytest.mark.parametrize(
    "optimizer",
    [AdamW(lr=0.1), Adafactor(), Adafactor(scale_parameter=False)],
    ids=lambda o: o.name,
)
def test_the_state_has_as_many_bytes_as_the_optimizer_says(optimizer: Any) -> None:
    parameters = [
        (name, torch.nn.Parameter(torch.ones(shape))) for name, shape in SHAPES.items()
    ]
    real = optimizer.build(parameters)
    for _ in range(2):
        for _, parameter in parameters:
            parameter.grad = torch.ones_like(parameter)
        real.step()
    assert optimizer.state_bytes(SHAPES) == bytes_of(real.state)


def test_adamw_holds_two_numbers_a_weight_and_adafactor_a_row_and_a_column() -> None:
    matrix = {"weight": (1000, 500)}
    assert AdamW(lr=0.1).state_bytes(matrix) == 8 * 500_000 + 4
    assert Adafactor().state_bytes(matrix) == 4 * (1000 + 500 + 1)


def test_the_processor_is_timed_in_its_precision(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resource_planning, "SECONDS", 0.01)
    monkeypatch.setattr(resource_planning, "SIZE", 128)
    before = torch.get_num_threads()
    device = Cpu(precision="fp32", threads=1).outline()
    assert (device.kind, device.precision, device.count) == ("cpu", "fp32", 1)
    assert device.flops is not None
    assert device.bandwidth is not None
    # A product of small matrices on one core: more than a million operations a second, fewer than 10^13.
    assert 1e6 < device.flops < 1e13
    assert 1e7 < device.bandwidth < 1e13
    assert device.memory is not None
    assert device.memory > device.libraries > 0
    assert torch.get_num_threads() == before


def test_of_a_product_the_operations_are_counted_by_hand(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resource_planning, "_fastest", lambda call: 0.5)
    monkeypatch.setattr(resource_planning, "SIZE", 16)
    assert resource_planning._products(torch.float32) == 2 * 16**3 / 0.5
    assert resource_planning._copies() == 2 * resource_planning.COPIED / 0.5


def test_another_processor_cannot_be_timed() -> None:
    with pytest.raises(RuntimeUnavailableError, match="timed where it runs"):
        Cpu().outline("EPYC")


@pytest.mark.parametrize(
    ("runtime", "on", "memory", "flops"),
    [
        (Cuda(precision="bf16"), "NVIDIA H100 80GB HBM3", 80e9, 989e12),
        (Cuda(precision="auto"), "NVIDIA A100-SXM4-80GB", 80e9, 312e12),
        (Cuda(), "A100", 80e9, 19.5e12),
        (Cuda(tf32=True), "A100", 80e9, 156e12),
        (Cuda(precision="auto"), "Tesla V100-SXM2-32GB", 32e9, 15.7e12),
        (Cuda(precision="fp16"), "Tesla T4", 16e9, 65e12),
        (Cuda(precision="fp16"), "H200", 141e9, 989e12),
    ],
    ids=str,
)
def test_a_device_is_found_by_its_name(
    runtime: Any, on: str, memory: float, flops: float
) -> None:
    device = runtime.outline(on)
    assert device.memory == memory
    assert device.flops == pytest.approx(flops)
    assert device.precision != "auto"


def test_a_precision_that_a_device_lacks_has_no_speed() -> None:
    assert Cuda(precision="bf16").outline("T4").flops is None


def test_devices_of_all_machines_count() -> None:
    device = Cuda(devices=4, nodes=2, rendezvous="a:1", parallel="fsdp").outline("A100")
    assert (device.count, device.parallel) == (8, "fsdp")


def test_an_unknown_device_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(RuntimeUnavailableError, match=r"Voodoo.*H100"):
        Cuda().outline("Voodoo 3")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_without_a_gpu_a_name_is_asked_for() -> None:
    with pytest.raises(RuntimeUnavailableError, match="--on"):
        Cuda().outline()


def test_every_name_of_the_table_finds_itself() -> None:
    assert CUDA
    for peak in CUDA:
        assert find(peak.name, CUDA) is peak
    assert find("GeForce 256", CUDA) is None
    # Names that begin with another's.
    assert find("A1000", CUDA) is None
    assert find("H1000", CUDA) is None


@attrs.frozen
class Pairs(Loss):
    """A loss with a memory, small enough to count by hand."""

    name = "pairs"
    traits = LossTraits(needs=frozenset({"anchor", "positive"}), stateful=True)

    def build(self, width: int) -> torch.nn.Module:
        return PairsModule(width)


class PairsModule(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(width))

    def initial_state(self) -> dict[str, torch.Tensor]:
        return {"memory": torch.zeros(10, 3)}

    def forward(
        self, inputs: dict[str, torch.Tensor], state: dict[str, torch.Tensor]
    ) -> LossOutput:
        scores = (inputs["anchor"] * self.scale) @ inputs["positive"].T
        return LossOutput(scores.exp().mean(), state=state)


def test_a_loss_is_counted_without_being_computed() -> None:
    sketch = Cpu().sketch_loss(Pairs(), 4, 6, frozenset({"anchor", "positive"}))
    assert dict(sketch.trained) == {"scale": (4,)}
    assert sketch.state_bytes == 4 * 10 * 3
    # Kept: the scale, the scaled anchors, and the exponentials.
    assert sketch.activation_bytes == 4 * (4 + 6 * 4 + 6 * 6)
    # One product forward, two backward.
    assert sketch.flops == 3 * 2 * 6 * 6 * 4


def test_a_pooler_is_sketched_with_what_it_trains(toys: Any) -> None:
    sketch = Cpu().sketch_pooler(toys.first_dense(out=12), 4)
    assert sum(math.prod(shape) for shape in sketch.trained.values()) == 12 * 4 + 12


def test_a_column_of_numbers_is_planned_for(toys: Any) -> None:
    columns = frozenset({"anchor", "positive", "score"})
    small, large = (
        Cpu().sketch_loss(toys.graded(), 8, rows, columns) for rows in (4, 400)
    )
    assert small.trained == {}
    assert 0 < small.activation_bytes < large.activation_bytes
