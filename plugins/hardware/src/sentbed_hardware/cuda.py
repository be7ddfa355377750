"""The runtime `cuda`."""

from __future__ import annotations

import os
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

    A single process uses the first visible GPU (`CUDA_VISIBLE_DEVICES` sets which are visible). Several
    processes on a machine use one GPU each.

    With `bf16` or `fp16`, encoding uses weights in that precision, and training uses fp32 weights under
    autocast. Sentence vectors, losses and optimiser states are fp32 with every precision.

    A batch to encode that does not fit into the GPU's memory is halved, and the run prints this and continues.
    """

    name: ClassVar[str] = "cuda"

    precision: Literal["fp32", "bf16", "fp16", "auto"] = "fp32"
    """`bf16` needs a GPU of compute capability 8.0 (A100, RTX 30) or newer. `auto` is bf16 on such a GPU, else
    fp32. `fp16` is for older GPUs. Its largest number is 65,504, and token states of a T5 trained in bf16
    exceed it. In training with `fp16`, torch's `GradScaler` scales the loss; a step whose gradient overflows is
    skipped."""
    tf32: bool = False
    """Whether to round the factors of fp32 products to 10 bits of mantissa (TF32). Products are up to eight
    times as fast on GPUs of capability 8.0, but results differ from those of other devices. This has no effect
    in bf16 and fp16."""
    deterministic: bool = False
    """Whether to refuse operations whose results may differ from run to run, and to let cuBLAS add in a fixed
    order."""
    token_budget: int | None = attrs.field(default=None, validator=optional(ge(1)))
    """Number of tokens per batch when encoding. If omitted, it follows from the GPU's memory and the width of
    the token states: 32,768 for BERT-base in bf16 on a GPU of 40 GiB."""

    def unavailable(self) -> str | None:
        """Return why no GPU can be used here, as far as can be seen without loading PyTorch; None if no reason is
        seen."""
        from sentbed_hardware.cuda_presence import reason_without_cuda

        return reason_without_cuda()

    def build(self) -> Engine:
        """Claim the GPU and return the engine.

        Raises:
            RuntimeUnavailableError: if PyTorch is built without CUDA, if no GPU can be used, or if the
                precision is `bf16` and the GPU does not support it.
        """
        if self.deterministic:
            # cuBLAS reads this variable at its first use. If it is not set, PyTorch refuses matrix products.
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

        # PyTorch has a newer setting for TF32, but the fingerprint of an encoder reads this older one.
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
        engine = CudaEngine(device, dtype, facts, self.token_budget)
        return spread(engine, self)
