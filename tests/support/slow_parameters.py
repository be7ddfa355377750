"""Parameters of a test of which a few are quick."""

from __future__ import annotations

import pytest


def slow_unless(is_quick, values, name=str):
    """Return a parameter for each value, called `name(value)`; those that are not quick are slow."""
    parameters = []
    for value in values:
        marks = [pytest.mark.slow]
        if is_quick(value):
            marks = []
        parameters.append(pytest.param(value, id=name(value), marks=marks))
    return parameters
