"""Checks of JAX and TPUs, for `sentbed doctor`.

No check claims a device, except for `device_claim`, which only `sentbed doctor --try` runs.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

from sentbed import RunError
from sentbed_common import Finding, Trial, elsewhere, packages, present, version_of

PACKAGES = ("jax", "jaxlib", "torchax", "optax")

START_TIMEOUT = 60.0
"""Seconds after which the start of JAX on the CPU counts as failed."""
CLAIM_TIMEOUT = 180.0
"""Seconds after which claiming the devices counts as failed."""


def findings() -> Iterator[Finding]:
    """Yield whether the requirements of the runtime `tpu` are met, and the TPUs of this machine."""
    finding = packages("runtimes", "tpu", "sentbed-tpu", PACKAGES)
    if finding.status == "no":
        yield finding
        return
    try:
        chips = elsewhere(start, START_TIMEOUT, JAX_PLATFORMS="cpu")
    except RunError as error:
        remedy = finding.remedy or "`pip install --force-reinstall sentbed-tpu`"
        yield Finding(
            "runtimes", "tpu", "no", f"{finding.detail}; cannot start: {error}", remedy
        )
        return

    libtpu = version_of("libtpu")
    if chips and libtpu and finding.status == "yes":
        yield finding
    else:
        detail = f'{finding.detail}; `platform = "cpu"` starts'
        yield Finding("runtimes", "tpu", "limited", detail, finding.remedy)

    install = "`pip install 'jax[tpu]==0.10.2'`, on a machine with a TPU"
    yield present(
        "runtimes", "libtpu", libtpu is not None, libtpu or "not installed", install
    )
    count = "JAX cannot count them"
    if chips is not None:
        count = f"{chips} chips on the PCI bus"
    devices = present("devices", "tpu", bool(chips), count)
    if libtpu is None:
        yield devices
    else:
        yield Trial("devices", "tpu", devices.status, count, attempt=device_claim)


def start() -> int | None:
    """Compute a sum with JAX and torchax, and return the number of TPU chips; None if JAX cannot count them.

    Raises:
        RunError: if the result is wrong.
    """
    import jax
    import torch

    torchax: Any = importlib.import_module("torchax")
    environment = torchax.default_env()
    ones = environment.t2j_copy(torch.ones(3))
    if float(jax.jit(lambda values: values.sum())(ones)) != 3.0:
        raise RunError("JAX added three ones and did not get 3")
    try:
        # JAX calls this function before it loads libtpu. It claims no device.
        hardware: Any = importlib.import_module("jax._src.hardware_utils")
        return int(hardware.num_available_tpu_chips_and_device_id()[0])
    except (ImportError, AttributeError, TypeError):
        return None


def device_claim() -> Finding:
    """Return whether JAX uses a TPU by default, and its devices. A new process claims them, and then ends."""
    platform, kinds = elsewhere(
        claim, CLAIM_TIMEOUT, XLA_PYTHON_CLIENT_PREALLOCATE="false"
    )
    detail = f"JAX gets {len(kinds)} of {platform}: {', '.join(kinds)}"
    return present("devices", "tpu", platform == "tpu", detail)


def claim() -> tuple[str, list[str]]:
    """Start JAX on its default platform, and return the platform and the kind of each device."""
    import jax

    kinds = [device.device_kind for device in jax.devices()]
    return jax.default_backend(), kinds
