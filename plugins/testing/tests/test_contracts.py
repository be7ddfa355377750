"""The contracts find the planted faults: each fault fails the test that is meant for it."""

from __future__ import annotations

from pathlib import Path

import pytest

PLANTED = Path(__file__).with_name("planted_faults.py")


class Failures:
    """Runs, for each planted fault, the test that is meant for it, and records which faults it finds.

    A component without a fault is tested with every test.
    """

    def __init__(self):
        self.planted = set()
        self.detected = set()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items):
        selected = []
        for item in items:
            fault = item.callspec.params["component"]
            test = item.cls.FAULTS.get(fault)
            if test is not None:
                self.planted.add((item.cls.__name__, fault))
            if test in (None, item.originalname):
                selected.append(item)
        items[:] = selected

    def pytest_runtest_makereport(self, item, call):
        if call.excinfo is None or call.excinfo.errisinstance(pytest.skip.Exception):
            return
        fault = item.callspec.params["component"]
        assert fault, f"{item.nodeid}: {call.excinfo.getrepr()}"
        self.detected.add((item.cls.__name__, fault))


def planted_and_found(selection):
    """Run the contracts of faulty components; return the planted faults, and those that are found."""
    failures = Failures()
    options = ["-q", "-c", "/dev/null", "-p", "no:cacheprovider", "-W", "ignore"]
    pytest.main([*options, "--tb=no", "-rN", "-k", selection, str(PLANTED)], [failures])
    return failures.planted, failures.detected


@pytest.mark.slow
def test_each_fault_of_a_component_is_found():
    planted, detected = planted_and_found("not TestBackbones")
    missed = planted - detected
    assert not missed
    assert len(planted) > 100


@pytest.mark.slow
def test_each_fault_of_a_backbone_is_found():
    pytest.importorskip("sentbed_backbones")
    planted, detected = planted_and_found("TestBackbones")
    missed = planted - detected
    assert not missed
    assert len(planted) == 6
