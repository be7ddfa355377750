from __future__ import annotations

import pytest
from sentbed_common import cgroup_limits as limits

GIB = 2**30


@pytest.fixture
def group(tmp_path, monkeypatch):
    """Put this process into a control group, with files in it and in those around it."""

    def put(membership, files):
        monkeypatch.setattr(limits, "CGROUPS", tmp_path / "cgroup")
        monkeypatch.setattr(limits, "MEMBERSHIP", tmp_path / "membership")
        (tmp_path / "membership").write_text(membership)
        for name, content in files.items():
            path = tmp_path / "cgroup" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)

    return put


@pytest.fixture
def sixteen_gib(monkeypatch):
    monkeypatch.setattr(limits, "physical_memory", lambda: 16 * GIB)


@pytest.mark.usefixtures("sixteen_gib")
def test_of_nested_groups_the_smallest_limit_holds(group):
    files = {
        "memory.max": "max\n",
        "a/memory.max": f"{4 * GIB}\n",
        "a/b/memory.max": f"{8 * GIB}\n",
        "cpu.max": "max 100000\n",
        "a/cpu.max": "400000 100000\n",
        "a/b/cpu.max": "150000 100000\n",
    }

    group("0::/a/b\n", files)
    assert limits.memory_limit() == 4 * GIB
    assert limits.core_quota() == 1.5


@pytest.mark.usefixtures("sixteen_gib")
def test_in_a_container_the_root_is_the_group_itself(group):
    group("0::/of/the/host\n", {"memory.max": f"{GIB}\n", "cpu.max": "50000 100000\n"})
    assert limits.memory_limit() == GIB
    assert limits.core_quota() == 0.5


@pytest.mark.usefixtures("sixteen_gib")
@pytest.mark.parametrize(
    "files",
    [
        {},
        {"memory.max": "max\n", "cpu.max": "max 100000\n"},
        {"memory.max": f"{64 * GIB}\n"},
    ],
)
def test_a_limit_that_limits_nothing_is_none(group, files):
    group("0::/\n", files)
    assert limits.memory_limit() is None
    assert limits.core_quota() is None


def test_without_control_groups_there_is_no_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "MEMBERSHIP", tmp_path / "none")
    assert limits.memory_limit() is None
    assert limits.core_quota() is None
