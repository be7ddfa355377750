"""Files that may be a stranger's are opened by the helpers that refuse pipes, devices and hollow files."""

from __future__ import annotations

import ast
import os
from pathlib import Path

import pytest
import sentbed
from sentbed.errors import DataError, SentbedError
from sentbed.helpers import open_file, sha256
from sentbed_report.study.read_study_directory import read_data

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent

PLAIN = {
    "sentbed_audit/benchmarks.py": "a table of this package",
    "_registry/computing_code.py": "code of installed packages",
    "_registry/distribution_catalog.py": "a table of this package",
    "_recipe/prompts.py": "a table of this package",
    "engine_parts/module_encoder.py": "a file that this process has just written",
    "_torch/sentence_transformers_folder.py": "files that this process has just written",
    "_torch/sentence_transformers_tokenizer.py": "files that this process has just written",
    "cgroup_limits.py": "files of the kernel",
    "_machine_resources.py": "files of the kernel",
    "hub.py": "a file of the hub's own cache",
    "nlpaug_rules.py": "an installed lexicon",
    "wordnet.py": "an installed lexicon",
    "known_collections.py": "files that this process has just unpacked, and a table of this package",
    "sentbench_sets/built_set_cache.py": "the user's own cache",
    "citations.py": "a table of this package",
    "sentbed_openvino/_torch/quantization.py": "texts of this package",
    "model_card.py": "a template of this package",
    "page_template.py": "templates of installed packages",
    "sentbed_studies/axes.py": "the recipe, which has been read",
    "stsb_demonstrations.py": "a table of this package",
    "planned_device.py": "a table of this package",
    "plugin_checks.py": "code of installed packages",
    "rules_component_class.py": "a table of this package",
    "saved_weights.py": "files that this process has just written",
    "mlflow.py": "the recipe of a run, which has been read",
    "tensorboard.py": "the recipe of a run, which has been read",
    "scaffold/__init__.py": "templates of this package",
}
"""End of a module's path -> why it reads files plainly."""


def plain_reads(module):
    """The places where a module reads a whole file plainly."""
    for node in ast.walk(ast.parse(module.read_text("utf-8"))):
        is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if is_call and node.func.attr in ("read_bytes", "read_text"):
            yield f"{module.relative_to(ROOT)}:{node.lineno}"


def test_whole_files_are_read_by_the_helpers_with_limits():
    modules = [*ROOT.glob("core/src/**/*.py"), *ROOT.glob("plugins/*/src/**/*.py")]
    reading = {module: list(plain_reads(module)) for module in modules}
    places = {module: calls for module, calls in reading.items() if calls}
    unknown = [
        calls
        for module, calls in places.items()
        if not module.as_posix().endswith(tuple(PLAIN))
    ]
    assert unknown == [], (
        "take `sentbed.helpers.read_file`, or say why a stranger's file cannot be there"
    )
    ends = [
        end
        for end in PLAIN
        if not any(module.as_posix().endswith(end) for module in places)
    ]
    assert ends == []


def hollow(file, size=2 << 40):
    """A file of two terabytes that takes no room."""
    with file.open("wb") as stream:
        stream.write(b"{}")
        stream.truncate(size)
    return file


def test_a_file_of_holes_is_not_read(tmp_path):
    file = hollow(tmp_path / "weights.bin")
    with pytest.raises(DataError, match="nearly all of this file is holes"):
        sha256(file)


def test_a_small_file_with_holes_is_read(tmp_path):
    with open_file(hollow(tmp_path / "a", 1 << 20)) as stream:
        assert len(stream.read()) == 1 << 20


@pytest.mark.parametrize("name", ["study.json", "study.toml", "decisions.json"])
@pytest.mark.parametrize("kind", ["pipe", "hollow"])
def test_a_study_with_a_pipe_or_a_hollow_file_is_an_error_at_once(name, kind, tmp_path):
    if name != "study.json":
        (tmp_path / "study.json").write_text("{}", "utf-8")
    if name == "decisions.json":
        (tmp_path / "study.toml").write_text("", "utf-8")
    if kind == "pipe":
        os.mkfifo(tmp_path / name)
    else:
        hollow(tmp_path / name)
    with pytest.raises(SentbedError):
        read_data(tmp_path)


@pytest.mark.parametrize("kind", ["pipe", "hollow", "outside"])
def test_an_encoder_with_odd_checksums_is_an_error_at_once(kind, tmp_path):
    directory = tmp_path / "encoder"
    recipe = '[backbone]\nuse = "bert"\n[pooler]\nuse = "mean"\n'
    directory.mkdir()
    (directory / "encoder.toml").write_text(
        f"schema = 1\nmax_length = 8\n{recipe}", "utf-8"
    )
    if kind == "pipe":
        os.mkfifo(directory / "checksums.json")
    elif kind == "hollow":
        hollow(directory / "weights.bin")
        (directory / "checksums.json").write_text('{"weights.bin": "0"}', "utf-8")
    else:
        (directory / "checksums.json").write_text('{"../secret": "0"}', "utf-8")
        (tmp_path / "secret").write_text("", "utf-8")
    with pytest.raises(SentbedError) as caught:
        sentbed.Encoder.load(directory)
    expected = {"pipe": "pipe", "hollow": "holes", "outside": "not below the directory"}
    assert expected[kind] in str(caught.value)
