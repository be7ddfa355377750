"""The lowest versions of dependencies, with which `make test-lowest` tests."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tools"))

from lowest_versions import lowest_versions, requirements  # noqa: E402


def test_every_dependency_of_a_distribution_has_a_lower_bound():
    versions = lowest_versions(requirements())
    assert {"attrs", "click", "jax", "numpy", "peft", "torch"} <= versions.keys()
    assert not [name for name in versions if name.startswith("sentbed")]


def test_what_is_installed_is_the_standard_set_and_the_kit():
    def directories(name):
        lines = (ROOT / "requirements" / name).read_text("utf-8").splitlines()
        parts = [line.partition("[")[0] for line in lines]
        return [part for part in parts if part.startswith("-e ")]

    lowest, demo = directories("lowest.txt"), directories("demo.txt")
    assert lowest == [*demo, "-e ./plugins/testing"]
