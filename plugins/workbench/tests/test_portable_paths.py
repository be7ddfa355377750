"""A finished run or study without the machine's paths."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from sentbed import RunError
from sentbed._cli import main as cli
from sentbed._recipe.load import load_recipe
from sentbed._registry.registry import Plugins
from sentbed._run.runner import run
from sentbed_workbench.portable_paths import make_portable
from toy_plugin import RECIPE

Put = Callable[[str, str], Path]

FINISHED = json.dumps({"status": "finished"})
TABLE = RECIPE.replace('use = "words", rows = 11', 'use = "table", path = "pairs.csv"')


@pytest.fixture
def directory(put: Put) -> Path:
    """A run directory two levels below the test's."""
    return put("project/runs/one/manifest.json", FINISHED).parent


def written(directory: Path, text: str, name: str = "report.md") -> str:
    """Return a text of a run after its paths were rewritten."""
    (directory / name).write_text(text)
    make_portable(directory)
    return (directory / name).read_text()


def test_a_run_that_was_moved_with_its_data_gives_its_scores_again(
    put: Put, plugins: Plugins, tmp_path: Path
):
    put("project/pairs.csv", "anchor\tpositive\n" + "".join(f"ab{i}\tba{i}\n" for i in range(8)))
    recipe = load_recipe(put("project/recipe.toml", TABLE), plugins=plugins)
    before = run(recipe, tmp_path / "project" / "runs" / "one", plugins)
    assert str(tmp_path) in (before.directory / "resolved.toml").read_text()
    done = make_portable(before.directory)
    assert (dict(done.left), done.together) == ({}, tmp_path / "project")
    shutil.move(tmp_path / "project", tmp_path / "elsewhere")
    again = load_recipe(tmp_path / "elsewhere" / "runs" / "one" / "resolved.toml", plugins=plugins)
    after = run(again, tmp_path / "again", plugins)
    assert [score.value for score in after.scores] == [score.value for score in before.scores]


def test_every_place_is_written_as_another_machine_can_read_it(
    directory: Path,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
):
    for name in ("data", "site/parts"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "site" / "parts" / "__init__.py").touch()
    monkeypatch.setenv("SENTBED_DATA", str(tmp_path / "data"))
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    places = {
        "data/sts/x.tsv": "data:sts/x.tsv",
        "data": "data:",
        home / "models" / "x": "~/models/x",
        "site/parts/model": "pkg:parts/model",
        "project/runs/one/log.jsonl": "./log.jsonl",
        "project/runs/two": "../two",
        "project/a b/c.csv": "../../a b/c.csv",
        "database/x": "../../../database/x",  # not below `data`
    }
    found = written(directory, "".join(f'"{tmp_path / place}"\n' for place in places))
    assert found.splitlines() == [f'"{place}"' for place in places.values()]


@pytest.mark.parametrize("name", ["report.json", "report.html", "resolved.toml"])
def test_paths_are_found_as_a_format_escapes_them(name: str, put: Put):
    import html

    import tomli_w

    escaped = {
        "report.json": lambda text: json.dumps({"path": text}),
        "report.html": lambda text: f"<p>{html.escape(text)}</p>",
        "resolved.toml": lambda text: tomli_w.dumps({"path": text}),
    }[name]
    directory = put("Ä & B/run/manifest.json", FINISHED).parent
    assert written(directory, escaped(str(directory.parent / "x.csv")), name) == escaped("../x.csv")


def test_a_path_that_no_other_machine_has_is_named_with_its_file(
    directory: Path, monkeypatch: pytest.MonkeyPatch
):
    (directory / "report.md").write_text(
        "read https://x.org/usr/bin/a and 3 km/h, /usr/lib/x.bin, and /no-such/x"
    )
    done = make_portable(directory)
    assert dict(done.left) == {"/usr/lib/x.bin": directory / "report.md"}
    assert not done.changed
    monkeypatch.chdir(directory)
    result = CliRunner().invoke(cli.main, ["portable", "."])
    assert result.exit_code == 0
    assert "warning: `/usr/lib/x.bin` is still named in" in result.stderr


def test_what_a_link_leads_to_stays_as_it_is(directory: Path, tmp_path: Path):
    (tmp_path / "mine.md").write_text(str(tmp_path / "x"))
    (directory / "linked.md").symlink_to(tmp_path / "mine.md")
    (directory / "dangling.md").symlink_to(tmp_path / "nowhere.md")
    os.mkfifo(directory / "pipe.md")
    assert make_portable(directory).changed == ()
    assert (tmp_path / "mine.md").read_text() == str(tmp_path / "x")


def test_files_with_checksums_stay_as_they_are_and_are_named(directory: Path):
    encoder = directory / "encoder"
    encoder.mkdir()
    (encoder / "checksums.json").write_text("{}")
    base = encoder / "base.json"
    base.write_text(json.dumps({"model": str(directory.parent / "model")}))
    done = make_portable(directory)
    assert dict(done.left) == {str(directory.parent / "model"): base}
    assert not done.changed


def test_a_run_that_has_not_finished_is_refused_and_in_a_study_left_out(put: Put, tmp_path: Path):
    for name, status in (("one", "finished"), ("two", "interrupted")):
        put(f"study/cells/{name}/manifest.json", json.dumps({"status": status}))
        put(f"study/cells/{name}/log.jsonl", json.dumps({"directory": str(tmp_path / "study")}))
    put("study/study.json", "{}")
    put("study/study.toml", f"# From {tmp_path}/r/x.toml\npath = '{tmp_path}/r/d.csv'\n")
    with pytest.raises(RunError, match=r"has not finished \(interrupted\).*sentbed run --resume"):
        make_portable(tmp_path / "study" / "cells" / "two")
    done = make_portable(tmp_path / "study")
    assert done.unfinished == (tmp_path / "study" / "cells" / "two",)
    assert json.loads((tmp_path / "study/cells/one/log.jsonl").read_text()) == {"directory": "../.."}
    # Its recipe's paths start from the recipe's directory, as those that its user wrote.
    assert (tmp_path / "study/study.toml").read_text() == "# From ../r/x.toml\npath = './d.csv'\n"


@pytest.mark.parametrize("content", ["", "[" * 100_000, "[]"])
def test_a_directory_that_is_no_run_is_refused(content: str, put: Put, tmp_path: Path):
    with pytest.raises(RunError, match="name a run or a study"):
        make_portable(tmp_path)
    with pytest.raises(RunError, match=r"is not what was written|has not finished \(damaged\)"):
        make_portable(put("run/manifest.json", content).parent)
