"""Building of the engine: it connects the processes of a run, and claims JAX's devices."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import version
from typing import Any

import jax
import torch
from sentbed import RuntimeUnavailableError
from sentbed.protocols import Engine
from sentbed_common import cache_root
from sentbed_hardware.engine_parts import process_group
from sentbed_hardware.engine_parts.calls_in_all_processes import Lead
from sentbed_hardware.engine_parts.process_group import Processes

from sentbed_tpu._jax.devices import JaxDevices
from sentbed_tpu._jax.engine import JaxEngine
from sentbed_tpu._jax.mesh import Layout
from sentbed_tpu._jax.shape_buckets import Buckets

ADDRESS = "jax"
"""Entry of the processes' key-value store: the address of JAX's coordinator, which is in the first process."""


def build_engine(
    *,
    platform: str,
    bf16: bool,
    devices: int | None,
    nodes: int,
    parallel: str,
    lengths: Sequence[int],
    token_budget: int,
) -> Engine:
    """Claim devices, and return the engine over the devices of all processes.

    The arguments are fields of `Tpu`. The other processes repeat the calls that the first process makes to its
    engine.

    Raises:
        RuntimeUnavailableError: if JAX does not find the devices, or processes are missing.
    """
    processes = join(nodes, platform)
    claimed = claim(platform, devices, processes.world)
    # By default, a TPU computes products of fp32 numbers in bf16.
    jax.config.update("jax_default_matmul_precision", "highest")
    if platform == "tpu" and not jax.config.values["jax_compilation_cache_dir"]:
        # A large model takes minutes to compile, and a later run needs the same shapes.
        jax.config.update("jax_compilation_cache_dir", str(cache_root() / "xla"))

    count = len(claimed)
    precision = "fp32"
    if bf16:
        precision = "bf16"
    facts = {
        "runtime": "tpu",
        "platform": platform,
        "device": claimed[0].device_kind,
        "devices": count,
        "precision": precision,
        "lengths": list(lengths),
        "jax": jax.__version__,
        "torchax": version("torchax"),
    }
    if count > 1:
        facts["parallel"] = parallel
    if processes.world > 1:
        facts["processes"] = processes.world

    layout = Layout.over(claimed, parallel == "fsdp")
    buckets = Buckets(lengths, token_budget * count, count)
    engine = JaxEngine(JaxDevices(layout, buckets, bf16, processes), facts)
    if processes.world > 1 and processes.first:
        Lead(engine)

    return engine


def join(nodes: int, platform: str) -> Processes:
    """Connect the processes that `torchrun` has started, one per machine, and start JAX in each.

    Raises:
        RuntimeUnavailableError: if the recipe sets several machines and this is the only process.
    """
    # JAX cannot go on after another process has ended. The engine on PyTorch cannot either if weights are
    # sharded, so this group counts as sharded.
    processes = process_group.join(torch.device("cpu"), asked_for=nodes, sharded=True)
    if processes.world == 1:
        return processes

    if processes.first:
        with socket.socket() as free:
            free.bind(("", 0))
            port = free.getsockname()[1]
        processes.store.set(ADDRESS, f"{os.environ['MASTER_ADDR']}:{port}")

    address = processes.store.get(ADDRESS).decode()
    if platform == "cpu":
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(address, processes.world, processes.rank)
    return processes


def claim(
    platform: str,
    devices: int | None,
    processes: int,
) -> list[Any]:
    """Return the devices of all processes, `devices` of each process.

    If `devices` is None, each process has all of its devices; on the platform `cpu`, it has one.

    Raises:
        RuntimeUnavailableError: if JAX finds no devices of this platform, or too few.
    """
    if platform == "cpu":
        devices = devices or 1
        # JAX raises if it is already running in this process; its number of devices is then fixed.
        with suppress(RuntimeError):
            jax.config.update("jax_platforms", "cpu")
            if devices > 1:
                jax.config.update("jax_num_cpu_devices", devices)

    try:
        present = jax.devices(platform)
    except RuntimeError as error:
        raise RuntimeUnavailableError(
            f'JAX finds no {platform.upper()}: {error}; use `platform = "cpu"` to try this '
            "runtime without one, or the runtime `cpu` or `cuda`"
        ) from error

    by_process: list[list[Any]] = [[] for _ in range(processes)]
    for device in present:
        # Another program may have started JAX with more processes than this run has.
        if device.process_index < processes:
            by_process[device.process_index].append(device)

    fewest = min(map(len, by_process))
    if devices is not None and devices > fewest:
        message = f"`devices` is {devices}, and JAX has only {fewest}; set `devices = {fewest}`"
        if platform == "cpu":
            message += f", or XLA_FLAGS=--xla_force_host_platform_device_count={devices} in the environment"
        raise RuntimeUnavailableError(message)

    claimed = []
    for of_process in by_process:
        claimed += of_process[:devices]

    return claimed
