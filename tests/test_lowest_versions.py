"""The lowest versions of dependencies, with which `make test-lowest` tests."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tools"))

from lowest_versions import lowest_versions, requirements  # noqa: E402


def test_every_dependency_of_a_distribution_has_a_lower_bound():
    versions = lowest_versions(requirements())
    assert {"attrs", "click", "jax", "numpy", "peft", "torch"} <= versions.keys()
    assert not [name for name in versions if name.startswith("sentbed")]


def test_of_several_bounds_the_highest_counts():
    lines = ["numpy>=1.26", "NumPy>=2.1,<3", "numpy>=1.3", "sentbed==0.1.0", "jax==1.2"]
    versions = lowest_versions(map(Requirement, lines))
    assert versions == {"numpy": Version("2.1"), "jax": Version("1.2")}


def test_a_dependency_without_a_lower_bound_is_an_error():
    with pytest.raises(ValueError, match="`numpy<3` has no lower bound"):
        lowest_versions([Requirement("numpy<3")])


def test_what_is_installed_is_the_standard_set_and_the_kit():
    def directories(name):
        lines = (ROOT / "requirements" / name).read_text("utf-8").splitlines()
        parts = [line.partition("[")[0] for line in lines]
        return [part for part in parts if part.startswith("-e ")]

    lowest, demo = directories("lowest.txt"), directories("demo.txt")
    assert lowest == [*demo, "-e ./plugins/testing"]
