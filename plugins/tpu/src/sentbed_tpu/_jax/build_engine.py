"""Building of the engine: it claims JAX's devices."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import version
from typing import Any

import jax
from sentbed import RuntimeUnavailableError
from sentbed.protocols import Engine
from sentbed_common import cache_root

from sentbed_tpu._jax.devices import JaxDevices
from sentbed_tpu._jax.engine import JaxEngine
from sentbed_tpu._jax.mesh import Layout
from sentbed_tpu._jax.shape_buckets import Buckets


def build_engine(
    *,
    platform: str,
    bf16: bool,
    devices: int | None,
    parallel: str,
    lengths: Sequence[int],
    token_budget: int,
) -> Engine:
    """Claim devices, and return the engine over them. The arguments are fields of `Tpu`.

    Raises:
        RuntimeUnavailableError: if JAX does not find the devices.
    """
    claimed = claim(platform, devices)
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

    layout = Layout.over(claimed, parallel == "fsdp")
    buckets = Buckets(lengths, token_budget * count, count)
    return JaxEngine(JaxDevices(layout, buckets, bf16), facts)


def claim(platform: str, devices: int | None) -> list[Any]:
    """Return `devices` devices; if it is None, all of them, and one on the platform `cpu`.

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

    if devices is not None and devices > len(present):
        message = f"`devices` is {devices}, and JAX has only {len(present)}; set `devices = {len(present)}`"
        if platform == "cpu":
            message += f", or XLA_FLAGS=--xla_force_host_platform_device_count={devices} in the environment"
        raise RuntimeUnavailableError(message)

    return present[:devices]
