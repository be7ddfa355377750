"""A stranger's study directory: names that control terminals, files of other shapes."""

from __future__ import annotations

import json
import re
import shutil

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sentbed._cli.main import main
from sentbed.errors import RunError
from sentbed_report.study.read_study_directory import read_data
from sentbed_studies.runner import run_study
from sentbed_studies.study import read_study
from sentbed_studies.study_reports import write_reports
from toy_plugin import TOWERS

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("installed_toy", "quick")]

AXES = """
[study]
seeds = [1, 2]
[study.axes.lr]
path = "stage.tune.optimizer.lr"
values = [0.5, 0.25]
"""
HOSTILE = "\ud800\x9b31m\x1b]0;x\x07\u202e"
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]")
DEEP = "[" * 5000 + "]" * 5000


@pytest.fixture
def directory(put, copied):
    """A finished study."""

    def make(kept):
        run_study(read_study(put("study.toml", TOWERS + AXES)), kept)
        write_reports(kept)

    return copied(make)


def _rename(study, prefix):
    """Put a prefix before the names of a study, its axes, labels and cells."""
    study["name"] = prefix + study["name"]
    for axis in study["axes"]:
        axis["name"] = prefix + axis["name"]
        axis["labels"] = [prefix + label for label in axis["labels"]]
    for cell in study["cells"]:
        cell["labels"] = {
            prefix + axis: prefix + label for axis, label in cell["labels"].items()
        }
        cell["name"] = ", ".join(cell["labels"].values())
    study["baseline"] = None


def test_hostile_names_reach_no_table_page_or_terminal(directory):
    study = json.loads((directory / "study.json").read_text())
    _rename(study, HOSTILE)
    (directory / "study.json").write_text(json.dumps(study))
    for report in directory.glob("cells/*/report.json"):
        record = json.loads(report.read_text())
        for score in record["scores"]:
            score["task"] = HOSTILE + score["task"]
        report.write_text(json.dumps(record))
    write_reports(directory)
    files = [directory / name for name in ("report.md", "report.html", "results.json")]
    files += (directory / "tables").iterdir()
    assert len(files) > 5
    assert [
        file.name for file in files if CONTROL.search(file.read_text("utf-8"))
    ] == []
    for command in ("study status", "study report", "table", "compare"):
        result = CliRunner().invoke(main, [*command.split(), str(directory)])
        assert result.exit_code == 0, result.output
        assert not CONTROL.search(result.output)
        assert command == "study report" or "\\u009b31m\\x1b]0;x" in result.output


@pytest.mark.parametrize(
    "file", ["study.json", "manifest.json", "report.json", "results.json"]
)
def test_json_nested_5000_deep_is_no_traceback(file, directory):
    path = directory / file
    if not path.is_file():
        path = next(directory.glob(f"cells/*/{file}"))
    path.write_text(DEEP)
    for command in ("study status", "study report", "table"):
        result = CliRunner().invoke(main, [*command.split(), str(directory)])
        assert "raised" not in result.output
        assert result.exit_code == 0 or result.output.startswith("error: ")


@pytest.mark.parametrize("outside", ["../other", "cells/../../other", "/absolute"])
def test_a_run_outside_of_its_study_is_not_read(outside, directory):
    study = json.loads((directory / "study.json").read_text())
    run = study["cells"][0]["runs"][0]
    shutil.copytree(directory / run["directory"], directory.parent / "other")
    run["directory"] = outside
    (directory / "study.json").write_text(json.dumps(study))
    with pytest.raises(
        RunError, match=r"`.*study.json` is damaged: .*a run lies outside the study"
    ):
        read_data(directory)


@pytest.mark.parametrize("name", ["report.md", "tables/scores.csv", "tables"])
def test_a_report_is_not_written_where_a_link_leads(name, directory):
    mine = directory.parent / "mine"
    if name == "tables":
        shutil.rmtree(directory / name)
        mine.mkdir()
    else:
        (directory / name).unlink()
        mine.write_text("mine")
    (directory / name).symlink_to(mine)
    with pytest.raises(RunError, match="is a link that leads out of"):
        write_reports(directory)
    if mine.is_dir():
        assert not list(mine.iterdir())
    else:
        assert mine.read_text() == "mine"


def _paths(value, path=()):
    """Return the path of each value within a value."""
    paths = [path]
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, item in items:
        paths += _paths(item, (*path, key))
    return paths


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_study_of_another_shape_is_an_error_with_its_file(data, directory):
    written = (directory / "study.json").read_text()
    study = json.loads(written)
    path = data.draw(st.sampled_from(_paths(study)[1:]))
    value = data.draw(
        st.sampled_from(["a", "1", 1, 2.5, None, True, [], {}, [[]], {"a": 1}, HOSTILE])
    )
    place = study
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    (directory / "study.json").write_text(json.dumps(study))
    try:
        read_data(directory)
        write_reports(directory)
    except RunError as error:
        assert "study.json" in str(error) or "cells" in str(error)  # noqa: PT017 - either is right
    finally:
        (directory / "study.json").write_text(written)
        shutil.rmtree(directory / "tables", ignore_errors=True)
