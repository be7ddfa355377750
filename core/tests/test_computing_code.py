from __future__ import annotations

import importlib.metadata
import sys

import pytest
from sentbed._registry.computing_code import code_of_package, computing_code
from sentbed._registry.registry import load_plugins

LOSS = """
import attrs
import sentbed
from sentbed.protocols import Loss


@attrs.frozen
class Mine(Loss):
    \"\"\"A loss.\"\"\"

    name = "mine"
    columns = frozenset()

    def build(self, width): ...


@sentbed.hookimpl
def losses():
    return [Mine]
"""


def metadata(name, version, *requires):
    lines = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}"]
    lines += [f"Requires-Dist: {requirement}" for requirement in requires]
    return "\n".join(lines) + "\n"


@pytest.fixture
def lab(put, monkeypatch, tmp_path):
    """A plugin whose distribution is a working copy, and distributions that it requires or may use."""
    put("lab_loss/__init__.py", LOSS)
    info = "lab_loss-1.0.dist-info"
    put(f"{info}/entry_points.txt", "[sentbed]\nlab-loss = lab_loss\n")
    put(f"{info}/direct_url.json", '{"dir_info": {"editable": true}}')
    requires = (
        "sentbed",
        "lab-tools",
        "rich>=13",
        "lab-pages; extra == 'pages'",
        "absent>=1",
    )
    put(f"{info}/METADATA", metadata("lab-loss", "1.0", *requires))
    put(
        "lab_tools-1.0.dist-info/METADATA",
        metadata("lab-tools", "1.0", "sentbed", "lab-numbers>=1"),
    )
    put("lab_pages-1.0.dist-info/METADATA", metadata("lab-pages", "1.0", "lab-deep"))
    put("lab_numbers-1.0.dist-info/METADATA", metadata("lab-numbers", "1.0"))
    put("lab_deep-1.0.dist-info/METADATA", metadata("lab-deep", "1.0"))
    monkeypatch.syspath_prepend(str(tmp_path))
    points = importlib.metadata.entry_points(group="sentbed")
    yield load_plugins([point for point in points if point.name == "lab-loss"])
    sys.modules.pop("lab_loss", None)


def code_of(plugins):
    code_of_package.cache_clear()  # as in another process
    return computing_code([plugins.load("loss", "mine")], plugins)


def test_the_code_has_the_versions_of_all_that_computes(lab):
    code = code_of(lab)
    ours = {"sentbed", "lab-loss", "lab-tools", "lab-numbers", "lab-pages"}
    assert ours | {"numpy", "python"} <= code.keys()
    assert not {"lab-deep", "rich", "absent"} & code.keys()
    assert code["lab-numbers"] == "1.0"
    assert code["numpy"] == importlib.metadata.version("numpy")


def test_the_code_of_a_working_copy_has_the_hash_of_its_files(lab, put):
    first = code_of(lab)["lab-loss"]
    assert first.startswith("1.0 ")
    put("beside.py", "X = 1\n")
    assert code_of(lab)["lab-loss"] == first

    put("lab_loss/helper.py", "X = 1\n")
    edited = code_of(lab)["lab-loss"]
    put("lab_loss/helper.py", "X = 2\n")
    assert len({first, edited, code_of(lab)["lab-loss"]}) == 3


def test_code_of_a_module_that_is_no_file_is_unknown():
    assert code_of_package("no_such_module") is None
    assert code_of_package("sys") is None


def test_a_package_without_an_init_file_has_code_and_a_moved_file_changes_it(lab, put):
    file = put("lab_spread/first/part.py", "X = 1\n")
    first = code_of_package("lab_spread.first.part")
    put("lab_spread/second/part.py", "X = 1\n")
    file.unlink()
    code_of_package.cache_clear()
    moved = code_of_package("lab_spread.first.part")
    assert None not in (first, moved)
    assert first != moved


def test_another_version_is_other_code(lab, put):
    before = code_of(lab)
    put("lab_numbers-1.0.dist-info/METADATA", metadata("lab-numbers", "2.0"))
    assert code_of(lab) == {**before, "lab-numbers": "2.0"}
