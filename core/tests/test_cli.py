from __future__ import annotations

import json
import math

import click
import pytest
import toy_plugin
from click.testing import CliRunner
from sentbed import __version__
from sentbed._cli import main as cli
from sentbed.protocols import Evaluation, Score
from toy_plugin import RECIPE, quicken

BROKEN = RECIPE.replace("seed = 7", "sede = 7").replace("width = 4", "width = 4.5")


def invoke(*arguments):
    return CliRunner().invoke(cli.main, [str(argument) for argument in arguments])


@pytest.mark.parametrize(("at", "code"), [("end", 1), ("start", 0)])
def test_a_score_that_is_no_number_is_said_and_after_training_is_no_success(
    at, code, put, installed_toy, monkeypatch, tmp_path
):
    score = Score("gap", "distance", math.nan, {"id": "gap"})
    evaluation = Evaluation((score,), math.nan)
    monkeypatch.setattr(toy_plugin.Gap, "_score", lambda *_: evaluation)
    recipe = put("r.toml", RECIPE)
    out = tmp_path / "out"
    result = invoke("run", recipe, "--set", f'evaluate.0.at=["{at}"]', "--out", out)
    assert result.exit_code == code, result.output
    (warning,) = json.loads((out / "report.json").read_text())["warnings"]
    assert warning.startswith("the score `distance` of the task `gap` for `encoder")
    assert f"warning: {warning}" in result.stderr


# --- help --------------------------------------------------------------------------------------------------


def test_help_names_every_command():
    result = invoke("--help")
    assert result.exit_code == 0
    listed = result.stdout.partition("Commands:")[2].split("\n")
    commands = {
        line.split()[0]
        for line in listed
        if line.startswith("  ") and not line.startswith("   ")
    }
    assert commands == {
        "audit",
        "cache",
        "check",
        "check-plugin",
        "compare",
        "data",
        "diff",
        "doctor",
        "encode",
        "evaluate",
        "explain",
        "export",
        "import",
        "mine",
        "new",
        "overlap",
        "plan",
        "plugins",
        "reproduce",
        "run",
        "schema",
        "show",
        "study",
        "table",
    }


@pytest.mark.parametrize("command", sorted(cli.main.commands))
def test_every_command_and_option_has_a_help_text(command):
    click_command = cli.main.commands[command]
    assert click_command.help
    assert invoke(command, "-h").exit_code == 0
    options = [
        parameter
        for parameter in click_command.params
        if isinstance(parameter, click.Option)
    ]
    assert all(option.help for option in options)


def test_the_version_is_that_of_the_package():
    assert __version__ in invoke("--version").output


@pytest.mark.parametrize(
    "arguments", [["frobnicate"], ["run"], ["check"], ["plugins", "--what"]]
)
def test_a_wrong_command_line_exits_with_2_and_says_how_it_is_used(arguments):
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert "Usage: " in result.output


# --- check -------------------------------------------------------------------------------------------------


def test_check_prints_every_problem_with_its_place_and_exits_with_2(
    installed_toy, put, monkeypatch
):
    recipe = put("broken.toml", BROKEN)
    monkeypatch.chdir(recipe.parent)
    result = invoke("check", recipe.name)
    assert result.exit_code == 2
    assert result.stdout.splitlines() == [
        "unknown key `sede`. Did you mean `seed`? @ broken.toml:5 run.sede",
        "found 4.5, expected a whole number @ broken.toml:12 encoder.backbone.width",
    ]


def test_check_goes_on_to_the_next_recipe(installed_toy, put):
    broken, good = put("broken.toml", BROKEN), put("good.toml", RECIPE)
    result = invoke("check", broken, good)
    assert result.exit_code == 2
    assert result.output.splitlines()[-1] == f"{good}: no problems"
    assert len(result.output.splitlines()) == 3


def test_check_of_a_recipe_that_is_not_there_names_it(tmp_path):
    result = invoke("check", tmp_path / "none.toml")
    assert result.exit_code == 2
    assert result.stdout == (
        f"cannot read the recipe: No such file or directory; check the path @ {tmp_path / 'none.toml'}\n"
    )
    assert "Traceback" not in result.stderr


def test_check_of_a_directory_checks_every_recipe_in_it_and_passes_fragments_over(
    installed_toy, put, tmp_path
):
    put("all/b/top.toml", 'schema = 1\nextends = "../parts/base.toml"\n')
    put("all/a.toml", RECIPE)
    put("all/parts/base.toml", RECIPE.replace("schema = 1\n", "\n"))
    put("all/.hidden/broken.toml", "schema = 7")
    put("all/notes.txt", "no recipe")
    result = invoke("check", tmp_path / "all")
    assert result.exit_code == 0
    assert result.output.splitlines() == [
        f"{tmp_path}/all/a.toml: no problems",
        f"{tmp_path}/all/b/top.toml: no problems",
    ]
    put("all/parts/base.toml", BROKEN.replace("schema = 1\n", "\n"))
    result = invoke("check", tmp_path / "all")
    assert result.exit_code == 2
    assert result.output.splitlines() == [
        f"{tmp_path}/all/a.toml: no problems",
        f"unknown key `sede`. Did you mean `seed`? @ {tmp_path}/all/parts/base.toml:5 run.sede",
        f"found 4.5, expected a whole number @ {tmp_path}/all/parts/base.toml:12 encoder.backbone.width",
    ]


def test_check_of_a_fragment_that_is_named_says_what_it_lacks(installed_toy, put):
    result = invoke("check", put("base.toml", RECIPE.replace("schema = 1\n", "\n")))
    assert result.exit_code == 2
    assert "the required key `schema` is missing" in result.output


def test_check_of_a_directory_without_recipes_is_no_success(put, tmp_path):
    put("none/fragment.toml", "a = 1")
    result = invoke("check", tmp_path / "none")
    assert result.exit_code == 2
    assert result.output.startswith(f"there is no recipe in `{tmp_path / 'none'}`: ")


STUDY = """
[study.axes.loss]
path = "stage.0.loss"
values = [{ use = "pull" }, { use = "chase" }, { use = "chase", most = 3 }]
labels = ["pull", "chase", "few"]
"""


def test_check_of_a_study_checks_every_cell_and_says_which_are_excluded(
    installed_toy, put
):
    sizes = '[study.axes.size]\npath = "stage.0.batch_size"\nvalues = [4, 3]\n'
    recipe = put(
        "s.toml", RECIPE.replace('loss = { use = "pull" }\n', "") + STUDY + sizes
    )
    result = invoke("check", recipe)
    assert result.exit_code == 0
    assert result.output.splitlines() == [
        f"{recipe}: no problems, 5 cells, 1 excluded",
        "  few, 4: a batch of 4 is more than 3; make it smaller",
    ]
    # A label of which no cell can work is a problem of the study.
    result = invoke("check", recipe, "--set", "study.axes.size.values=[4]")
    assert result.exit_code == 2
    assert "no cell with the label `few` of the axis `loss` can work" in result.output
    result = invoke(
        "check",
        recipe,
        "--set",
        "study.axes.loss.values=[{ use='pul' }, {}, { use='pull' }]",
    )
    assert result.exit_code == 2
    assert result.output.startswith("there is no loss `pul`. Did you mean `pull`? @ ")
    assert "of the cell `pull, 4`" in result.output


# --- run ---------------------------------------------------------------------------------------------------


def test_run_prints_the_path_of_the_report_last(installed_toy, put, monkeypatch):
    recipe = put("r.toml", RECIPE)
    monkeypatch.chdir(recipe.parent)
    result = invoke("run", recipe, "--out", "out")
    assert (result.exit_code, result.stdout) == (0, "out/report.html\n")
    assert (recipe.parent / "out" / "report.html").is_file()


def test_a_missed_expectation_exits_with_1(installed_toy, put):
    recipe = put(
        "r.toml", RECIPE + "\n[expected]\ngap = { value = 100, tolerance = 1 }\n"
    )
    result = invoke("run", recipe, "--out", recipe.parent / "out")
    assert result.exit_code == 1
    assert "expected numbers that were not met: gap\n" in result.stderr
    assert result.stdout == f"{recipe.parent / 'out' / 'report.html'}\n"


def test_run_of_a_broken_recipe_exits_with_2_without_a_traceback_or_a_directory(
    installed_toy, put
):
    recipe = put("broken.toml", BROKEN)
    done = invoke("run", recipe, "--out", recipe.parent / "out")
    assert done.exit_code == 2
    assert done.stderr.startswith(
        "error: 2 problems in the recipe:\n  unknown key `sede`."
    )
    assert "Traceback" not in done.stderr
    assert not (recipe.parent / "out").exists()


def test_a_run_that_fails_exits_with_1_and_says_why(installed_toy, put):
    recipe = put("r.toml", RECIPE)
    fault = ["--set", "stage.pull.loss.nan_at=2"]
    done = invoke("run", recipe, "--out", recipe.parent / "out", *fault)
    assert done.exit_code == 1
    assert done.stderr.splitlines()[-1].startswith(
        "error: the loss of stage `pull` is nan at step 2 of 6"
    )
    assert "Traceback" not in done.stderr


def test_an_interrupted_run_exits_with_130(installed_toy, put):
    recipe = put("r.toml", RECIPE)
    interrupt = ["--set", "stage.pull.loss.interrupt_at=2"]
    done = invoke("run", recipe, "--out", recipe.parent / "out", *interrupt)
    assert done.exit_code == 130
    assert done.stderr.splitlines()[-1] == "interrupted"
    assert "Traceback" not in done.stderr
    assert (
        json.loads((recipe.parent / "out" / "report.json").read_text())["status"]
        == "interrupted"
    )


# --- resume ------------------------------------------------------------------------------------------------

INTERRUPTED = RECIPE.replace(
    'use = "pull" }', 'use = "pull", noise = 0.1, interrupt_at = 5 }'
).replace("[[stage]]", "[checkpoint]\nevery = 2\n\n[[stage]]")
"""Ctrl-C comes at the fifth of six steps; the state is that of the fourth, and two steps are left."""


@pytest.fixture
def interrupted(installed_toy, put, monkeypatch):
    """The directory of a run that was interrupted."""
    quicken(monkeypatch)
    recipe = put("r.toml", INTERRUPTED)
    result = invoke("run", recipe, "--out", recipe.parent / "out")
    assert (result.exit_code, result.stdout) == (130, "")
    assert result.stderr.splitlines()[-1] == "interrupted"
    return recipe.parent / "out"


def losses(directory):
    lines = [
        json.loads(line) for line in (directory / "log.jsonl").read_text().splitlines()
    ]
    return [line["loss"] for line in lines if line["event"] == "step_finished"]


def test_an_interrupted_run_is_resumed_with_its_recipe(interrupted):
    whole = invoke(
        "run",
        interrupted.parent / "r.toml",
        "--out",
        interrupted.parent / "whole",
        "--set",
        "stage.pull.loss.interrupt_at=",
    )
    assert whole.exit_code == 0
    recipe = interrupted.parent / "r.toml"
    result = invoke("run", recipe, "--resume", interrupted)
    assert (result.exit_code, result.stdout) == (0, f"{interrupted / 'report.html'}\n")
    assert losses(interrupted) == losses(interrupted.parent / "whole")
    assert len(losses(interrupted)) == 6


def test_a_resumed_run_stays_in_its_directory():
    result = invoke("run", "r.toml", "--resume", "out", "--out", "o")
    assert result.exit_code == 2
    assert result.stderr.startswith("Usage: ")
    assert "a resumed run stays in its directory: take `--out` out" in result.stderr
