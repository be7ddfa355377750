"""The runtime `cpu`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import ClassVar, Literal

import attrs
from attrs.validators import ge, optional
from sentbed import RuntimeUnavailableError
from sentbed.protocols import Engine, Runtime
from sentbed_common import bf16_instructions, import_heavy

from sentbed_hardware.distributed_base import Distributed
from sentbed_hardware.engine_parts.processor import (
    default_threads,
    require_instructions,
    streams_on,
)

NO_INT8 = (
    "the runtime `cpu` does not compute in int8; encode with "
    '`runtime = { use = "openvino", precision = "int8" }` of sentbed-openvino'
)
WITHOUT_BF16 = (
    'use `precision = "fp32"`, or "auto" to take bf16 only where it is present'
)


@attrs.frozen(kw_only=True)
class Cpu(Distributed, Runtime):
    """PyTorch on the host's processor, in one process or in several.

    In `bf16`, encoding runs on bf16 weights and training under autocast with fp32 weights; sentence vectors,
    losses and optimiser states are fp32 in both.
    """

    name: ClassVar[str] = "cpu"

    precision: Literal["fp32", "bf16", "int8", "auto"] = "fp32"
    """`bf16` needs AMX or AVX-512 bf16 instructions; `auto` is bf16 where it is not emulated, else fp32.
    `int8` is refused: the runtime `openvino` has it."""
    threads: int | None = attrs.field(default=None, validator=optional(ge(1)))
    """Threads of one operation; default: `OMP_NUM_THREADS`, or all cores, or this process's
    share of them."""
    streams: int | None = attrs.field(default=None, validator=optional(ge(1)))
    """Batches encoded at a time by backbones in packed forms, each on its share of the threads; default: the
    largest divisor of the threads up to 4. Vectors are the same with one."""
    compile: bool = False
    """Compile training and encoding with `torch.compile` (needs a C++ compiler): minutes at the start, faster
    steps. Batches to encode are padded to few shapes, each compiled once. Without it, the backbones `bert`,
    `t5`, `opt` and `causal` encode in packed forms of their own, where they have one."""
    deterministic: bool = False
    """Whether to refuse operations whose result may change from run to run."""

    def check(self) -> Iterator[str]:
        """Yield problems with the settings."""
        yield from super().check()
        if self.precision == "int8":
            yield NO_INT8

    def variants(self) -> Iterator[Cpu]:
        """Yield the runtime in each precision."""
        for precision in ("fp32", "bf16"):
            yield attrs.evolve(self, precision=precision)

    def with_threads(self, threads: int) -> Cpu:
        """See `Runtime.with_threads`."""
        if self.threads is not None:
            return self

        return attrs.evolve(self, threads=threads)

    def build(self) -> Engine:
        """Set threads and determinism in this process and return the engine.

        Raises:
            RuntimeUnavailableError: for `int8`, and for `bf16` on a processor without such instructions.
        """
        if self.precision == "int8":
            raise RuntimeUnavailableError(NO_INT8)

        # Both are read when their library is loaded. Waiting threads that spin make two processes on the same
        # cores up to twenty times slower; with so little spinning, a single process is 3 % slower.
        os.environ.setdefault("GOMP_SPINCOUNT", "10000")
        if self.threads is not None:
            os.environ.setdefault("RAYON_NUM_THREADS", str(self.threads))
        import_heavy("sentbed_hardware._torch.engine")
        import torch

        from sentbed_hardware._torch.engine import TorchEngine, spread
        from sentbed_hardware._torch.streams import keep_freed_memory

        has_bf16 = bf16_instructions()
        precision: str = self.precision
        if precision == "auto":
            precision = "fp32"
            if has_bf16:
                precision = "bf16"
        require_instructions(precision, WITHOUT_BF16)
        threads = self.threads or default_threads()
        streams = min(self.streams or streams_on(threads), threads)
        keep_freed_memory()
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(self.deterministic)

        facts = {
            "runtime": self.name,
            "device": torch.cpu.get_capabilities().get("cpu_name", "unknown"),
            "precision": precision,
            "bf16_instructions": has_bf16,
            "threads": threads,
            "streams": streams,
            "deterministic": self.deterministic,
        }
        device = torch.device("cpu")
        dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[precision]
        engine = TorchEngine(device, dtype, self.compile, facts, streams=streams)
        return spread(engine, self)
