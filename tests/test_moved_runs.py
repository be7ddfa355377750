"""Runs and studies that were moved, with the files of their project or without."""

from __future__ import annotations

import json
import shutil

import pytest
from click.testing import CliRunner
from sentbed import Encoder, RunError, hookimpl, load_recipe, resume, run
from sentbed._cli import main as cli
from sentbed._files import write_sums
from sentbed._registry.registry import load_plugins
from sentbed_studies import load_study
from sentbed_studies.runner import run_study
from sentbed_studies.study import read_study
from toy_plugin import RECIPE, Toy

TABLE = RECIPE.replace(
    'use = "words", rows = 11', 'use = "table", path = "pairs.csv"'
).replace("width = 4", 'width = 4, model = "./weights"')
PAIRS = "anchor\tpositive\n" + "".join(f"ab{i}\tba{i}\n" for i in range(11))
OTHER_PAIRS = PAIRS.replace("ab", "cb")
CHECKPOINTS = f"{TABLE}\n[checkpoint]\nevery = 2\n"
AXES = """
[study]
seeds = [1]
[study.axes.data]
path = "stage.pull.data.path"
values = ["pairs.csv", "other.csv"]
"""

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("installed_toy", "quick")]


class StopAtFifthStep:
    """Ctrl-C at the fifth of six steps."""

    required = True

    @hookimpl(trylast=True)
    def step_finished(self, step):
        if step == 5:
            raise KeyboardInterrupt


@pytest.fixture
def project(put):
    """A directory with recipes and their data."""
    put("project/data/pairs.csv", PAIRS)
    put("project/data/other.csv", OTHER_PAIRS)
    put("project/weights/weights.txt", "1 2 3")
    put("project/recipe.toml", CHECKPOINTS.replace("pairs.csv", "data/pairs.csv"))
    study = (
        (TABLE + AXES)
        .replace("pairs.csv", "data/pairs.csv")
        .replace("other.csv", "data/other.csv")
    )
    return put("project/study.toml", study).parent


def run_of(project, out, plugins):
    """Run the recipe of the project."""
    return run(load_recipe(project / "recipe.toml", plugins=plugins), out, plugins)


@pytest.fixture
def stopped(project):
    """A run of the project's recipe that was stopped after five steps."""
    plugins = load_plugins()
    plugins.manager.register(StopAtFifthStep())
    with pytest.raises(KeyboardInterrupt):
        run_of(project, project / "runs" / "stopped", plugins)
    assert list((project / "runs" / "stopped" / "states").iterdir())
    return project / "runs" / "stopped"


@pytest.fixture
def plugins(installed_toy):
    """All that is installed, with the toy."""
    return load_plugins()


def scores_of(directory):
    record = json.loads((directory / "report.json").read_text())
    return [score["value"] for score in record["scores"]]


def files_with(directory, text):
    paths = [path for path in directory.rglob("*") if path.is_file()]
    return [
        str(path.relative_to(directory))
        for path in paths
        if text.encode() in path.read_bytes()
    ]


def test_no_file_of_a_run_names_a_place_of_this_machine(project, stopped, plugins):
    whole = run_of(project, project / "runs" / "whole", plugins)
    for directory in (stopped, whole.directory):
        assert (
            'path = "../../data/pairs.csv"' in (directory / "resolved.toml").read_text()
        )
        assert (
            'model = "../../../weights"'
            in (directory / "encoder" / "encoder.toml").read_text()
        )
        assert files_with(directory, str(project.parent)) == []


def test_a_finished_run_that_was_moved_alone_is_compared_and_its_encoder_evaluated(
    project, tmp_path, plugins
):
    recipe = load_recipe(project / "recipe.toml", plugins=plugins)
    directory = run(recipe, project / "runs" / "first", plugins).directory
    before = Encoder.load(directory / "encoder", Toy(), plugins).encode(["ab"])
    moved = tmp_path / "elsewhere" / "deep" / "first"
    moved.parent.mkdir(parents=True)
    shutil.move(directory, moved)
    shutil.rmtree(project)
    assert (
        Encoder.load(moved / "encoder", Toy(), plugins).encode(["ab"]) == before
    ).all()
    arguments = [
        "evaluate",
        str(moved / "encoder"),
        "--with",
        "gap",
        "--set",
        "runtime.use=toy",
    ]
    evaluated = CliRunner().invoke(cli.main, arguments)
    assert evaluated.exit_code == 0, evaluated.output
    shutil.copytree(moved, tmp_path / "copy")
    compared = CliRunner().invoke(
        cli.main, ["compare", str(moved), str(tmp_path / "copy")]
    )
    assert compared.exit_code == 0, compared.output


def test_runs_of_a_recipe_at_two_depths_of_a_moved_project_have_no_other_recipe(
    project, tmp_path, plugins
):
    recipe = load_recipe(project / "recipe.toml", plugins=plugins)
    other = load_recipe(project / "recipe.toml", ["encoder.max_length=15"], plugins)
    run(recipe, project / "runs" / "first", plugins)
    run(other, project / "second", plugins)
    moved = tmp_path / "elsewhere"
    shutil.move(project, moved)
    arguments = [
        "compare",
        str(moved / "runs" / "first"),
        str(moved / "second"),
        "--out",
        str(moved / "both"),
    ]
    compared = CliRunner().invoke(cli.main, arguments)
    assert compared.exit_code == 0, compared.output
    report = (moved / "both" / "report.md").read_text()
    assert "max_length" in report
    assert "pull.data.path:" not in report


def test_a_finished_run_that_was_moved_with_its_project_gives_its_scores_again(
    project, tmp_path, plugins
):
    before = run_of(project, project / "runs" / "one", plugins)
    shutil.move(project, tmp_path / "elsewhere")
    resolved = tmp_path / "elsewhere" / "runs" / "one" / "resolved.toml"
    after = run(load_recipe(resolved, plugins=plugins), tmp_path / "again", plugins)
    assert [score.value for score in after.scores] == [
        score.value for score in before.scores
    ]


def test_a_stopped_run_that_was_moved_with_its_project_goes_on(
    project, stopped, tmp_path, plugins
):
    run_of(project, tmp_path / "whole", plugins)
    shutil.move(project, tmp_path / "elsewhere")
    moved = tmp_path / "elsewhere" / "runs" / "stopped"
    resume(moved, plugins=plugins)
    assert scores_of(moved) == scores_of(tmp_path / "whole")
    assert files_with(moved, str(tmp_path)) == []


@pytest.fixture
def moved_alone(stopped, tmp_path):
    """The stopped run elsewhere, at another depth."""
    moved = tmp_path / "deep" / "below" / "stopped"
    moved.parent.mkdir(parents=True)
    shutil.move(stopped, moved)
    return moved


def test_a_stopped_run_that_was_moved_alone_goes_on_with_its_recipe(
    project, moved_alone, tmp_path, plugins
):
    recipe = load_recipe(project / "recipe.toml", plugins=plugins)
    run(recipe, tmp_path / "whole", plugins)
    resume(moved_alone, recipe, plugins)
    assert scores_of(moved_alone) == scores_of(tmp_path / "whole")
    assert (
        'path = "../../../project/data/pairs.csv"'
        in (moved_alone / "resolved.toml").read_text()
    )


def test_a_stopped_run_that_was_moved_alone_goes_on_with_no_other_data(
    project, moved_alone, plugins
):
    (project / "data" / "pairs.csv").write_text(OTHER_PAIRS)
    recipe = load_recipe(project / "recipe.toml", plugins=plugins)
    with pytest.raises(RunError, match="the data of stage `pull` is not what it was"):
        resume(moved_alone, recipe, plugins)
    other = load_recipe(
        project / "recipe.toml", ["stage.pull.data.path=data/other.csv"], plugins
    )
    with pytest.raises(
        RunError,
        match=r"(?s)recipe is not the one.*stage\.pull\.data\.path: .*other\.csv",
    ):
        resume(moved_alone, other, plugins)


def test_a_run_made_before_with_absolute_paths_goes_on(
    project, stopped, tmp_path, plugins
):
    recipe = load_recipe(project / "recipe.toml", plugins=plugins)
    run(recipe, tmp_path / "whole", plugins)
    for file in (stopped / "resolved.toml", *stopped.glob("states/*/state.json")):
        text = file.read_text()
        assert "../../data" in text
        file.write_text(text.replace("../../data", str(project / "data")))
        if file.parent != stopped:
            write_sums(file.parent)
    resume(stopped, recipe, plugins)
    assert scores_of(stopped) == scores_of(tmp_path / "whole")


def test_a_study_is_read_where_it_was_moved_to_and_done_again_with_its_project(
    project, tmp_path
):
    before = run_study(read_study(project / "study.toml"), project / "studies" / "s")
    assert before is not None
    scores = load_study(project / "studies" / "s").scores
    assert files_with(project / "studies" / "s", str(tmp_path)) == []
    assert (
        "# From ../../study.toml\n"
        in (project / "studies" / "s" / "study.toml").read_text()
    )
    content = json.loads((project / "studies" / "s" / "study.json").read_text())
    other = content["cells"][1]
    assert other["differences"] == [
        "stage.pull.data.path: './data/pairs.csv' -> './data/other.csv'"
    ]

    shutil.copytree(project / "studies" / "s", tmp_path / "alone")
    assert load_study(tmp_path / "alone").scores.equals(scores)

    shutil.move(project, tmp_path / "elsewhere")
    study = read_study(tmp_path / "elsewhere" / "study.toml")
    directory = tmp_path / "elsewhere" / "studies" / "s"
    written = {
        path: path.stat().st_mtime_ns for path in directory.glob("cells/*/report.json")
    }
    assert len(written) == 2
    run_study(study, directory)
    assert {
        path: path.stat().st_mtime_ns for path in directory.glob("cells/*/report.json")
    } == written
    assert load_study(directory).scores.equals(scores)
