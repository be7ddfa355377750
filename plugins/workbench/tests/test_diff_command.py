from __future__ import annotations

from click.testing import CliRunner
from sentbed._cli import main as cli
from toy_plugin import RECIPE


def invoke(*arguments):
    return CliRunner().invoke(cli.main, ["diff", *map(str, arguments)])


def test_recipes_differ_in_values_and_not_in_how_they_are_written(
    installed_toy, put, tmp_path
):
    a = put("a.toml", RECIPE)
    b = put("b.toml", 'extends = "a.toml"\nrun.seed = 8\n\n')
    put("run/resolved.toml", RECIPE)
    assert (invoke(a, tmp_path / "run").exit_code, invoke(a, a).output) == (0, "")
    assert invoke(a, b, "--set", "run.seed=1").exit_code == 0

    result = invoke(a, b)
    assert result.exit_code == 1
    lines = result.output.splitlines()
    assert lines[:2] == [f"--- {a}", f"+++ {b}"]
    assert lines[3:] == ["-run.seed = 7", "+run.seed = 8"]


def test_what_is_no_recipe_is_refused(installed_toy, put, tmp_path):
    a = put("a.toml", RECIPE)
    assert invoke(a, "nowhere.toml").exit_code == 2
    result = invoke(a, tmp_path)
    assert result.exit_code == 2
    assert "the directory has no `resolved.toml`" in result.output
