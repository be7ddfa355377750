from __future__ import annotations

from importlib import import_module
from types import ModuleType

import pytest
import sentbed
from sentbed import helpers, protocols, tools

DOORS = (sentbed, helpers, protocols, tools)


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
def test_every_name_of_a_door_is_found_and_is_no_submodule(door):
    names = dir(door)
    assert len(names) > 10
    for name in names:
        assert not isinstance(getattr(door, name), ModuleType)
        with pytest.raises(ModuleNotFoundError):
            import_module(f"{door.__name__}.{name}")


def test_a_name_that_is_not_there_is_an_error():
    with pytest.raises(ImportError, match="Nonsense"):
        from sentbed.tools import Nonsense  # noqa: F401
    assert not hasattr(sentbed, "nonsense")


def test_a_star_brings_every_public_name():
    names = {}
    exec("from sentbed.protocols import *", names)
    assert names.keys() >= set(dir(protocols))
