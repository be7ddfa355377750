"""The runtime `tpu` for sentbed, on JAX."""

from __future__ import annotations

from collections.abc import Mapping

from sentbed import hookimpl
from sentbed.protocols import Lazy


@hookimpl
def runtimes() -> Mapping[str, Lazy]:
    """Return the runtime of this distribution."""
    summary = "JAX and XLA on TPUs, through torchax: the same torch modules, compiled."
    return {"tpu": Lazy("sentbed_tpu.tpu:Tpu", summary)}
