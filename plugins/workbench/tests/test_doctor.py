from __future__ import annotations

import os
import platform
import shutil
import sys
from collections import namedtuple
from importlib.metadata import version
from pathlib import Path

import pytest
import sentbed_common
from sentbed import __version__, helpers
from sentbed._registry.distribution_catalog import catalog
from sentbed._registry.registry import load_plugins
from sentbed.errors import PluginError
from sentbed_common import Finding
from sentbed_workbench import doctor
from sentbed_workbench.doctor import AREAS, examine

HEAD = "import sentbed\nfrom sentbed_common.doctor_findings import Finding, Trial\n"
GIB = 2**30


def plugin(body):
    return f"{HEAD}\n@sentbed.hookimpl\ndef findings():\n    {body}\n"


def only(diagnosis, what):
    (finding,) = (finding for finding in diagnosis.findings if finding.what == what)
    return finding


@pytest.fixture
def alone():
    """What core finds without any plugin."""
    return examine(load=lambda: load_plugins([]))


@pytest.fixture
def with_plugins(distribute):
    """What is found with plugins of these hook bodies."""

    def diagnose(attempt=False, **bodies):
        points = distribute(
            "made-up", {name: plugin(body) for name, body in bodies.items()}
        )
        return examine(attempt, load=lambda: load_plugins(points))

    return diagnose


# --- plugins -----------------------------------------------------------------------------------------------


def test_findings_of_all_plugins_stand_area_by_area(
    with_plugins,
):
    diagnosis = with_plugins(
        first="return [Finding('zebras', 'a', 'no'), Finding('trackers', 'b', 'yes')]",
        second="return [Finding(area, 'd', 'no') for area in ('apes', 'zebras', 'devices')]",
    )
    areas = list(dict.fromkeys(finding.area for finding in diagnosis.findings))
    assert areas == [area for area in AREAS if area in areas] + ["apes", "zebras"]
    assert {"installation", "machine", "devices", "data", "trackers"} <= set(areas)
    assert [
        finding.what for finding in diagnosis.findings if finding.area == "zebras"
    ] == [
        "a",
        "d",
    ]
    assert diagnosis.broken == ()


def test_a_plugin_that_raises_is_a_finding_and_hides_no_other(
    with_plugins,
):
    diagnosis = with_plugins(
        good="return [Finding('devices', 'something', 'yes')]",
        bad="raise OSError('no such device')",
    )
    assert diagnosis.broken == ("made-up:bad",)
    failed = only(diagnosis, "findings of made-up:bad")
    assert (failed.area, failed.status) == ("installation", "no")
    assert failed.detail == "could not look: OSError: no such device"
    assert only(diagnosis, "something").status == "yes"


def test_a_plugin_may_look_at_all_plugins(distribute):
    source = plugin(
        "return [Finding('data', 'plugins', 'yes', plugins.plugins[0].name)]"
    )
    points = distribute(
        "made-up", {"looks": source.replace("findings()", "findings(plugins)")}
    )
    assert only(examine(load=lambda: load_plugins(points)), "plugins").detail == "looks"


@pytest.mark.parametrize("body", ["return ['yes']", "return None", "yield 3"])
def test_a_plugin_that_returns_no_findings_is_broken(body, with_plugins):
    diagnosis = with_plugins(bad=body)
    assert diagnosis.broken == ("made-up:bad",)
    assert only(diagnosis, "findings of made-up:bad").detail.startswith(
        "could not look: TypeError: "
    )


def test_a_plugin_that_cannot_be_loaded_is_broken_with_its_reason(
    distribute,
):
    points = distribute(
        "made-up", {"good": "", "bad": "raise ImportError('libthing.so is missing')"}
    )
    diagnosis = examine(load=lambda: load_plugins(points))
    assert diagnosis.broken == ("made-up:bad",)
    broken = only(diagnosis, "made-up")
    assert broken.status == "no"
    assert (
        broken.detail
        == "1.0; `bad` cannot be loaded: ImportError: libthing.so is missing"
    )
    assert (
        broken.remedy
        == "`pip install --force-reinstall made-up`, or `pip uninstall made-up`"
    )


def test_a_registry_that_refuses_still_leaves_what_core_finds():
    def refuse():
        raise PluginError(
            "the loss `x` is offered by `a` and by `b`; uninstall one of them"
        )

    diagnosis = examine(load=refuse)
    assert diagnosis.broken == ("plugins",)
    assert only(diagnosis, "plugins").detail.endswith("uninstall one of them")
    assert only(diagnosis, "cores").status in ("yes", "limited")


def test_a_trial_is_made_only_when_asked_for(distribute):
    attempt = "lambda: Finding('hub', 'hub', 'no', 'asked')"
    body = f"return [Trial('hub', 'hub', 'yes', 'not asked', attempt={attempt})]"
    points = distribute("made-up", {"one": plugin(body)})
    before, after = (
        examine(attempt, load=lambda: load_plugins(points)) for attempt in (False, True)
    )
    assert (only(before, "hub").detail, before.untried) == ("not asked", ("hub",))
    assert (only(after, "hub").detail, after.untried) == ("asked", ())


def test_a_trial_that_fails_is_a_no_and_breaks_no_plugin(
    with_plugins,
):
    body = "return [Trial('hub', 'hub', 'yes', 'there', 'ask again', attempt=lambda: 1 / 0)]"
    diagnosis = with_plugins(True, one=body)
    assert diagnosis.broken == ()
    assert only(diagnosis, "hub") == Finding(
        "hub",
        "hub",
        "no",
        "there; tried: ZeroDivisionError: division by zero",
        "ask again",
    )


def test_a_trial_that_returns_no_finding_is_a_no(with_plugins):
    body = "return [Trial('hub', 'hub', 'yes', 'there', attempt=lambda: None)]"
    finding = only(with_plugins(True, one=body), "hub")
    assert finding.status == "no"
    assert (
        finding.detail
        == "there; tried: TypeError: the trial returned None, expected a `Finding`"
    )


# --- what is installed -------------------------------------------------------------------------------------


def test_python_and_sentbed_are_those_that_run(alone):
    assert (
        only(alone, "Python").detail == f"{platform.python_version()}, {sys.executable}"
    )
    assert only(alone, "sentbed") == Finding(
        "installation", "sentbed", "yes", __version__
    )


def test_core_alone_names_each_distribution_of_ours_to_install(alone):
    for name in catalog():
        assert only(alone, name) == Finding(
            "installation", name, "no", "not installed", f"`pip install {name}`"
        )
    assert alone.broken == alone.untried == ()


def test_a_plugin_whose_requirements_are_not_met_is_limited(distribute, tmp_path):
    points = distribute("made-up", {"fine": ""})
    (metadata,) = tmp_path.glob("site/made_up*/METADATA")
    metadata.write_text(metadata.read_text() + "Requires-Dist: attrs<1\n")
    finding = only(examine(load=lambda: load_plugins(points)), "made-up")
    assert (finding.status, finding.remedy) == (
        "limited",
        "`pip install --upgrade made-up`",
    )
    assert finding.detail == f"1.0; needs attrs<1, found {version('attrs')}"


def test_a_plugin_that_is_disabled_is_limited_and_says_by_what(distribute, monkeypatch):
    monkeypatch.setenv("SENTBED_PLUGINS_DISABLE", "made-up")
    points = distribute("made-up", {"off": ""})
    diagnosis = examine(load=lambda: load_plugins(points))
    finding = only(diagnosis, "made-up")
    assert (finding.status, finding.remedy, diagnosis.broken) == ("limited", "", ())
    assert finding.detail == (
        "1.0; `off` is disabled by the environment variable `SENTBED_PLUGINS_DISABLE`; take it out there"
    )


# --- the machine -------------------------------------------------------------------------------------------


def test_cores_and_memory_are_those_of_the_machine(alone, monkeypatch):
    usable = (
        len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count()
    )
    assert only(alone, "cores").detail.startswith(
        f"{usable} of {os.cpu_count()} usable"
    )
    monkeypatch.setattr(helpers, "physical_memory", lambda: 64 * GIB)
    monkeypatch.setattr(sentbed_common, "memory_limit", lambda: None)
    assert _machine("memory") == Finding("machine", "memory", "yes", "64.0 GiB")
    monkeypatch.setattr(sentbed_common, "memory_limit", lambda: 4 * GIB)
    limited = _machine("memory")
    assert limited.status == "limited"
    assert limited.detail == "4.0 GiB of 64.0 GiB, the limit of the control group"


def _machine(what):
    return only(examine(load=lambda: load_plugins([])), what)


def test_a_part_of_the_cores_is_limited(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setattr(helpers, "usable_cores", lambda: 4)
    monkeypatch.setattr(sentbed_common, "core_quota", lambda: None)
    assert _machine("cores") == Finding("machine", "cores", "limited", "4 of 8 usable")
    monkeypatch.setattr(sentbed_common, "core_quota", lambda: 1.5)
    assert _machine("cores").detail == "4 of 8 usable, time of 1.5 granted"
    monkeypatch.setattr(helpers, "usable_cores", lambda: 8)
    monkeypatch.setattr(sentbed_common, "core_quota", lambda: 8.0)
    assert _machine("cores") == Finding("machine", "cores", "yes", "8 of 8 usable")


Usage = namedtuple("Usage", "total used free")


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="this system has no /dev/shm")
def test_little_shared_memory_and_little_disk_are_limited(
    monkeypatch,
):
    monkeypatch.setattr(
        shutil, "disk_usage", lambda _: Usage(64 << 20, 0, 2_100_000_000)
    )
    shared, disk = _machine("shared memory"), _machine("disk for runs")
    assert (shared.status, shared.detail) == ("limited", "0.1 GiB, /dev/shm")
    assert "--shm-size" in shared.remedy
    assert (disk.status, disk.detail) == (
        "limited",
        f"2.1 GB free, {Path('runs').absolute()}",
    )
    assert "--out" in disk.remedy


def test_the_disk_is_that_of_the_nearest_directory_that_is_there(tmp_path, monkeypatch):
    paths = []
    monkeypatch.setattr(
        shutil, "disk_usage", lambda path: paths.append(path) or Usage(9e12, 0, 9e12)
    )
    monkeypatch.setenv("SENTBED_CACHE", str(tmp_path / "not" / "yet"))
    finding = _machine("disk for the cache")
    assert (finding.status, finding.detail) == (
        "yes",
        f"9000.0 GB free, {tmp_path / 'not' / 'yet'}",
    )
    assert tmp_path in paths


def test_a_directory_that_cannot_be_written_to_is_a_no(tmp_path, monkeypatch):
    monkeypatch.setenv("SENTBED_CACHE", str(tmp_path))
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)
    finding = _machine("disk for the cache")
    assert (finding.status, finding.detail) == (
        "no",
        f"`{tmp_path}` cannot be written to",
    )
    assert "SENTBED_CACHE" in finding.remedy


def test_a_look_of_core_that_fails_is_a_finding(monkeypatch):
    monkeypatch.setenv("SENTBED_CACHE_GB", "many")
    finding = _machine("kept vectors")
    assert finding.status == "no"
    assert finding.detail.startswith("could not look: `SENTBED_CACHE_GB` is 'many'")


# --- data --------------------------------------------------------------------------------------------------


def test_the_data_directory_is_there_or_says_how_to_name_one(tmp_path, monkeypatch):
    monkeypatch.delenv("SENTBED_DATA", raising=False)
    missing = _machine("SENTBED_DATA")
    assert (missing.status, missing.detail) == ("no", "not set")
    assert missing.remedy == "`export SENTBED_DATA=DIR`"
    monkeypatch.setenv("SENTBED_DATA", str(tmp_path / "none"))
    assert _machine("SENTBED_DATA").status == "no"
    monkeypatch.setenv("SENTBED_DATA", str(tmp_path))
    assert _machine("SENTBED_DATA") == Finding(
        "data", "SENTBED_DATA", "yes", str(tmp_path)
    )


def test_kept_vectors_are_those_of_the_store(tmp_path, monkeypatch):
    import numpy as np
    from sentbed_common import EncoderFingerprint
    from sentbed_workbench.vector_cache import VectorCache

    monkeypatch.setenv("SENTBED_CACHE", str(tmp_path))
    monkeypatch.setenv("SENTBED_CACHE_GB", "2")
    store = VectorCache()
    store.encode(
        EncoderFingerprint({"a": 1}, {"width": 4}),
        ["x", "y"],
        lambda texts: np.zeros((len(texts), 4), "f4"),
        4,
    )
    finding = _machine("kept vectors")
    assert (finding.status, finding.detail) == (
        "yes",
        f"0.0 GB of 2.0 GB, 2 vectors, {tmp_path / 'vectors'}",
    )
    monkeypatch.setenv("SENTBED_CACHE_GB", "0")
    assert _machine("kept vectors").status == "no"


def test_every_look_of_core_belongs_to_a_known_area():
    assert {area for area, _, _ in doctor._CHECKS} <= set(AREAS)


def test_unmet_requirements_say_what_was_found(tmp_path, monkeypatch):
    info = tmp_path / "thing-1.0.dist-info"
    info.mkdir()
    asks = "".join(
        f"Requires-Dist: {requirement}\n"
        for requirement in ("attrs<1", "nothing-here>2", "click")
    )
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: thing\nVersion: 1.0\n{asks}"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert doctor._unmet_requirements("thing") == [
        f"needs attrs<1, found {version('attrs')}",
        "needs nothing-here>2, found none",
    ]
    assert doctor._unmet_requirements("no-such-distribution") == []
