from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import pytest
from sentbed import RunError
from sentbed_common import Trial
from sentbed_tpu import doctor


@pytest.fixture
def installed(monkeypatch):
    """Let packages have versions, and JAX find so many chips or fail."""

    def put(chips, **versions):
        def answer(*_, **variables):
            assert variables["JAX_PLATFORMS"] == "cpu"
            if isinstance(chips, Exception):
                raise chips
            return chips

        monkeypatch.setattr("sentbed_common.doctor_findings.version_of", versions.get)
        monkeypatch.setattr(
            "sentbed_common.doctor_findings.requirements", lambda *_: iter(())
        )
        monkeypatch.setattr(doctor, "version_of", versions.get)
        monkeypatch.setattr(doctor, "elsewhere", answer)

    return put


ALL = dict.fromkeys(doctor.PACKAGES, "1.0")


@pytest.mark.slow
def test_jax_starts_on_this_machine_and_has_the_versions_that_are_installed():
    # Not imported here: it changes what PyTorch takes for an accelerator, for all tests to come.
    findings = list(doctor.findings())
    assert (findings[0].area, findings[0].what) == ("runtimes", "tpu")
    assert findings[0].status in ("yes", "limited")
    for name in doctor.PACKAGES:
        assert f"{name} {version(name)}" in findings[0].detail
    if not list(Path("/dev").glob("accel*")):
        assert 'platform = "cpu"' in findings[0].detail


def test_without_jax_the_distribution_is_to_be_installed(
    installed,
):
    installed(0, jax="0.10.2")
    (finding,) = doctor.findings()
    assert (finding.what, finding.status) == ("tpu", "no")
    assert finding.detail == "jax 0.10.2; jaxlib, torchax, optax not installed"
    assert finding.remedy == "`pip install sentbed-tpu`"


def test_a_jax_that_does_not_start_says_why(installed):
    installed(RunError("ImportError: torchax wants another torch"), **ALL)
    (finding,) = doctor.findings()
    assert finding.status == "no"
    assert finding.detail.endswith(
        "; cannot start: ImportError: torchax wants another torch"
    )
    assert finding.remedy


def test_chips_with_libtpu_are_a_yes_and_are_claimed_only_when_tried(
    installed,
):
    installed(4, **ALL, libtpu="0.0.30")
    runtime, library, devices = doctor.findings()
    assert (runtime.status, library.detail) == ("yes", "0.0.30")
    assert isinstance(devices, Trial)
    assert (devices.status, devices.detail) == ("yes", "4 chips on the PCI bus")


def test_chips_without_libtpu_are_limited(installed):
    installed(4, **ALL)
    runtime, library, devices = doctor.findings()
    assert runtime.status == "limited"
    assert (library.status, library.remedy) == (
        "no",
        "`pip install 'jax[tpu]==0.10.2'`, on a machine with a TPU",
    )
    assert not isinstance(devices, Trial)
    installed(None, **ALL)
    assert list(doctor.findings())[-1].detail == "JAX cannot count them"


@pytest.mark.parametrize(("platform", "status"), [("tpu", "yes"), ("cpu", "no")])
def test_what_jax_gets_by_itself_is_listed(monkeypatch, platform, status):
    answer = [platform, ["made-up v9", "made-up v9"]]
    monkeypatch.setattr(doctor, "elsewhere", lambda *_, **__: answer)
    claimed = doctor.device_claim()
    assert (claimed.status, claimed.detail) == (
        status,
        f"JAX gets 2 of {platform}: made-up v9, made-up v9",
    )
