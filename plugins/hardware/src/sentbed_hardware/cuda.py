"""The runtime `cuda`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import ClassVar, Literal

import attrs
from attrs.validators import ge, optional
from sentbed import RuntimeUnavailableError
from sentbed.protocols import Engine, Runtime
from sentbed_common import import_heavy

from sentbed_hardware.distributed_base import Distributed


@attrs.frozen(kw_only=True)
class Cuda(Distributed, Runtime):
    """PyTorch on an NVIDIA GPU, or on several.

    A process uses the first GPU that it sees (`CUDA_VISIBLE_DEVICES` selects them); of several processes on a
    machine, each uses one. In `bf16` and `fp16`, encoding runs on weights of that precision
    and training under autocast with fp32 weights; sentence vectors, losses and optimiser states are fp32 in
    all. A batch that does not fit into the GPU's memory is halved, in training by gradient caching; the run
    says so and goes on.
    """

    name: ClassVar[str] = "cuda"

    precision: Literal["fp32", "bf16", "fp16", "auto"] = "fp32"
    """`bf16` needs a GPU of compute capability 8.0 (A100, RTX 30) or newer; `auto` is bf16 there, else fp32.
    `fp16` is for older ones: its largest number is 65,504, which states of a T5 trained in bf16 exceed; in
    training the loss is scaled, and a step whose gradient overflows is taken again at half the scale."""
    tf32: bool = False
    """Round the factors of fp32 products to 10 bits of mantissa (TF32): up to eight times as fast on GPUs of
    capability 8.0, but with other results than other devices. No effect in bf16 and fp16."""
    compile: bool = False
    """Compile training and encoding with `torch.compile` (needs Triton): minutes at the start, faster steps.
    Batches to encode are padded to few shapes, each compiled once. Without it, the backbones `bert`, `t5`,
    `opt` and `causal` encode in packed forms of their own, where they have one."""
    deterministic: bool = False
    """Refuse operations whose result may change from run to run, and have cuBLAS work in one order."""
    token_budget: int | None = attrs.field(default=None, validator=optional(ge(1)))
    """Tokens per batch when encoding; from the GPU's memory and the width of the token states if omitted:
    32,768 for BERT-base in bf16 on a GPU of 40 GiB."""

    def variants(self) -> Iterator[Cuda]:
        """Yield the runtime in each precision."""
        for precision in ("fp32", "bf16", "fp16"):
            yield attrs.evolve(self, precision=precision)

    def unavailable(self) -> str | None:
        """Return why no GPU can be used here, as far as it shows without loading PyTorch."""
        from sentbed_hardware.cuda_presence import reason_without_cuda

        return reason_without_cuda()

    def build(self) -> Engine:
        """Claim the GPU and return the engine.

        Raises:
            RuntimeUnavailableError: for a PyTorch without CUDA, without a usable GPU, and for `bf16` on a GPU
                that lacks it.
        """
        if self.deterministic:
            # Read when cuBLAS is first used; without it PyTorch refuses every product of matrices.
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

        import_heavy("sentbed_hardware._torch.cuda")
        import torch

        from sentbed_hardware._torch.cuda import CudaEngine, claimed_gpu
        from sentbed_hardware._torch.engine import spread

        device = claimed_gpu()
        has_bf16 = torch.cuda.is_bf16_supported(including_emulation=False)
        about = torch.cuda.get_device_properties(device)
        capability = f"{about.major}.{about.minor}"
        precision: str = self.precision
        if precision == "auto":
            precision = "fp32"
            if has_bf16:
                precision = "bf16"
        if precision == "bf16" and not has_bf16:
            raise RuntimeUnavailableError(
                f"this GPU ({about.name}, compute capability {capability}) has no bf16 instructions, which came "
                'with 8.0; use `precision = "fp32"` or "fp16", or "auto" to take bf16 only where it is present'
            )

        # The older of two APIs: after the newer one, PyTorch 2.13 raises when its own compiler reads the older.
        torch.backends.cuda.matmul.allow_tf32 = self.tf32
        torch.use_deterministic_algorithms(self.deterministic)

        facts = {
            "runtime": self.name,
            "device": about.name,
            "precision": precision,
            "capability": capability,
            "memory_gib": round(about.total_memory / 2**30, 1),
            "tf32": self.tf32,
            "cuda": torch.version.cuda or torch.version.hip,
            "deterministic": self.deterministic,
        }
        dtypes = {"bf16": torch.bfloat16, "fp16": torch.float16}
        dtype = dtypes.get(precision, torch.float32)
        engine = CudaEngine(device, dtype, self.compile, facts, self.token_budget)
        return spread(engine, self)
