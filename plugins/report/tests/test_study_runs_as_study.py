from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from sentbed import RunError
from sentbed._cli.main import main
from sentbed_report.study.runs_as_study import runs_as_study

Write = Callable[..., Path]


def invoke(*words: object) -> Result:
    return CliRunner().invoke(main, list(map(str, words)))


def test_runs_that_differ_in_seed_and_name_are_one_cell(run_of: Write, tmp_path: Path) -> None:
    runs = [
        *(run_of("a1", use="mean"), run_of("b", use="first"), run_of("a2", seed=2, use="mean")),
        run_of("b2", seed=3, use="first"),
    ]
    found = runs_as_study(runs, tmp_path)
    assert [(cell.name, [run.seed for run in cell.runs]) for cell in found.cells] == [
        ("a1", [1, 2]),
        ("b", [1, 3]),
    ]
    assert (found.baseline, found.seeds, found.axes) == ("a1", (1, 2, 3), ())
    assert found.cells[0].differences == ()
    assert found.cells[1].differences == ("encoder.pooler.use: 'mean' -> 'first'",)
    assert found.cells[1].runs[1].directory == Path("b2")


def test_names_are_made_unique_and_a_second_run_of_a_seed_is_no_further_seed(run_of: Write) -> None:
    one, two = run_of("one", name="same"), run_of("two", name="same")
    found = runs_as_study([one, two])
    assert [cell.name for cell in found.cells] == [f"same ({one})", f"same ({two})"]


def test_what_is_no_run_or_given_twice_is_refused(run_of: Write, tmp_path: Path) -> None:
    one = run_of("one")
    with pytest.raises(RunError, match="is given twice; leave one out"):
        runs_as_study([one, tmp_path / "x" / ".." / "one"])
    for content in (None, "", "[run]\nname = 1\nseed = 'x'", "run = 3", "\x00"):
        broken = tmp_path / "broken"
        broken.mkdir(exist_ok=True)
        if content is not None:
            (broken / "resolved.toml").write_text(content)
        with pytest.raises(RunError, match="is not a run directory"):
            runs_as_study([one, broken])


# --- the command -------------------------------------------------------------------------------------------


def test_two_runs_are_compared_as_before(run_of: Write) -> None:
    found = invoke("compare", run_of("a"), run_of("b", 0.8))
    assert found.exit_code == 0
    assert found.output.startswith("A: a/en\nB: b/en\n")


def test_three_runs_are_a_table_with_significance_against_the_first(run_of: Write) -> None:
    runs = [
        *(run_of("a1", 0.5, use="mean"), run_of("a2", 0.5, seed=2, use="mean")),
        *(run_of("b1", 0.8, use="first"), run_of("b2", 0.8, seed=2, use="first")),
    ]
    found = invoke("compare", *runs, "--resamples", 200)
    assert found.exit_code == 0
    assert "a1 (baseline)" in found.output
    assert "200 paired bootstrap resamples" in found.output
    (line,) = [line for line in found.output.splitlines() if line.startswith("b1  ")]
    assert line.endswith("‡*")
    assert "b1 differs from a1 in:\n  encoder.pooler.use: 'mean' -> 'first'" in found.output
    document = json.loads(invoke("compare", *runs, "--json").output)
    assert document["tables"][0]["rows"][1]["values"][0]["place"] == 1


def test_with_a_directory_tables_and_report_are_written(run_of: Write, tmp_path: Path) -> None:
    pytest.importorskip("sentbed_report.study_page.html", reason="the report of a study is not there")
    out = tmp_path / "out"
    found = invoke("compare", run_of("a"), run_of("b", 0.8, use="x"), "--out", out)
    assert found.exit_code == 0, found.output
    assert Path(found.output.splitlines()[-1]) == out / "report.html"
    assert (out / "tables" / "transfer-p.tex").is_file()
    assert json.loads((out / "results.json").read_text())["cells"][1]["runs"][0]["directory"] == "../b"


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["a"], 2, "name two runs or more"),
        (["a", "b", "c", "--encoder", "en"], 2, "are for two runs"),
        (["a", "b", "c", "--method", "randomisation"], 2, "are for two runs"),
        (["a", "b", "c"], 1, "`a` is not a run directory"),
    ],
)
def test_what_cannot_be_compared_is_said(words: list[str], code: int, message: str) -> None:
    found = invoke("compare", *words)
    assert (found.exit_code, message in found.output) == (code, True)


def test_runs_of_which_none_has_finished_are_no_table(run_of: Write) -> None:
    runs = [run_of(name, status="failed", use=name) for name in "abc"]
    found = invoke("compare", *runs)
    assert (found.exit_code, "none of the runs has finished with scores" in found.output) == (1, True)
