"""The runtime `openvino` for sentbed, which encodes with OpenVINO."""

from __future__ import annotations

from collections.abc import Mapping

from sentbed import hookimpl
from sentbed.protocols import Lazy


@hookimpl
def runtimes() -> Mapping[str, Lazy]:
    """Return the runtime of this distribution."""
    summary = (
        "OpenVINO on the host's processor, for encoding alone, in fp32, bf16 or int8."
    )
    return {"openvino": Lazy("sentbed_openvino.openvino_runtime:OpenVino", summary)}
