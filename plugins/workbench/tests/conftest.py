from __future__ import annotations

from importlib.metadata import distribution

import pytest

TOOLS = ("jobs", "report", "studies", "workbench")


@pytest.fixture(scope="session")
def toy_points(toy_points):
    """The toy plugin, core, and the tools whose commands and tables of recipes are looked at here."""
    tools = (
        distribution(f"sentbed-{tool}").entry_points.select(group="sentbed")
        for tool in TOOLS
    )
    return [
        *toy_points,
        *(point for points in tools for point in points if point not in toy_points),
    ]
