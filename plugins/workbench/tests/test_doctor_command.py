from __future__ import annotations

import platform
from importlib.metadata import version

import torch
from click.testing import CliRunner
from sentbed._cli import main as cli


def doctor():
    result = CliRunner().invoke(cli.main, ["doctor"])
    assert result.exit_code == 0, result.output
    return dict(line.split(maxsplit=1) for line in result.output.splitlines())


def test_versions_devices_and_data_are_listed(tmp_path, monkeypatch):
    (tmp_path / "sts").mkdir()
    monkeypatch.setenv("SENTBED_DATA", str(tmp_path))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (2**30, 2**31))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "A GPU")
    lines = doctor()
    assert lines["Python"] == platform.python_version()
    assert lines["sentbed-workbench"] == version("sentbed-workbench")
    assert lines["torch"] == version("torch")
    assert lines["cuda:0"] == "A GPU, 1.0 of 2.0 GiB free"
    assert lines["SENTBED_DATA"] == f"{tmp_path}: sts"


def test_a_data_directory_that_is_missing_is_named(monkeypatch):
    monkeypatch.setenv("SENTBED_DATA", "/missing")
    assert doctor()["SENTBED_DATA"] == "/missing: no directory"
