"""The command `study`: what it prints and writes of a study that has run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from click.testing import CliRunner
from sentbed._cli.main import main
from sentbed_studies.study_results import load_study
from sentbed_studies.time_left import TimeLeft, time_left
from toy_plugin import TOWERS

AXES = """
[study]
seeds = [1, 2]
baseline = { lr = "0.5" }
[study.axes.lr]
path = "stage.tune.optimizer.lr"
values = [0.5, 0.25]
"""

pytestmark = pytest.mark.usefixtures("installed_toy", "quick")


@pytest.fixture
def place(put: Callable[[str, str], Path], tmp_path: Path) -> Path:
    """The directory of a study that has run."""
    recipe = put("study.toml", TOWERS + AXES)
    found = CliRunner().invoke(main, ["study", str(recipe), "--out", str(tmp_path / "out"), "--workers", "1"])
    assert found.exit_code == 0, found.output
    return tmp_path / "out"


def test_the_chosen_cell_is_named_before_the_path_of_the_report(
    put: Callable[[str, str], Path], tmp_path: Path
) -> None:
    decide = '[study.decide]\ntest_data = true\ntasks = ["near"]\n'
    near = '[[evaluate]]\nuse = "nearness"\nencoder = "zh"\n'
    recipe = put("study.toml", TOWERS + near + AXES.replace("[study.axes.lr]", decide + "[study.axes.lr]"))
    words = ["study", str(recipe), "--out", str(tmp_path / "out"), "--workers", "1"]
    found = CliRunner().invoke(main, words)
    assert found.exit_code == 0, found.output
    *_, sentence = found.stderr.splitlines()
    assert found.stdout.splitlines() == [str(tmp_path / "out" / "report.html")]
    chosen = load_study(tmp_path / "out").chosen
    assert chosen is not None
    assert sentence == chosen.sentence
    assert sentence.startswith(f"The chosen cell is “{chosen.cell}”, the best of 2 cells by near (nearness, ")
    scores = {
        cell.name: fmean(
            s.value for run in cell.runs for s in run.scores if s.metric == "distance" and s.task == "near"
        )
        for cell in load_study(tmp_path / "out").data.cells
    }
    assert chosen.cell == max(scores, key=scores.__getitem__)
    assert chosen.score == max(scores.values())
    kept = json.loads((tmp_path / "out" / "results.json").read_text())["chosen"]
    assert (kept["cell"], kept["test_data"]) == (chosen.cell, True)
    assert "Chosen cell" in (tmp_path / "out" / "report.html").read_text()


def test_an_interrupted_study_says_how_to_go_on_with_the_study(
    put: Callable[[str, str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stops(*_: object) -> None:
        error = KeyboardInterrupt()
        error.add_note("go on with `sentbed run --resume DIR`")
        raise error

    monkeypatch.setattr("sentbed_studies.runner._run", stops)
    words = ["study", str(put("study.toml", TOWERS + AXES)), "--out", str(tmp_path / "out"), "--workers", "1"]
    said = CliRunner().invoke(main, words).stderr.splitlines()
    assert said[-4:] == [
        "interrupted",
        "go on with `sentbed run --resume DIR`",
        f"what has finished: {tmp_path / 'out' / 'report.html'}",
        "run the same command again to go on with the study",
    ]


def plot(*words: str | Path) -> tuple[int, list[str]]:
    found = CliRunner().invoke(main, ["study", "plot", *map(str, words)])
    return found.exit_code, found.output.splitlines()


def test_figures_are_listed_and_written(place: Path, tmp_path: Path) -> None:
    code, lines = plot(place, "--list")
    names = [line.split()[0] for line in lines]
    assert code == 0
    assert names[:1] == ["effects"]
    assert "numbers" in names
    assert plot(place, "--format", "svg") == (0, [str(place / "figures" / f"{name}.svg") for name in names])
    assert all((place / "figures" / f"{name}.svg").is_file() for name in names)
    assert plot(place, "effects", "-o", tmp_path / "a.png", "--width", "2", "--dpi", "50") == (
        0,
        [str(tmp_path / "a.png")],
    )
    assert (tmp_path / "a.png").read_bytes()[16:20] == (100).to_bytes(4, "big")
    assert plot(place, "effects", "--out", tmp_path / "b") == (0, [str(tmp_path / "b" / "effects.pdf")])


def test_a_figure_that_cannot_be_drawn_is_an_error(place: Path, tmp_path: Path) -> None:
    code, lines = plot(place, "cost")
    assert code != 0
    said = " ".join(lines)
    assert "needs a cost that was measured; set `cost` in `[study]` to one of" in said
    assert "`run-processor-seconds`" in said
    code, lines = plot(place, "efects")
    assert code != 0
    assert "Did you mean `effects`?" in " ".join(lines)
    code, lines = plot(place, "--width", "0.05")
    assert code != 0
    assert "must be 0.5 to 50" in " ".join(lines)
    code, lines = plot(place, "effects", "numbers", "-o", tmp_path / "a.pdf")
    assert code == 2
    assert "`-o FILE` is the file of one figure, and 2 are to be written" in " ".join(lines)


@pytest.mark.parametrize("words", [(), ("--list",)], ids=["all", "list"])
def test_a_study_of_which_nothing_can_be_drawn_says_so(place: Path, words: tuple[str, ...]) -> None:
    for manifest in place.rglob("manifest.json"):
        manifest.unlink()
    code, lines = plot(place, *words)
    assert code != 0
    assert "nothing of it can be drawn yet" in " ".join(lines)


def test_a_finished_study_says_so_at_once_and_leaves_its_report(
    put: Callable[[str, str], Path], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def estimate(*_: object, **__: object) -> None:
        raise AssertionError("nothing is left to estimate")

    monkeypatch.setattr("sentbed_studies.study_plan.time_left", estimate)
    command = ["study", str(put("study.toml", TOWERS + AXES)), "--out", str(place)]
    written = (place / "report.html").stat().st_mtime_ns
    result = CliRunner().invoke(main, command, catch_exceptions=False)
    assert result.exit_code == 0
    assert "4 runs, 4 finished" in result.output
    assert "nothing was left to run" in result.output
    assert result.output.splitlines()[-1] == str(place / "report.html")
    assert (place / "report.html").stat().st_mtime_ns == written
    # A report that is gone, or of another table, is written.
    (place / "report.html").unlink()
    CliRunner().invoke(main, command, catch_exceptions=False)
    written = (place / "report.html").stat().st_mtime_ns
    CliRunner().invoke(main, [*command, "--set", "study.equivalence=1.0"], catch_exceptions=False)
    assert (place / "report.html").stat().st_mtime_ns > written


def test_the_plan_counts_the_runs_with_fresh_seeds(
    put: Callable[[str, str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decide = '[study.decide]\ntest_data = true\ntasks = ["near"]\nconfirm = 3\n'
    near = '[[evaluate]]\nuse = "nearness"\nencoder = "zh"\n'
    recipe = put("study.toml", TOWERS + near + AXES.replace("[study.axes.lr]", decide + "[study.axes.lr]"))
    out = tmp_path / "out"
    command = ["study", str(recipe), "--out", str(out)]
    planned = 0

    def counted(*parameters: Any, **named: Any) -> TimeLeft:
        nonlocal planned
        planned += 1
        return time_left(*parameters, **named)

    monkeypatch.setattr("sentbed_studies.study_plan.time_left", counted)

    def plan(*words: str) -> list[str]:
        result = CliRunner().invoke(main, [*command, *words, "--dry-run"], catch_exceptions=False)
        assert result.exit_code == 0
        return result.stdout.splitlines()

    before = plan()
    assert before[0].endswith("2 cells x 2 seeds + 3 runs of the chosen cell = 7 runs, 0 finished")
    assert (
        "  confirms: the chosen cell is run with 3 fresh seeds after all others; which one that is "
        "is not known yet, and the estimate counts 3 runs of a mean cell"
    ) in before
    # Of cells that are asked for by name, none is chosen.
    assert plan("--only", "lr=0.5")[0].endswith(": 1 cell x 2 seeds = 2 runs, 0 finished")
    result = CliRunner().invoke(main, [*command, "--workers", "1"], catch_exceptions=False)
    assert result.exit_code == 0
    numbers = [line.partition(":")[0] for line in result.stderr.splitlines() if " of 7:" in line]
    assert numbers == [f"{number} of 7" for number in range(1, 8)]
    # One of the fresh runs is lost.
    (lost,) = out.glob("cells/*seed5*")
    shutil.rmtree(lost)
    cell = load_study(out).chosen
    assert cell is not None
    after = plan()
    assert after[0].endswith("= 7 runs, 6 finished")
    assert (
        f"  confirms: the chosen cell, {cell.cell}, is run with 3 fresh seeds; the estimate counts 1 run of "
        "a mean cell"
    ) in after
    CliRunner().invoke(main, [*command, "--workers", "1"], catch_exceptions=False)
    number = planned
    assert plan()[0].endswith("= 7 runs, 7 finished")
    assert planned == number, "nothing is left to estimate"
    assert plan("--set", "study.decide.confirm=4")[0].endswith("= 8 runs, 7 finished")


def test_several_figures_do_not_fit_into_one_file(place: Path) -> None:
    result = CliRunner().invoke(main, ["study", "plot", str(place), "a", "b", "-o", "x.pdf"])
    assert result.exit_code == 2
    assert "`-o FILE` is the file of one figure, and 2 are to be written" in result.output


@pytest.mark.parametrize("words", [(), ("--dry-run",)])
def test_data_that_cannot_be_used_is_an_error_before_the_first_run(
    words: tuple[str, ...], put: Callable[[str, str], Path], tmp_path: Path
) -> None:
    put("pairs.tsv", "first\tsecond\na\tb\n")
    table = '{ use = "table", path = "pairs.tsv", columns = ["anchor", "positive"] }'
    recipe = put("study.toml", TOWERS.replace('{ use = "words", rows = 7 }', table) + AXES)
    result = CliRunner().invoke(main, ["study", str(recipe), "--out", str(tmp_path / "out"), *words])
    assert result.exit_code == 2
    assert "  not in the estimate: " in result.output
    *_, heading, problem = result.stderr.splitlines()
    assert heading == "error: 1 problem in the recipe:"
    assert problem.startswith("  the data has no column `anchor`; it has first, second; ")
    assert not (tmp_path / "out").exists()
