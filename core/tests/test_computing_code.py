from __future__ import annotations

import importlib
import importlib.metadata
import sys
from pathlib import Path
from types import ModuleType

import pytest
import sentbed
from sentbed._registry import computing_code as computing_code_module
from sentbed._registry.computing_code import (
    DECIDES_NO_SCORE,
    computing_code,
    files_digest,
    package_files,
)
from sentbed._registry.registry import load_plugins


def package_code(cls):
    return files_digest(package_files(cls))


@pytest.fixture
def package(put, monkeypatch, tmp_path):
    """A package of two classes and a file that no module imports."""
    put("sourced/__init__.py", "")
    put("sourced/parts.py", "class One: ...\nclass Two: ...\n")
    put("sourced/deep/unused.py", "X = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("sourced.parts")
    for name in ("sourced", "sourced.parts"):
        del sys.modules[name]


def test_all_files_of_the_package_make_the_hash(package, put):
    before = package_code(package.One)
    assert package_code(package.Two) == before
    put("sourced/deep/unused.py", "X = 12\n")
    edited = package_code(package.One)
    assert edited == package_code(package.Two) != before
    put("sourced/another.py", "")
    assert package_code(package.One) != edited


def test_the_files_of_a_package_are_read_once_for_all_its_classes(
    package, put, monkeypatch
):
    read = []
    real = Path.read_bytes
    monkeypatch.setattr(
        Path, "read_bytes", lambda path: read.append(path.name) or real(path)
    )
    for part in (package.One, package.Two, package.One):
        package_code(part)
    assert sorted(read) == ["__init__.py", "parts.py", "unused.py"]
    # As it lies on disk now, in the same process.
    put("sourced/parts.py", "class One: ...\n")
    package_code(package.Two)
    assert len(read) == 6


def test_what_was_typed_in_has_no_source(monkeypatch):
    typed = type("Typed", (), {"__module__": "typed_in"})
    monkeypatch.setitem(sys.modules, "typed_in", ModuleType("typed_in"))
    assert package_code(typed) == ""


LOSS = """
import attrs
import sentbed
from sentbed.protocols import Loss


@attrs.frozen
class Mine(Loss):
    \"\"\"A loss.\"\"\"

    name = "mine"
    needs = frozenset()

    def build(self, width): ...


@sentbed.hookimpl
def losses():
    return [Mine]
"""


def metadata(name, version, *requires):
    lines = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}"]
    return "\n".join([*lines, *(f"Requires-Dist: {dep}" for dep in requires)]) + "\n"


@pytest.fixture
def lab(put, monkeypatch, tmp_path):
    """A plugin, a distribution of its authors below it, a library, and a requirement for pages."""
    put("lab_loss/__init__.py", LOSS)
    put("lab_loss-1.0.dist-info/entry_points.txt", "[sentbed]\nlab-loss = lab_loss\n")
    requires = (
        "lab-tools",
        "lab-numbers>=1",
        "rich>=13",
        "lab-pages; extra == 'pages'",
        "absent>=1",
    )
    put("lab_loss-1.0.dist-info/METADATA", metadata("lab-loss", "1.0", *requires))
    put("lab_tools/__init__.py", "")
    put("lab_tools/table.tsv", "1\n")
    put("lab_tools-1.0.dist-info/METADATA", metadata("lab-tools", "1.0", "sentbed"))
    put("lab_pages/__init__.py", "")
    put("lab_pages-1.0.dist-info/METADATA", metadata("lab-pages", "1.0", "sentbed"))
    put("lab_numbers-1.0.dist-info/METADATA", metadata("lab-numbers", "1.0"))
    monkeypatch.syspath_prepend(str(tmp_path))
    points = importlib.metadata.entry_points(group="sentbed")
    yield load_plugins([point for point in points if point.name == "lab-loss"])
    computing_code_module._installed.cache_clear()
    sys.modules.pop("lab_loss", None)


def code_of(plugins):
    computing_code_module._installed.cache_clear()  # as in another process
    return computing_code([plugins.load("loss", "mine")], plugins)


def test_code_is_that_of_all_distributions_that_compute_and_libraries_have_their_versions(
    lab,
):
    code = code_of(lab)
    assert {
        "sentbed",
        "lab-loss",
        "lab-tools",
        "lab-numbers",
        "numpy",
        "python",
        "scipy",
    } == set(code)
    assert code["lab-numbers"] == "1.0"
    assert code["numpy"] == importlib.metadata.version("numpy")


@pytest.mark.parametrize(
    ("file", "content", "distribution"),
    [
        ("lab_loss/__init__.py", LOSS + "# other\n", "lab-loss"),
        ("lab_tools/__init__.py", "X = 1\n", "lab-tools"),
        ("lab_tools/table.tsv", "2\n", "lab-tools"),
        ("lab_tools/deep/new.py", "", "lab-tools"),
        (
            "lab_numbers-1.0.dist-info/METADATA",
            metadata("lab-numbers", "2.0"),
            "lab-numbers",
        ),
        ("lab_pages/__init__.py", "X = 1\n", None),
        ("lab_tools/__pycache__/x.pyc", "x", None),
    ],
)
def test_an_edited_file_and_another_version_change_the_code(
    file, content, distribution, lab, put
):
    before = code_of(lab)
    put(file, content)
    after = code_of(lab)
    changed = before.pop(distribution, None) != after.pop(distribution, None)
    assert changed == (distribution is not None)
    assert before == after


def test_of_core_all_counts_that_computes_and_nothing_that_only_shows():
    package = Path(sentbed.__file__).parent
    assert [part for part in DECIDES_NO_SCORE if not (package / part).exists()] == []
    files = {
        file.relative_to(package).as_posix()
        for file in computing_code_module._files_of("sentbed")
    }
    assert {
        "_encoder/batching.py",
        "_encoder/encoder.py",
        "_run/batch_sampling.py",
    } <= files
    assert {"_recipe/prompts.py", "_recipe/templates.toml", "_seeds.py"} <= files
    assert not {file for file in files if file.startswith(("_cli/", "_registry/"))}
