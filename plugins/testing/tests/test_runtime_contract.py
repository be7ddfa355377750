"""The contract of a runtime finds engines with a fault: each fails the test that is meant for it."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("sentbed_backbones")
pytest.importorskip("sentbed_hardware")

FINDS = [
    "TestRandomVectors::test_vectors",
    "TestMixedRows::test_vectors",
    "TestPadding::test_order_and_batching_change_nothing",
    "TestIgnoredPrecision::test_heeds_the_precision_of_the_weights[dtype]",
    "TestIgnoredPrecision::test_heeds_the_precision_of_the_weights[quantization]",
    "TestLostWeight::test_saves_and_loads",
    "TestStaleWeights::test_trains",
    "TestNoSteps::test_trains",
    "TestForgottenMoments::test_resumes",
    "TestNoPrecision::test_engine_describes_itself",
]
"""The contract of a faulty runtime, and the test that finds the fault."""


class Failures:
    """Records the tests that fail, as `CLASS::TEST`."""

    def __init__(self):
        self.names = []

    def pytest_runtest_logreport(self, report):
        if report.failed:
            assert report.when == "call", report.longreprtext
            self.names.append(report.nodeid.partition("::")[2])


def test_each_fault_is_found_by_its_test():
    file = Path(__file__).with_name("faulty_runtimes.py")
    tests = [f"{file}::{name}" for name in FINDS]
    options = ["-q", "-c", "/dev/null", "-p", "no:cacheprovider"]
    failures = Failures()
    pytest.main([*options, *tests], [failures])
    assert failures.names == FINDS
