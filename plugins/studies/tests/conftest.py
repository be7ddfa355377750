from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint, distribution

import pytest

Numbers = Mapping[str, Mapping[int, Mapping[str, float]]]


@pytest.fixture(scope="session")
def toy_points(toy_points: list[EntryPoint]) -> list[EntryPoint]:
    """The entry points of the toy plugin, of core, and of the tools that a study needs."""
    tools = ("sentbed-report", "sentbed-studies", "sentbed-jobs", "sentbed-workbench")
    own = [point for name in tools for point in distribution(name).entry_points.select(group="sentbed")]
    return [*toy_points, *own]
