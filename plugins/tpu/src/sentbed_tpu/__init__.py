"""The runtime `tpu` for sentbed, on JAX."""

from __future__ import annotations

from collections.abc import Mapping

from sentbed import hookimpl


@hookimpl
def runtimes() -> Mapping[str, str]:
    """Return the runtime of this distribution."""
    return {"tpu": "sentbed_tpu.tpu:Tpu"}
