from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import sysconfig
import warnings
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import pytest
import sentbed_hardware
import torch
from sentbed import RunError
from sentbed_common import Finding, Trial
from sentbed_hardware import doctor, doctor_devices
from sentbed_workbench.doctor import AREAS

FLAGS = {
    "avx2": "avx2",
    "avx512_f": "avx512f",
    "avx512_bf16": "avx512_bf16",
    "amx_bf16": "amx_bf16",
}
"""Instruction sets in torch's words, and in Linux's."""


def by_name(findings):
    return {finding.what: finding for finding in findings}


def fake_torch(**cuda):
    """A torch that is built for CUDA 12.8."""
    return SimpleNamespace(
        __version__="2.13.0",
        version=SimpleNamespace(cuda="12.8", hip=None),
        cuda=SimpleNamespace(**cuda),
    )


@pytest.fixture
def driver(monkeypatch):
    """Give this machine an NVIDIA driver of a version, or none."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return lambda version_of_driver: monkeypatch.setattr(
        doctor_devices, "_driver", lambda: version_of_driver
    )


# --- the hook ----------------------------------------------------------------------------------------------


def test_the_hook_returns_findings_every_time_that_it_is_called():
    for _ in range(2):
        findings = sentbed_hardware.findings()
        assert {finding.area for finding in findings} <= set(AREAS)
        names = {(finding.area, finding.what) for finding in findings}
        assert {("runtimes", name) for name in ("cpu", "cuda")} <= names
        assert {
            ("devices", "cpu"),
            ("precisions", "cpu bf16"),
            ("processes", "gloo"),
        } <= names
    assert findings[0] == Finding(
        "runtimes", "cpu", "yes", f"torch {torch.__version__}"
    )


def test_a_torch_that_cannot_be_imported_is_a_finding(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "torch", None)
        (finding,) = doctor.findings()
    assert (finding.area, finding.what, finding.status) == ("runtimes", "cpu", "no")
    assert finding.detail.startswith(f"torch {version('torch')} cannot be imported: ")
    assert finding.remedy == "`pip install --force-reinstall torch`"


# --- processors --------------------------------------------------------------------------------------------


@pytest.mark.skipif(not Path("/proc/cpuinfo").is_file(), reason="reads /proc/cpuinfo")
def test_the_processor_has_the_instructions_that_linux_lists():
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    flags = next(
        (line.split(":")[1].split() for line in lines if line.startswith("flags")), []
    )
    if not flags:
        pytest.skip("this processor lists no x86 flags")
    findings = by_name(doctor_devices.processor(torch.cpu.get_capabilities()))
    name, _, sets = findings["cpu"].detail.rpartition(": ")
    assert name == torch.cpu.get_capabilities()["cpu_name"]
    for ours, theirs in FLAGS.items():
        assert (ours in sets.split(", ")) == (theirs in flags), ours
    bf16 = [name for name in ("amx_bf16", "avx512_bf16") if name in flags]
    assert (findings["cpu bf16"].status == "yes") == bool(bf16)
    assert findings["cpu fp32"].status == "yes"


def test_bf16_without_its_instructions_is_limited():
    findings = by_name(doctor_devices.processor({"avx2": True, "avx512_bf16": False}))
    assert findings["cpu bf16"].status == "limited"
    assert "emulated, without amx_bf16 and avx512_bf16" in findings["cpu bf16"].detail
    findings = by_name(doctor_devices.processor({"avx512_bf16": True}))
    assert findings["cpu bf16"] == Finding(
        "precisions", "cpu bf16", "yes", "avx512_bf16"
    )


def test_a_kernel_is_there_when_it_computes_and_else_says_why_not(
    monkeypatch,
):
    assert list(doctor_devices.attention(torch, "cpu", torch.float32)) == [
        Finding("attention", "cpu flash", "yes", "in float32")
    ]
    monkeypatch.setattr(doctor_devices, "KERNELS", {"flash": "CUDNN_ATTENTION"})
    (refused,) = doctor_devices.attention(torch, "cpu", torch.float32)
    assert refused.status == "no"
    assert "scaled_dot_product_attention" in refused.detail
    monkeypatch.setattr(doctor_devices, "KERNELS", {"flash": "NOT_IN_THIS_TORCH"})
    (unknown,) = doctor_devices.attention(torch, "cpu", torch.float32)
    assert unknown.status == "no"


def test_why_a_kernel_cannot_be_taken_is_what_torch_warns_of(
    monkeypatch,
):
    def refuse(*_):
        warnings.warn(
            "Flash attention only supports sm80 (Triggered internally at x.cpp:3)",
            stacklevel=1,
        )
        raise RuntimeError("No available kernel. Aborting execution.")

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", refuse)
    (finding,) = doctor_devices.attention(torch, "cpu", torch.float32)
    assert (finding.status, finding.detail) == (
        "no",
        "Flash attention only supports sm80",
    )


# --- GPUs --------------------------------------------------------------------------------------------------


@pytest.mark.skipif(
    torch.version.cuda is not None, reason="this torch is built for CUDA"
)
@pytest.mark.parametrize(
    ("version_of_driver", "where"),
    [("570.1", "NVIDIA driver 570.1"), (None, "no NVIDIA driver found")],
)
def test_a_torch_without_cuda_says_so_and_names_the_build_to_install(
    driver, version_of_driver, where
):
    driver(version_of_driver)
    (cuda,) = doctor_devices.cuda(torch)
    assert (cuda.area, cuda.what, cuda.status) == ("runtimes", "cuda", "no")
    assert (
        cuda.detail
        == f"torch {torch.__version__} is built for processors only; {where}"
    )
    assert (
        "`pip install --force-reinstall torch --index-url https://download.pytorch.org/whl/cu"
        in cuda.remedy
    )


def test_a_driver_that_is_too_old_is_to_be_updated(
    driver,
):
    def too_old():
        warnings.warn(
            "CUDA initialization: The NVIDIA driver on your system is too old (11040).",
            stacklevel=1,
        )
        return False

    driver("470.82")
    (finding,) = doctor_devices.cuda(fake_torch(is_available=too_old))
    assert finding.status == "no"
    assert finding.detail == (
        "torch is built for CUDA 12.8; NVIDIA driver 470.82; "
        "CUDA initialization: The NVIDIA driver on your system is too old (11040)."
    )
    assert finding.remedy.startswith("update the NVIDIA driver, or")


@pytest.mark.parametrize(
    ("version_of_driver", "visible", "detail", "remedy"),
    [
        (None, None, "no NVIDIA driver found; no device", "install the NVIDIA driver"),
        (
            "570.1",
            "",
            "NVIDIA driver 570.1; CUDA_VISIBLE_DEVICES=",
            "`unset CUDA_VISIBLE_DEVICES`",
        ),
        ("570.1", None, "NVIDIA driver 570.1; no device", ""),
    ],
)
def test_a_torch_with_cuda_and_no_device_says_what_is_missing(
    driver,
    monkeypatch,
    version_of_driver,
    visible,
    detail,
    remedy,
):
    driver(version_of_driver)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    (cuda,) = doctor_devices.cuda(fake_torch(is_available=lambda: False))
    assert cuda.detail == f"torch is built for CUDA 12.8; {detail}"
    assert cuda.remedy.startswith(remedy)
    assert bool(cuda.remedy) == bool(remedy)


CARDS = [("Old", 7, 5, 16), ("New", 9, 0, 80), ("New", 9, 0, 80)]


@pytest.fixture
def three_cards(monkeypatch, driver):
    """A torch with one old card and two new ones; their attention kernels are recorded."""

    def properties(index):
        name, major, minor, memory = CARDS[index]
        return SimpleNamespace(
            name=name, major=major, minor=minor, total_memory=memory * 2**30
        )

    driver("570.1")
    fake = fake_torch(
        is_available=lambda: True,
        device_count=lambda: len(CARDS),
        get_device_properties=properties,
        get_device_capability=lambda index: CARDS[index][1:3],
    )
    fake.bfloat16, fake.float16 = torch.bfloat16, torch.float16
    monkeypatch.setattr(
        doctor_devices,
        "attention",
        lambda _, device, dtype: [Finding("attention", device, "yes", str(dtype))],
    )
    return fake


def test_every_gpu_is_named_and_each_kind_has_its_precisions_and_kernels(three_cards):
    findings = list(doctor_devices.cuda(three_cards))
    names = [finding.what for finding in findings]
    assert names[:4] == ["cuda", "cuda:0", "cuda:1", "cuda:2"]
    assert names[4:8] == ["cuda:0 bf16", "cuda:0 fp16", "cuda:0 tf32", "cuda:0"]
    assert names[8:] == ["cuda:1 bf16", "cuda:1 fp16", "cuda:1 tf32", "cuda:1"]

    limited = [finding.what for finding in findings if finding.status == "limited"]
    assert limited == ["cuda:0 bf16", "cuda:0 tf32"]

    details = [finding.detail for finding in findings]
    assert details[0] == "3 devices, CUDA 12.8, NVIDIA driver 570.1"
    assert details[1] == "Old, 16.0 GiB, compute capability 7.5"
    least = "compute capability 7.5, tensor cores compute it from 8.0 on"
    assert details[4] == least
    # The kernels are tried in bf16 where the GPU has it.
    assert (details[7], details[11]) == ("torch.float16", "torch.bfloat16")


def test_a_gpu_that_fails_hides_no_other_finding(three_cards):
    def taken(index):
        raise RuntimeError(
            "CUDA error: all devices are busy or unavailable\nCompile with ..."
        )

    three_cards.cuda.get_device_properties = taken
    runtime, failed = doctor_devices.cuda(three_cards)
    assert (runtime.what, runtime.status) == ("cuda", "yes")
    assert (failed.area, failed.status) == ("devices", "no")
    assert failed.detail == "CUDA error: all devices are busy or unavailable"


def test_a_torch_for_amd_has_no_tf32_and_no_compute_capability(
    three_cards,
):
    three_cards.version = SimpleNamespace(cuda=None, hip="6.4")
    findings = by_name(doctor_devices.cuda(three_cards))
    assert findings["cuda"].detail.startswith("3 devices, ROCm 6.4")
    assert findings["cuda:1 bf16"].detail == "as ROCm 6.4 has it"
    assert "cuda:1 tf32" not in findings


# --- compiling ---------------------------------------------------------------------------------------------


def program(directory, name, output):
    path = directory / name
    path.write_text(f"#!/bin/sh\necho '{output}'\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """The only directory in which programs and headers are looked for."""
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sysconfig, "get_path", lambda _: str(tmp_path))
    return tmp_path


def test_a_compiler_and_the_headers_of_python_make_a_trial(tools):
    program(tools, "clang++", "made-up clang 3")
    (tools / "Python.h").touch()
    findings = by_name(doctor.compiling(torch))
    assert findings["C++ compiler"] == Finding(
        "compile", "C++ compiler", "yes", "made-up clang 3"
    )
    assert findings["Python.h"].status == "yes"
    assert isinstance(findings["torch.compile"], Trial)


def test_without_a_compiler_there_is_nothing_to_try(tools, monkeypatch):
    findings = by_name(doctor.compiling(torch))
    assert [
        findings[name].status for name in ("C++ compiler", "Python.h", "torch.compile")
    ] == ["no"] * 3
    assert "apt install g++" in findings["C++ compiler"].remedy
    assert "-dev`" in findings["Python.h"].remedy
    assert not isinstance(findings["torch.compile"], Trial)
    program(tools, "g++", "found")
    monkeypatch.setenv("CXX", "icpx")
    assert (
        by_name(doctor.compiling(torch))["C++ compiler"].detail
        == "CXX=icpx is not there or does not run"
    )


def test_the_compiler_is_the_one_that_this_machine_has():
    compiler = os.environ.get("CXX") or shutil.which("g++")
    if compiler is None:
        pytest.skip("this machine has no g++")
    findings = by_name(doctor.compiling(torch))["C++ compiler"]
    output = subprocess.run(
        [compiler, "--version"], capture_output=True, text=True
    ).stdout
    assert findings.detail == output.splitlines()[0]


def test_what_was_compiled_is_compared_with_what_was_not(
    monkeypatch,
):
    monkeypatch.setattr(torch, "compile", lambda function: function)
    findings = doctor.compile_one()
    assert findings["device"] == ("cuda" if torch.cuda.is_available() else "cpu")
    monkeypatch.setattr(
        torch, "compile", lambda function: lambda values: function(values) + 1
    )
    with pytest.raises(RunError, match="the compiled function returned"):
        doctor.compile_one()


def test_the_trial_compiles_without_what_was_compiled_before(
    monkeypatch,
):
    def elsewhere(function, _, **variables):
        assert function is doctor.compile_one
        directory = Path(variables["TORCHINDUCTOR_CACHE_DIR"])
        assert list(directory.iterdir()) == []
        return {"device": "cpu", "seconds": 12.3}

    monkeypatch.setattr(doctor, "elsewhere", elsewhere)
    assert doctor.compiled().detail == "a small function for cpu in 12 s"


# --- processes ---------------------------------------------------------------------------------------------


def test_backends_are_those_that_torch_was_built_with():
    findings = by_name(doctor.processes(torch))
    assert (findings["gloo"].status == "yes") == torch.distributed.is_gloo_available()
    assert (findings["nccl"].status == "yes") == torch.distributed.is_nccl_available()
    assert findings["torchrun"].status == "yes"


def test_a_torch_without_processes_says_so():
    built = SimpleNamespace(
        __version__="2.13.0", distributed=SimpleNamespace(is_available=lambda: False)
    )
    (finding,) = doctor.processes(built)
    assert (finding.what, finding.status) == ("torch.distributed", "no")


def test_the_first_line_of_a_command_is_none_where_it_fails():
    assert (
        doctor_devices.first_line(sys.executable, "-c", "print(' one '); print('two')")
        == "one"
    )
    assert (
        doctor_devices.first_line(sys.executable, "-c", "print(1); raise SystemExit(3)")
        is None
    )
    assert doctor_devices.first_line(sys.executable, "-c", "") is None
    assert doctor_devices.first_line("no-such-command-anywhere") is None
