from __future__ import annotations

import subprocess
import sys
import zipfile
from importlib import import_module
from types import ModuleType

import pytest
import sentbed
from sentbed import helpers, protocols, tools

DOORS = (sentbed, helpers, protocols, tools)
HEAD = """
from typing import TYPE_CHECKING
from sentbed.helpers import lazy
if TYPE_CHECKING:
    {line}
if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(__name__)
"""


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


def test_a_submodule_is_an_attribute_whatever_was_imported_before():
    code = "import sentbed; print(sentbed.errors.RunError.__name__, sentbed.protocols.Loss.__name__)"
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert answer.stdout == "RunError Loss\n"


def test_a_star_brings_every_public_name():
    names = {}
    exec("from sentbed.protocols import *", names)
    assert names.keys() >= set(dir(protocols))


@pytest.mark.parametrize("line", ["import os", "from . import x", "x = 1"])
def test_what_is_no_import_of_names_is_refused(line, tmp_path, monkeypatch):
    (tmp_path / "odd_door.py").write_text(HEAD.format(line=line))
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ImportError, match="line 5: expected `from MODULE import NAME`"):
        import_module("odd_door")


def test_a_door_in_a_zip_file_is_read(tmp_path, monkeypatch):
    with zipfile.ZipFile(tmp_path / "doors.zip", "w") as file:
        file.writestr("zipped_door.py", HEAD.format(line="from math import floor, pi"))
    monkeypatch.syspath_prepend(tmp_path / "doors.zip")
    door = import_module("zipped_door")
    assert (door.floor(door.pi), dir(door)) == (3, ["floor", "pi"])
