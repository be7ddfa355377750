from __future__ import annotations

import importlib.metadata
import subprocess
import sys

import pytest
from sentbed._registry import computing_code as computing_code_module
from sentbed._registry.computing_code import computing_code
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
    """A plugin whose distribution is a working copy in git, and distributions that it requires or may use."""
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
    put(".gitignore", "__pycache__/\n")
    git(tmp_path, "init")
    commit(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    points = importlib.metadata.entry_points(group="sentbed")
    yield load_plugins([point for point in points if point.name == "lab-loss"])
    sys.modules.pop("lab_loss", None)


def git(directory, *arguments):
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
    subprocess.run(command, cwd=directory, check=True, capture_output=True)


def commit(directory):
    git(directory, "add", "lab_loss")
    git(directory, "commit", "--message=x", "--allow-empty")


def code_of(plugins):
    computing_code_module._state_in_git.cache_clear()  # as in another process
    return computing_code([plugins.load("loss", "mine")], plugins)


def test_the_code_has_the_versions_of_all_that_computes(lab):
    code = code_of(lab)
    ours = {"sentbed", "lab-loss", "lab-tools", "lab-numbers", "lab-pages"}
    assert ours | {"numpy", "python"} <= code.keys()
    assert not {"lab-deep", "rich", "absent"} & code.keys()
    assert code["lab-numbers"] == "1.0"
    assert code["numpy"] == importlib.metadata.version("numpy")


def test_the_code_of_a_working_copy_has_its_state_in_git(lab, put, tmp_path):
    committed = code_of(lab)["lab-loss"]
    put("beside.py", "X = 1\n")
    commit(tmp_path)
    assert code_of(lab)["lab-loss"] == committed

    put("lab_loss/__init__.py", f"{LOSS}# other\n")
    edited = code_of(lab)["lab-loss"]
    assert edited.startswith(f"{committed} changed ")
    put("lab_loss/__init__.py", f"{LOSS}# another\n")
    assert code_of(lab)["lab-loss"] not in (committed, edited)
    commit(tmp_path)
    assert " changed" not in code_of(lab)["lab-loss"]
    assert code_of(lab)["lab-loss"] != committed


def test_another_version_is_other_code(lab, put):
    before = code_of(lab)
    put("lab_numbers-1.0.dist-info/METADATA", metadata("lab-numbers", "2.0"))
    assert code_of(lab) == {**before, "lab-numbers": "2.0"}
