"""The runtime `tpu` for sentbed, on JAX."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sentbed import hookimpl
from sentbed.protocols import Lazy

if TYPE_CHECKING:
    from sentbed_common import Finding

sentbed_api = "3.0"


@hookimpl
def runtimes() -> Mapping[str, Lazy]:
    """Return the runtime of this distribution."""
    summary = "JAX and XLA on TPUs, through torchax: the same torch modules, compiled."
    return {"tpu": Lazy("sentbed_tpu.tpu:Tpu", summary)}


@hookimpl
def findings() -> list[Finding]:
    """Return whether JAX starts on this machine, and the TPUs that it has."""
    from sentbed_tpu.doctor import findings

    return list(findings())
