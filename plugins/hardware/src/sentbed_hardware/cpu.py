"""The runtime `cpu`."""

from __future__ import annotations

import os
from typing import ClassVar, Literal

import attrs
from attrs.validators import ge, optional
from sentbed.protocols import Engine, Runtime
from sentbed_common import import_heavy, present_instructions, processor_capabilities

from sentbed_hardware.distributed_base import Distributed
from sentbed_hardware.engine_parts.cpu_defaults import (
    default_threads,
    require_instructions,
)

WITHOUT_BF16 = (
    'use `precision = "fp32"`, or "auto" to take bf16 only where it is present'
)


@attrs.frozen(kw_only=True)
class Cpu(Distributed, Runtime):
    """PyTorch on the host's processor, in one process or in several.

    With `precision = "bf16"`, encoding uses weights in bf16, and training uses fp32 weights under autocast to
    bf16. Sentence vectors, losses and optimiser states are fp32 with either precision.
    """

    name: ClassVar[str] = "cpu"

    precision: Literal["fp32", "bf16", "auto"] = "fp32"
    """`bf16` needs AMX or AVX-512 instructions for bf16. `auto` is bf16 on a processor with these
    instructions, else fp32. The runtime `openvino` has int8."""
    threads: int | None = attrs.field(default=None, validator=optional(ge(1)))
    """Number of threads of one operation. The default is `OMP_NUM_THREADS` if it is set. Otherwise, the
    processes on this machine share its cores equally."""
    deterministic: bool = False
    """Whether to refuse operations whose results may differ from run to run."""

    def with_threads(self, threads: int) -> Cpu:
        """See `Runtime.with_threads`."""
        if self.threads is not None:
            return self

        return attrs.evolve(self, threads=threads)

    def build(self) -> Engine:
        """Set the threads and the determinism of this process, and return the engine.

        Raises:
            RuntimeUnavailableError: if the precision is `bf16` and the processor has no instructions for it.
        """
        # OpenMP and Rayon read these variables when they are loaded. By default, OpenMP's waiting threads spin:
        # two processes on the same cores are then up to twenty times slower. With 10,000 spins, they are not,
        # and a single process is 3 % slower.
        os.environ.setdefault("GOMP_SPINCOUNT", "10000")
        if self.threads is not None:
            os.environ.setdefault("RAYON_NUM_THREADS", str(self.threads))
        import_heavy("sentbed_hardware._torch.engine")
        import torch

        from sentbed_hardware._torch.engine import TorchEngine, spread

        has_bf16 = present_instructions("bf16")
        precision: str = self.precision
        if precision == "auto":
            precision = "fp32"
            if has_bf16:
                precision = "bf16"
        require_instructions(precision, WITHOUT_BF16)
        threads = self.threads or default_threads()
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(self.deterministic)

        facts = {
            "runtime": self.name,
            "device": processor_capabilities().get("cpu_name", "unknown"),
            "precision": precision,
            "bf16_instructions": has_bf16,
            "threads": threads,
            "deterministic": self.deterministic,
        }
        device = torch.device("cpu")
        dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[precision]
        engine = TorchEngine(device, dtype, facts)
        return spread(engine, self)
