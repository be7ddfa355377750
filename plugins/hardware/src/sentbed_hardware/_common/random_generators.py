"""Saving and restoring the states of torch's random generators."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor


def generator_states() -> list[Tensor]:
    """Return the states of torch's generators: the host's, then those of the CUDA devices.

    A single process may use all CUDA devices. If it is one of several, it uses one CUDA device, and the states of
    the others are not returned.
    """
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return [torch.get_rng_state()]
    if _among_others():
        return [torch.get_rng_state(), torch.cuda.get_rng_state()]

    return [torch.get_rng_state(), *torch.cuda.get_rng_state_all()]


def restore_generators(states: Sequence[Tensor]) -> None:
    """Restore torch's generators to the states that `generator_states` returned."""
    host, *devices = states
    torch.set_rng_state(host)

    if _among_others():
        for state in devices:
            torch.cuda.set_rng_state(state)
        return

    for device, state in enumerate(devices):
        torch.cuda.set_rng_state(state, device)


def _among_others() -> bool:
    """Return whether this is one of several processes."""
    return dist.is_available() and bool(dist.is_initialized())
