from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from sentbed_common import package_code

Put = Callable[[str, str], Path]


@pytest.fixture
def package(put: Put, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ModuleType]:
    """A package of two classes and a file that no module imports."""
    put("sourced/__init__.py", "")
    put("sourced/parts.py", "class One: ...\nclass Two: ...\n")
    put("sourced/deep/unused.py", "X = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("sourced.parts")
    for name in ("sourced", "sourced.parts"):
        del sys.modules[name]


def test_all_files_of_the_package_make_the_hash(package: ModuleType, put: Put) -> None:
    before = package_code(package.One)
    assert package_code(package.Two) == before
    put("sourced/deep/unused.py", "X = 12\n")
    edited = package_code(package.One)
    assert edited == package_code(package.Two) != before
    put("sourced/another.py", "")
    assert package_code(package.One) != edited


def test_the_files_of_a_package_are_read_once_for_all_its_classes(
    package: ModuleType, put: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    real = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: read.append(path.name) or real(path))
    for part in (package.One, package.Two, package.One):
        package_code(part)
    assert sorted(read) == ["__init__.py", "parts.py", "unused.py"]
    # As it lies on disk now, in the same process.
    put("sourced/parts.py", "class One: ...\n")
    package_code(package.Two)
    assert len(read) == 6


def test_what_was_typed_in_has_no_source(monkeypatch: pytest.MonkeyPatch) -> None:
    typed = type("Typed", (), {"__module__": "typed_in"})
    monkeypatch.setitem(sys.modules, "typed_in", ModuleType("typed_in"))
    assert package_code(typed) == ""
