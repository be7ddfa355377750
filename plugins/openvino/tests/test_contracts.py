from __future__ import annotations

from sentbed_openvino.openvino_runtime import OpenVino
from sentbed_testing import RuntimeContract


class TestOpenVino(RuntimeContract):
    component = OpenVino(threads=1)
