from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from sentbed import RunError
from sentbed._cli.main import main
from sentbed_report.study.runs_as_study import runs_as_study
from sentbed_report.study.study_data import AxisInfo


def invoke(*words):
    return CliRunner().invoke(main, list(map(str, words)))


def test_runs_that_differ_in_seed_and_name_are_one_cell(run_of, tmp_path):
    runs = [
        *(
            run_of("a1", use="mean"),
            run_of("b", use="first"),
            run_of("a2", seed=2, use="mean"),
        ),
        run_of("b2", seed=3, use="first"),
    ]
    study = runs_as_study(runs, tmp_path)
    a, b = study.cells
    assert (a.name, b.name) == ("a1", "b")
    assert [run.seed for run in a.runs] == [1, 2]
    assert [run.seed for run in b.runs] == [1, 3]
    assert (study.baseline, study.seeds, study.axes) == ("a1", (1, 2, 3), ())
    assert a.differences == ()
    assert b.differences == ("encoder.pooler.use: 'mean' -> 'first'",)
    assert b.runs[1].directory == Path("b2")


def test_names_are_made_unique_and_a_second_run_of_a_seed_is_no_further_seed(run_of):
    first_run, two = run_of("one", name="same"), run_of("two", name="same")
    study = runs_as_study([first_run, two])
    assert [cell.name for cell in study.cells] == [
        f"same ({first_run})",
        f"same ({two})",
    ]


def test_what_is_no_run_or_given_twice_is_refused(run_of, tmp_path):
    first_run = run_of("one")
    with pytest.raises(RunError, match="is given twice; leave one out"):
        runs_as_study([first_run, tmp_path / "x" / ".." / "one"])
    for content in (None, "", "[run]\nname = 1\nseed = 'x'", "run = 3", "\x00"):
        broken = tmp_path / "broken"
        broken.mkdir(exist_ok=True)
        if content is not None:
            (broken / "resolved.toml").write_text(content)
        with pytest.raises(RunError, match="is neither a run directory"):
            runs_as_study([first_run, broken])


def test_runs_of_two_recipes_are_two_rows_on_the_terminal_and_in_files(
    run_of, tmp_path
):
    runs = [
        run_of("a1", 0.5, use="mean"),
        run_of("a2", 0.5, seed=2, use="mean"),
        run_of("b1", 0.8, use="first"),
        run_of("b2", 0.8, seed=2, use="first"),
    ]
    out = tmp_path / "out"
    result = invoke("compare", *runs, "--out", out)

    assert result.exit_code == 0, result.output
    *_, path = result.output.splitlines()
    assert "a1 (baseline)" in result.output
    assert (
        "b1 differs from a1 in:\n  encoder.pooler.use: 'mean' -> 'first'"
        in result.output
    )
    assert Path(path) == out / "report.html"
    assert (out / "tables" / "transfer-p.tex").is_file()
    _, first = json.loads((out / "results.json").read_text())["cells"]
    assert [run["directory"] for run in first["runs"]] == ["../b1", "../b2"]


@pytest.fixture
def study_in(write_study):
    """Write a study of two cells under two seeds, the second one the baseline."""

    def write(name):
        pooler = AxisInfo("pooler", ("first", "mean"))
        return write_study(name, [pooler], (0.5, 0.8), (1, 2), "mean")

    return write


def test_a_study_is_compared_with_its_baseline_and_keeps_its_axes(study_in):
    place = study_in("one")
    study = runs_as_study([place])
    assert ([axis.name for axis in study.axes], study.baseline) == (["pooler"], "mean")
    text = invoke("compare", place).output
    assert [line.split("  ")[0] for line in text.splitlines()[2:4]] == [
        "first",
        "mean (baseline)",
    ]
    assert "differs from" not in text
    assert (
        json.loads(invoke("compare", place, "--json").output)["axes"][0]["name"]
        == "pooler"
    )


def test_a_study_beside_others_is_refused(study_in, run_of):
    place = study_in("one")
    for others in ([place], [study_in("two")], [run_of("alone")]):
        result = invoke("compare", place, *others)
        assert result.exit_code == 1
        assert "is a study, whose cells are compared with each other" in result.output
