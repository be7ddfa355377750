"""Checks of PyTorch's devices, their precisions and attention kernels, for `sentbed doctor`."""

from __future__ import annotations

import os
import shutil
import subprocess
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from sentbed_common import PRECISION_INSTRUCTIONS, Finding

X86 = "avx2 avx512_f avx512_vnni avx512_bf16 avx512_fp16 amx_int8 amx_bf16 amx_fp16"
ARM = "neon sve sve2 bf16 i8mm"
INSTRUCTIONS = (*X86.split(), *ARM.split())
"""Instruction sets for matrix products, under the names that torch gives them."""
KERNELS = {
    "flash": "FLASH_ATTENTION",
    "memory-efficient": "EFFICIENT_ATTENTION",
    "cudnn": "CUDNN_ATTENTION",
}
"""Fused kernels of `scaled_dot_product_attention` -> their names in `torch.nn.attention.SDPBackend`."""
CAPABILITIES = {"bf16": (8, 0), "fp16": (7, 0), "tf32": (8, 0)}
"""Precision -> lowest compute capability whose tensor cores support it (CUDA C++ Programming Guide)."""
CUDA_BUILD = (
    "`pip install --force-reinstall torch --index-url https://download.pytorch.org/whl/cuNNN`, "
    "NNN at most the CUDA version that `nvidia-smi` shows"
)


def build_of(torch: Any) -> str:
    """Return the GPU platform and its version that torch is built for."""
    if torch.version.cuda:
        return f"CUDA {torch.version.cuda}"
    if torch.version.hip:
        return f"ROCm {torch.version.hip}"

    return "processors only"


def processor(capabilities: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield the processor and its precisions; `capabilities` is from `processor_capabilities`."""
    name = capabilities.get("cpu_name", "unknown")
    present = [word for word in INSTRUCTIONS if capabilities.get(word)]
    sets = ", ".join(present) or "no wide instructions"
    yield Finding("devices", "cpu", "yes", f"{name}: {sets}")
    yield Finding("precisions", "cpu fp32", "yes")
    bf16_instructions = PRECISION_INSTRUCTIONS["bf16"]
    bf16_sets = [word for word in bf16_instructions if capabilities.get(word)]
    if bf16_sets:
        yield Finding("precisions", "cpu bf16", "yes", ", ".join(bf16_sets))
        return

    lacking = f"emulated, without {' and '.join(bf16_instructions)}; the runtime `cpu` takes fp32"
    yield Finding("precisions", "cpu bf16", "limited", lacking)


def attention(
    torch: Any,
    device: str,
    dtype: Any,
) -> Iterator[Finding]:
    """Yield whether each fused attention kernel works on a device, by running it on a small input."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    kernels = {"flash": KERNELS["flash"]}
    if device.startswith("cuda"):
        kernels = KERNELS
    query = torch.ones(1, 2, 64, 64, device=device, dtype=dtype)
    for name, backend in kernels.items():
        label = f"{device} {name}"
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")

            try:
                with sdpa_kernel(getattr(SDPBackend, backend)):
                    attend = torch.nn.functional.scaled_dot_product_attention
                    attend(query, query, query)
            except (RuntimeError, AttributeError) as error:
                # The warnings explain why a kernel cannot be used; the error does not.
                reasons = [_message(warning) for warning in caught]
                detail = "; ".join(reasons) or str(error)
                yield Finding("attention", label, "no", detail)
            else:
                detail = f"in {str(dtype).removeprefix('torch.')}"
                yield Finding("attention", label, "yes", detail)


def _message(warning: warnings.WarningMessage) -> str:
    """Return the message of a warning of torch, without the line of torch's code that it names."""
    return str(warning.message).partition(" (Trigger")[0]


def cuda(torch: Any) -> Iterator[Finding]:
    """Yield whether the requirements of the runtime `cuda` are met, and the features of each GPU."""
    try:
        yield from _cuda(torch)
    except RuntimeError as error:
        # A device that is full, in use or broken must not hide the other findings.
        message = str(error).partition("\n")[0]
        yield Finding("devices", "cuda", "no", message, "`nvidia-smi` shows its state")


def _cuda(torch: Any) -> Iterator[Finding]:
    """Do the work of `cuda`; a GPU in a bad state raises `RuntimeError`."""
    version = _driver()
    driver = "no NVIDIA driver found"
    if version:
        driver = f"NVIDIA driver {version}"

    if not (torch.version.cuda or torch.version.hip):
        detail = f"torch {torch.__version__} is built for processors only; {driver}"
        remedy = CUDA_BUILD
        if not version:
            remedy = f"on a machine with an NVIDIA GPU, {CUDA_BUILD}"
        yield Finding("runtimes", "cuda", "no", detail, remedy)
        return

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        available = torch.cuda.is_available()

    build = build_of(torch)
    if not available:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        reasons = [str(warning.message) for warning in caught]
        if visible is not None:
            reasons.append(f"CUDA_VISIBLE_DEVICES={visible}")
        why = "; ".join(reasons) or "no device"
        detail = f"torch is built for {build}; {driver}; {why}"
        yield Finding("runtimes", "cuda", "no", detail, _remedy(torch, detail, version))
        return

    count = torch.cuda.device_count()
    devices = f"{count} devices"
    if count == 1:
        devices = "1 device"
    yield Finding("runtimes", "cuda", "yes", f"{devices}, {build}, {driver}")
    yield from _gpus(torch, count)


def _gpus(torch: Any, count: int) -> Iterator[Finding]:
    """Yield each GPU, then the precisions and attention kernels of the first GPU of each model."""
    first_of_model: dict[str, int] = {}
    for index in range(count):
        device = torch.cuda.get_device_properties(index)
        capability = f"compute capability {device.major}.{device.minor}"
        memory = f"{device.total_memory / 2**30:.1f} GiB"
        detail = f"{device.name}, {memory}, {capability}"
        yield Finding("devices", f"cuda:{index}", "yes", detail)
        first_of_model.setdefault(device.name, index)

    for index in first_of_model.values():
        yield from _precisions(torch, index)
        dtype = torch.float16
        if torch.cuda.get_device_capability(index) >= CAPABILITIES["bf16"]:
            dtype = torch.bfloat16
        yield from attention(torch, f"cuda:{index}", dtype)


def _remedy(
    torch: Any,
    detail: str,
    driver: str | None,
) -> str:
    """Return how the user can make a GPU visible to torch; empty if unknown.

    `detail` is the text of the finding, `driver` the version of NVIDIA's driver.
    """
    if "too old" in detail:
        return (
            f"update the NVIDIA driver, or take a torch for an older CUDA: {CUDA_BUILD}"
        )

    if os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        return "`unset CUDA_VISIBLE_DEVICES`"
    if driver or torch.version.hip:
        return ""

    return "install the NVIDIA driver; in a container, `docker run --gpus all`"


def _driver() -> str | None:
    """Return the version of the NVIDIA driver; None if `nvidia-smi` is missing or fails."""
    program = shutil.which("nvidia-smi")
    return program and first_line(
        program, "--query-gpu=driver_version", "--format=csv,noheader"
    )


def _precisions(torch: Any, index: int) -> Iterator[Finding]:
    """Yield the precisions of a GPU. AMD's have no compute capability, so bf16 and fp16 count as supported."""
    capability = torch.cuda.get_device_capability(index)

    if torch.version.hip:
        detail = f"as {build_of(torch)} has it"
        for name in ("bf16", "fp16"):
            yield Finding("precisions", f"cuda:{index} {name}", "yes", detail)
        return

    for name, least in CAPABILITIES.items():
        detail = f"compute capability {capability[0]}.{capability[1]}"
        status: Literal["yes", "limited"] = "yes"
        if capability < least:
            status = "limited"
            detail += f", tensor cores compute it from {least[0]}.{least[1]} on"
        yield Finding("precisions", f"cuda:{index} {name}", status, detail)


def first_line(*command: str) -> str | None:
    """Return the first line that a command prints, or None if it fails or takes longer than 20 s."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None

    lines = done.stdout.splitlines()
    if done.returncode != 0 or not lines:
        return None

    return lines[0].strip()
