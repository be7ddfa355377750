"""The bf16 instruction sets of this machine's processor: the choice of precision depends on them."""

from __future__ import annotations

from collections.abc import Sequence

BF16_INSTRUCTIONS = ("amx_bf16", "avx512_bf16")
"""Instruction sets for bf16. With any of them, bf16 is faster than fp32; without them, bf16 is emulated and
slower than fp32."""


def bf16_instructions() -> list[str]:
    """Return which bf16 instruction sets this processor has."""
    return present_instructions(BF16_INSTRUCTIONS)


def present_instructions(names: Sequence[str]) -> list[str]:
    """Return which of the instruction sets `names`, as torch names them, this processor has."""
    import torch

    capabilities = torch.cpu.get_capabilities()
    return [name for name in names if capabilities.get(name)]
