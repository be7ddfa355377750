from __future__ import annotations

from sentbed_openvino.openvino_runtime import OpenVino
from sentbed_testing import check_component


def test_the_runtime_keeps_the_contract() -> None:
    assert check_component(OpenVino, kind="runtime").not_run == {}
