"""The runtime `openvino` for sentbed, which encodes with OpenVINO."""

from __future__ import annotations

from collections.abc import Mapping

from sentbed import hookimpl


@hookimpl
def runtimes() -> Mapping[str, str]:
    """Return the runtime of this distribution."""
    return {"openvino": "sentbed_openvino.openvino_runtime:OpenVino"}
