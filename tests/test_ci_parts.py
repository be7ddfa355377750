"""The long tests of CI, in parts: which are run, and what the record of green parts is checked for."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import ci_parts  # noqa: E402


@pytest.fixture
def directory(tmp_path, monkeypatch):
    """A directory like `.ci` with seven parts, all of them green."""
    monkeypatch.delenv("CI", raising=False)
    lines = [f"part-{number} = \"echo '{number} passed'\"" for number in range(1, 8)]
    (tmp_path / "parts.toml").write_text("\n".join(lines), "utf-8")
    assert run(tmp_path, "--all") == 0
    return tmp_path


def run(directory, *arguments):
    return ci_parts.main([*arguments, "--directory", str(directory)])


def record(directory):
    return json.loads((directory / "green.json").read_text("utf-8"))


def edit(directory, **changes):
    content = record(directory)
    content["parts"]["part-1"].update(changes)
    (directory / "green.json").write_text(json.dumps(content), "utf-8")


def test_five_runs_have_every_part_whatever_time_they_get(directory):
    for _ in range(5):
        assert run(directory, "--minutes", "0") == 0
    content = record(directory)
    assert content["runs"] == 6
    assert min(entry["run"] for entry in content["parts"].values()) > 1
    assert content["parts"]["part-3"]["result"] == "3 passed"


def test_a_run_takes_the_oldest_parts_that_fit(directory, capsys):
    edit(directory, minutes=30)
    run(directory, "--minutes", "20")
    assert "parts of this run: part-2, part-3" in capsys.readouterr().out


def test_a_part_that_fails_is_an_error_and_stays_as_old_as_it_was(directory, capsys):
    (directory / "parts.toml").write_text("part-1 = 'exit 3'", "utf-8")
    assert run(directory) == 1
    assert "`part-1` failed with exit code 3" in capsys.readouterr().out
    assert record(directory)["parts"]["part-1"]["run"] == 1


def test_a_new_part_has_five_runs_to_become_green(directory, capsys):
    with (directory / "parts.toml").open("a") as file:
        file.write("\npart-8 = 'exit 3'")
    for _ in range(4):
        assert run(directory, "--minutes", "0") == 0
    assert run(directory, "--minutes", "0") == 1
    assert "`part-8` has not been green since run 1" in capsys.readouterr().out


def test_a_record_that_is_older_than_the_commit_is_an_error(
    directory, capsys, monkeypatch
):
    monkeypatch.setenv("CI", "true")
    content = record(directory)
    for entry in content["parts"].values():
        entry["date"] = "2020-01-01"
    (directory / "green.json").write_text(json.dumps(content), "utf-8")
    assert run(directory) == 1
    assert "the record ends on 2020-01-01" in capsys.readouterr().out


def test_every_part_is_a_target_of_the_makefile():
    parts = tomllib.loads((ROOT / ".ci" / "parts.toml").read_text("utf-8"))
    makefile = (ROOT / "Makefile").read_text("utf-8")
    targets = re.findall(r"^([a-z-]+):", makefile, re.MULTILINE)
    assert len(parts) > 10
    assert {command.split()[1] for command in parts.values()} <= set(targets)


def test_every_directory_of_tests_is_in_a_slow_part():
    parts = tomllib.loads((ROOT / ".ci" / "parts.toml").read_text("utf-8"))
    slow = " ".join(parts.values())
    directories = [*ROOT.glob("plugins/*/tests"), ROOT / "core/tests", ROOT / "tests"]
    assert len(directories) > 15
    for directory in directories:
        named = directory.relative_to(ROOT)
        if named.parts[0] == "plugins":
            named = named.parent
        assert re.search(rf"[ =']{named}\b", slow), named
