from __future__ import annotations

from sentbed_openvino.openvino_runtime import OpenVino
from sentbed_testing import RuntimeContract, parametrize_with_rules


@parametrize_with_rules([OpenVino], must_run=True)
def test_the_runtime_keeps_the_rules(rule):
    rule()


class TestOpenVino(RuntimeContract):
    component = OpenVino(threads=1)
