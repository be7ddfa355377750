from __future__ import annotations

from importlib.metadata import distribution

import pytest

TOOLS = ("jobs", "report", "studies", "workbench")


@pytest.fixture(scope="session")
def toy_points(toy_points):
    """The toy plugin, core, and the tools whose commands and tables of recipes are looked at here."""
    points = list(toy_points)

    for tool in TOOLS:
        installed = distribution(f"sentbed-{tool}")

        for point in installed.entry_points.select(group="sentbed"):
            if point not in points:
                points.append(point)
    return points
