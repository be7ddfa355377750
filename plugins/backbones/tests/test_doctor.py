from __future__ import annotations

import http.server
import platform
import threading
from importlib.metadata import version

import pytest
import sentbed_backbones
import torch
from huggingface_hub import constants
from sentbed import RunError
from sentbed_backbones import doctor
from sentbed_common import Finding, Trial
from sentbed_workbench.doctor import AREAS


@pytest.fixture
def installed(monkeypatch):
    """Let these packages alone be installed; a product in 4 bits then answers."""

    def put(product=None, **versions):
        def answer(*_):
            if isinstance(product, Exception):
                raise product
            return product or {"device": "cpu", "error": 0.091}

        monkeypatch.setattr("sentbed_common.doctor_findings.version_of", versions.get)
        monkeypatch.setattr(doctor, "version_of", versions.get)
        monkeypatch.setattr(doctor, "elsewhere", answer)
        monkeypatch.setattr(
            doctor, "RUNS_BITSANDBYTES", {(platform.system(), platform.machine())}
        )

    return put


QLORA = dict.fromkeys(doctor.QLORA, "1.0")


def by_name(findings):
    return {finding.what: finding for finding in findings}


def test_the_hook_returns_findings_every_time_that_it_is_called(
    installed,
):
    installed(**QLORA)
    for _ in range(2):
        findings = sentbed_backbones.findings()
        assert {finding.area for finding in findings} <= set(AREAS)
    assert {
        "transformers",
        "LoRA",
        "4 bits (nf4)",
        "model hub",
        "hub cache",
    } <= by_name(findings).keys()


def test_libraries_are_those_that_are_installed(monkeypatch):
    monkeypatch.setattr(
        doctor, "four_bits", lambda: Finding("adapters", "4 bits (nf4)", "no")
    )
    findings = by_name(doctor.findings())
    for name in ("transformers", "tokenizers", "safetensors"):
        assert findings[name] == Finding("models", name, "yes", version(name))
    assert findings["LoRA"].detail == f"peft {version('peft')}"


def test_what_is_missing_is_named_with_its_extra(installed):
    installed(transformers="5.23.0")
    findings = by_name(doctor.findings())
    assert findings["tokenizers"].remedy == "`pip install sentbed-backbones`"
    assert findings["LoRA"] == Finding(
        "adapters",
        "LoRA",
        "no",
        "peft not installed",
        "`pip install 'sentbed-backbones[lora]'`",
    )
    assert (
        findings["4 bits (nf4)"].detail
        == "bitsandbytes, peft, accelerate not installed"
    )
    assert findings["4 bits (nf4)"].remedy == "`pip install 'sentbed-backbones[qlora]'`"
    assert findings["flash-attn"].status == "no"


# --- 4 bits ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_product_in_4_bits_is_near_the_product_with_the_weights():
    pytest.importorskip("bitsandbytes", reason="needs the extra `qlora`")
    finding = doctor.four_bits()
    assert finding.status == "yes"
    assert f"bitsandbytes {version('bitsandbytes')}" in finding.detail
    error = float(finding.detail.rpartition("relative error ")[2])
    # Normal weights: nf4 has levels about 0.2 standard deviations apart, which leaves a tenth of the norm.
    assert 0.05 < error < 0.15


def test_a_product_that_is_wrong_is_an_error(monkeypatch):
    bitsandbytes = pytest.importorskip("bitsandbytes", reason="needs the extra `qlora`")
    forward = bitsandbytes.nn.Linear4bit.forward
    monkeypatch.setattr(
        bitsandbytes.nn.Linear4bit,
        "forward",
        lambda self, x: torch.relu(forward(self, x)),
    )
    with pytest.raises(
        RunError, match=r"relative error 0\.[67]\d, expected at most 0\.2"
    ):
        doctor.four_bit_product()


def test_a_product_that_fails_says_why(installed):
    installed(RunError("the process was ended by SIGILL"), **QLORA)
    finding = doctor.four_bits()
    assert finding.status == "no"
    assert finding.detail.endswith("; a product fails: the process was ended by SIGILL")
    assert "bitsandbytes" in finding.remedy


def test_a_machine_without_bitsandbytes_has_no_remedy(installed, monkeypatch):
    installed(**QLORA)
    monkeypatch.setattr(doctor, "RUNS_BITSANDBYTES", {("Plan9", "mips")})
    finding = doctor.four_bits()
    assert (finding.status, finding.remedy) == ("no", "")
    assert platform.machine() in finding.detail


# --- the hub -----------------------------------------------------------------------------------------------


class Hub(http.server.BaseHTTPRequestHandler):
    status = 200

    def do_HEAD(self):
        self.send_response(self.status)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def hub():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.mark.parametrize(("status", "verdict"), [(200, "yes"), (503, "limited")])
def test_the_hub_is_asked_only_when_tried(
    hub,
    monkeypatch,
    status,
    verdict,
):
    endpoint = f"http://127.0.0.1:{hub.server_port}"
    monkeypatch.setattr(Hub, "status", status)
    monkeypatch.setattr(constants, "ENDPOINT", endpoint)
    trial = by_name(doctor.hub())["model hub"]
    assert isinstance(trial, Trial)
    assert trial.detail == f"{endpoint}, not asked"
    finding = trial.attempt()
    assert (finding.status, finding.detail) == (
        verdict,
        f"{endpoint} answers with {status}",
    )


def test_a_hub_that_does_not_answer_is_a_no(hub):
    hub.server_close()
    finding = doctor.ask_hub(f"http://127.0.0.1:{hub.server_port}")
    assert finding.status == "no"
    assert "does not answer: " in finding.detail
    assert "HTTPS_PROXY" in finding.remedy


@pytest.mark.parametrize("variable", doctor.OFFLINE)
def test_a_hub_that_is_switched_off_is_not_tried(monkeypatch, variable):
    for name in doctor.OFFLINE:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, "1")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    finding = by_name(doctor.hub())["model hub"]
    assert finding == Finding(
        "hub", "model hub", "no", f"{variable} is set", f"`unset {variable}`"
    )


def test_the_cache_of_the_hub_is_counted_once_for_all_its_links(tmp_path):
    for name, size in (("one", 3_000_000_000), ("two", 500_000_000)):
        directory = tmp_path / "hub" / f"models--me--{name}"
        (directory / "blobs").mkdir(parents=True)
        (directory / "snapshots").mkdir()
        with (directory / "blobs" / "0a").open("wb") as stream:
            stream.truncate(size)
        (directory / "snapshots" / "model.safetensors").symlink_to(
            directory / "blobs" / "0a"
        )
    assert (
        by_name(doctor.hub())["hub cache"].detail
        == f"2 models, 3.5 GB, {tmp_path / 'hub'}"
    )
