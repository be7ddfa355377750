"""Resources for `sentbed plan`: the speed of the device, and the memory of poolers and losses."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import torch
from sentbed.helpers import physical_memory, usable_cores
from sentbed.protocols import LABEL, PROGRESS, Loss, Module, Pooler
from sentbed_common import Device, Sketch, memory_limit
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode

from sentbed_hardware._torch.cpu import bf16_instructions

SIZE = 2048
"""Rows and columns of the matrices whose product is timed."""
COPIED = 2**26
"""Bytes that are copied to time the memory: more than a processor's cache."""
SECONDS = 0.4
"""Seconds of each timing."""

CPU_SHARE = {"fp32": (0.5, 0.9), "bf16": (0.12, 0.35)}
"""Share of the product's speed that training steps reached, by processor time on one thread: the lower for a
model of width 384, the higher for 768. In bf16, products are so fast that other operations dominate."""
CPU_SHARE_SOURCE = "measured with widths of 384 and 768"
LIBRARIES = 500_000_000
"""Bytes that Python, PyTorch and transformers take, measured in a run of a tiny model."""


def cpu(parameters: Any) -> Device:
    """Return this processor, timed."""
    found = bf16_instructions()
    # What int8 takes is estimated by what bf16 does, which is more.
    bf16 = parameters.precision == "bf16" or (
        parameters.precision in ("auto", "int8") and bool(found)
    )
    threads, before = parameters.threads or usable_cores(), torch.get_num_threads()
    processes = getattr(parameters, "devices", 1)
    torch.set_num_threads(threads)
    try:
        flops, bandwidth = (
            _products(torch.bfloat16 if bf16 else torch.float32),
            _copies(),
        )
    finally:
        torch.set_num_threads(before)
    memory = memory_limit() or physical_memory()
    processor = torch.cpu.get_capabilities().get("cpu_name", "processor")
    return Device(
        kind="cpu",
        name=f"{processor}, {threads} thread{'s' * (threads != 1)}",
        precision="bf16" if bf16 else "fp32",
        count=processes * getattr(parameters, "nodes", 1),
        parallel=getattr(parameters, "parallel", "ddp"),
        # Processes on one machine share its memory.
        memory=None if memory is None else memory // processes,
        libraries=LIBRARIES,
        flops=flops,
        bandwidth=bandwidth,
        source=f"measured here: a product of {SIZE} x {SIZE} matrices, and copying",
        share=CPU_SHARE["bf16" if bf16 else "fp32"],
        share_source=CPU_SHARE_SOURCE,
    )


def sketch_pooler(pooler: Pooler, width: int) -> Sketch:
    """See `sentbed_common.resource_planning`."""
    with torch.device("meta"):
        module = pooler.build(width)
    return Sketch(trained=_shapes(module))


def sketch_loss(
    loss: Loss, width: int, batch_size: int, columns: frozenset[str]
) -> Sketch:
    """See `sentbed_common.resource_planning`; the loss is run on vectors without content."""
    kept: dict[int, int] = {}
    alive: list[Any] = []

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        alive.append(storage)
        kept[storage._cdata] = storage.nbytes()
        return tensor

    with FakeTensorMode(), torch.device("cpu"):
        module = loss.build(width).train()
        state = module.initial_state() if loss.traits.stateful else None
        inputs: dict[str, torch.Tensor] = {}
        if loss.traits.scheduled:
            inputs[PROGRESS] = torch.tensor(0.0)
        for column in sorted(columns):
            numbers = torch.zeros(batch_size, dtype=torch.int64)
            if column == LABEL:
                inputs[column] = numbers
                continue
            if column in loss.traits.numbers:
                inputs[column] = numbers.float()
                continue
            inputs[column] = torch.zeros(batch_size, width, requires_grad=True)
            if loss.traits.compares_texts:
                inputs[f"{column}.id"] = numbers
        own = {
            tensor.untyped_storage()._cdata
            for tensor in (*inputs.values(), *(state or {}).values())
        }
        with FlopCounterMode(display=False) as counter:
            with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
                output = module(inputs) if state is None else module(inputs, state)
            output.loss.backward()
        shapes = _shapes(module)
    return Sketch(
        trained=shapes,
        state_bytes=sum(
            value.numel() * value.element_size() for value in (state or {}).values()
        ),
        activation_bytes=sum(
            size for number, size in kept.items() if number not in own
        ),
        flops=float(counter.get_total_flops()),
    )


def _shapes(module: Module) -> Mapping[str, tuple[int, ...]]:
    return {
        name: tuple(p.shape) for name, p in module.named_parameters() if p.requires_grad
    }


def _products(dtype: torch.dtype) -> float:
    """Return the operations per second of a large matrix product, the best of several timings."""
    left, right = (torch.ones(SIZE, SIZE, dtype=dtype) for _ in range(2))
    return 2 * SIZE**3 / _fastest(lambda: left @ right)


def _copies() -> float:
    """Return the bytes per second read and written in copies."""
    source = torch.ones(COPIED // 4)
    target = torch.empty_like(source)
    return 2 * COPIED / _fastest(lambda: target.copy_(source))


def _fastest(call: Callable[[], object]) -> float:
    call()
    taken: list[float] = []
    end = time.perf_counter() + SECONDS
    while not taken or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return min(taken)
