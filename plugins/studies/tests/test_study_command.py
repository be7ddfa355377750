"""The command `study`: what it prints and writes of a study that has run."""

from __future__ import annotations

import json
import re
import shutil
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest
from click.testing import CliRunner
from sentbed._cli.main import main
from sentbed_studies.study_results import load_study
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
def place(put, copied):
    """The directory of a study that has run."""
    return copied(lambda kept: run(put("study.toml", TOWERS + AXES), kept))


def run(recipe, out, *words):
    """Run a study by the command, with one worker."""
    command = ["study", str(recipe), "--out", str(out), "--workers", "1", *words]
    result = CliRunner().invoke(main, command, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def test_the_answer_of_the_report_is_printed_before_its_path(put, tmp_path):
    decide = '[study.decide]\ntest_data = true\ntasks = ["near"]\n'
    near = '[[evaluate]]\nuse = "nearness"\nencoder = "zh"\n'
    recipe = put(
        "study.toml",
        TOWERS + near + AXES.replace("[study.axes.lr]", decide + "[study.axes.lr]"),
    )
    result = run(recipe, tmp_path / "out")
    assert result.stdout.splitlines() == [str(tmp_path / "out" / "report.html")]
    chosen = load_study(tmp_path / "out").chosen
    assert chosen is not None
    best = result.stderr.partition("\nBest: ")[2].splitlines()[0]
    assert best.startswith(f"{chosen.cell}: ")
    assert best.endswith("biased upwards, as the best of 2")
    kept = json.loads((tmp_path / "out" / "results.json").read_text())["chosen"]
    assert (kept["cell"], kept["test_data"]) == (chosen.cell, True)
    assert "Best" in (tmp_path / "out" / "report.html").read_text()


def test_an_interrupted_study_says_how_to_go_on_with_the_study(put, tmp_path, fail):
    error = KeyboardInterrupt()
    error.add_note("go on with `sentbed run RECIPE --resume DIR`")
    fail(lambda _: error)
    words = [
        "study",
        str(put("study.toml", TOWERS + AXES)),
        "--out",
        str(tmp_path / "out"),
        "--workers",
        "1",
    ]
    lines = CliRunner().invoke(main, words).stderr.splitlines()
    assert lines[-4:] == [
        "interrupted",
        "go on with `sentbed run RECIPE --resume DIR`",
        f"what has finished: {tmp_path / 'out' / 'report.html'}",
        "run the same command again to go on with the study",
    ]


def test_a_study_that_is_ended_while_its_report_is_written_says_so(place, monkeypatch):
    def ended(*_):
        handler = signal.getsignal(signal.SIGTERM)
        assert callable(handler), "the process would end without a word"
        handler(signal.SIGTERM, None)

    monkeypatch.setattr("sentbed_studies.study_reports.write_study_report", ended)
    result = CliRunner().invoke(main, ["study", "report", str(place)])
    assert result.stderr.splitlines()[-1] == "interrupted"
    assert not callable(signal.getsignal(signal.SIGTERM))


def test_a_study_that_is_ended_between_two_runs_writes_its_report(put, tmp_path, fail):
    def end(job):
        if str(job).startswith("0.25, "):
            handler = signal.getsignal(signal.SIGTERM)
            assert callable(handler), "the process would end without a word"
            handler(signal.SIGTERM, None)

    fail(end)
    words = ["study", str(put("study.toml", TOWERS + AXES)), "--workers", "1"]
    result = CliRunner().invoke(main, [*words, "--out", str(tmp_path / "out")])
    assert result.stderr.splitlines()[-3:] == [
        "interrupted",
        f"what has finished: {tmp_path / 'out' / 'report.html'}",
        "run the same command again to go on with the study",
    ]
    assert load_study(tmp_path / "out").data.finished == 2


def plot(*words):
    result = CliRunner().invoke(main, ["study", "plot", *map(str, words)])
    return result.exit_code, result.output.splitlines()


def test_figures_are_listed_and_written(place, tmp_path):
    code, lines = plot(place, "--list")
    names = [line.split()[0] for line in lines]
    assert code == 0
    assert names[:1] == ["scores"]
    assert "numbers" in names

    code, lines = plot(place, "--format", "svg")
    assert code == 0
    assert len(lines) == len(names)
    for name, line in zip(names, lines, strict=True):
        path = place / "figures" / f"{name}.svg"
        assert line == str(path)
        assert path.is_file()

    directory = tmp_path / "a"
    size = ("--format", "png", "--width", "2")
    code, lines = plot(place, "numbers", "--out", directory, *size)
    assert code == 0
    assert lines == [str(directory / "numbers.png")]
    pixels = (directory / "numbers.png").read_bytes()[16:20]
    assert pixels == (600).to_bytes(4, "big")

    directory = tmp_path / "b"
    code, lines = plot(place, "numbers", "--out", directory)
    assert code == 0
    assert lines == [str(directory / "numbers.pdf")]


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (["cost"], 1, r"no figure `cost`; its figures are `scores`, .*`numbers`"),
        (["--width", "0.05"], 2, r"not in the range 0\.5<=x<=50"),
    ],
)
def test_a_figure_that_cannot_be_drawn_is_an_error(words, code, error, place):
    exit_code, lines = plot(place, *words)
    assert exit_code == code
    assert re.search(error, " ".join(lines))


def test_a_finished_study_says_so_and_writes_its_report_by_the_table_of_now(put, place):
    recipe = put("study.toml", TOWERS + AXES)
    output = run(recipe, place, "--set", 'study.ranks=["lr"]').output
    assert "4 runs, 4 finished" in output
    assert "nothing was left to run" in output
    assert output.splitlines()[-1] == str(place / "report.html")
    assert "Superscripts: the rank" in (place / "report.md").read_text()


def test_a_watched_study_is_shown_once_and_reported_until_its_runs_have_ended(
    place, monkeypatch
):
    # Between two runs, no run is running.
    run_directory = next(place.glob("runs/*"))
    taken_away = place / "away"
    run_directory.rename(taken_away)
    reported = []
    reloads = []
    shown = []

    def wait(seconds):
        reported.append((place / "report.md").read_text())
        reloads.append('http-equiv="refresh"' in (place / "report.html").read_text())
        taken_away.rename(run_directory)

    monkeypatch.setattr("time.sleep", wait)
    monkeypatch.setattr("webbrowser.open", shown.append)
    words = ["study", "watch", str(place)]
    result = CliRunner().invoke(main, words, catch_exceptions=False)

    assert result.exit_code == 0
    assert shown == [(place / "report.html").as_uri()]
    assert "3 of 4 runs finished, 1 waiting" in reported[0]
    assert "4 of 4 runs finished" in (place / "report.md").read_text()
    assert reloads == [True]
    assert 'http-equiv="refresh"' not in (place / "report.html").read_text()


def test_the_watching_of_a_study_ends_with_ctrl_c_and_the_study_does_not(
    place, monkeypatch
):
    (next(place.glob("runs/*")) / "manifest.json").unlink()

    def interrupt(seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", interrupt)
    monkeypatch.setattr("webbrowser.open", lambda address: True)
    result = CliRunner().invoke(main, ["study", "watch", str(place)])

    assert result.exit_code == 0
    assert result.output.splitlines()[-1] == "Stopped watching; the study continues."


def test_a_study_of_several_workers_leaves_the_handler_of_sigterm_as_it_was(put, place):
    recipe = put("study.toml", TOWERS + AXES)
    before = signal.getsignal(signal.SIGTERM)
    run(recipe, place, "--workers", "2")
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.slow
def test_a_study_of_several_workers_runs_outside_the_main_thread(put, place):
    recipe = put("study.toml", TOWERS + AXES)
    with ThreadPoolExecutor() as pool:
        result = pool.submit(run, recipe, place, "--workers", "2").result()
    assert "nothing was left to run" in result.output


@pytest.mark.slow
def test_the_plan_counts_the_runs_with_fresh_seeds(put, tmp_path):
    decide = '[study.decide]\ntest_data = true\ntasks = ["near"]\nconfirm = 3\n'
    near = '[[evaluate]]\nuse = "nearness"\nencoder = "zh"\n'
    recipe = put(
        "study.toml",
        TOWERS + near + AXES.replace("[study.axes.lr]", decide + "[study.axes.lr]"),
    )
    out = tmp_path / "out"

    def plan(*words):
        return run(recipe, out, "--dry-run", *words).stdout.splitlines()

    before = plan()
    assert before[0].endswith("2 cells x 2 seeds = 4 runs, 0 finished")
    assert "  then: the chosen cell with 3 fresh seeds" in before
    # Of cells that are asked for by name, none is chosen.
    assert plan("--only", "lr=0.5")[0].endswith(
        ": 1 cell x 2 seeds = 2 runs, 0 finished"
    )
    result = run(recipe, out)
    numbers = [
        line.partition(":")[0]
        for line in result.stderr.splitlines()
        if " of 4:" in line or " of 7:" in line
    ]
    assert numbers == [
        *(f"{number} of 4" for number in range(1, 5)),
        *(f"{number} of 7" for number in range(5, 8)),
    ]
    # One of the fresh runs is lost.
    (chosen,) = [cell for cell in load_study(out).data.cells if cell.confirmation]
    shutil.rmtree(out / chosen.confirmation[0].directory)
    after = plan()
    assert after[0].endswith(
        "2 cells x 2 seeds + 3 runs of the chosen cell = 7 runs, 6 finished"
    )
    assert not any(line.startswith("  then:") for line in after)
    run(recipe, out)
    assert plan()[0].endswith("= 7 runs, 7 finished")
    assert plan("--set", "study.decide.confirm=4")[0].endswith("= 8 runs, 7 finished")
