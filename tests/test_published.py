"""The generator of published numbers: what it writes and refuses, and that the recipes are up to date."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from blocks import blocks
from sentbed.protocols import Score
from sentbed_report.study.study_data import AxisInfo, CellInfo, CellRun, StudyData
from sentbed_studies.study_results import LoadedStudy

ROOT = Path(__file__).parent.parent
HEAD = "paper,table,row,column,value,note\n"
ROWS = "p,table 2,A | NLI,STS-B,80.50,\np,table 2,A | NLI,Avg,1,\np,table 2,B,STS-B,-3,printed twice\n"
MAPPING = """
[columns]
STS-B = "STSB"
[left_out_columns]
Avg = "a mean"
[table-2]
tolerance = 0.5
hardware = "a \\"big\\" machine"
[table-2.rows]
"A | NLI" = ["mean, a+b", "mean, again"]
[table-2.left_out]
B = "another system"
"""


def generate(table, *options, recipes=None):
    command = [
        sys.executable,
        str(ROOT / "tools" / "published.py"),
        str(table),
        *options,
    ]
    where = [] if recipes is None else ["--recipes", str(recipes)]
    return subprocess.run([*command, *where], capture_output=True, text=True)


def map_tables(paper, mapping):
    (paper / "p" / "published.toml").write_text(mapping, "utf-8")


def generated(paper, name):
    file = paper / "p" / "published" / f"{name}.toml"
    return tomllib.loads(file.read_text("utf-8"))


@pytest.fixture
def paper(tmp_path):
    (tmp_path / "table.csv").write_text(HEAD + ROWS, "utf-8")
    (tmp_path / "p").mkdir()
    map_tables(tmp_path, MAPPING)
    return tmp_path


def test_a_row_becomes_a_cell_with_the_keys_of_scores(paper):
    assert generate(paper / "table.csv", recipes=paper).returncode == 0
    written = generated(paper, "table-2")
    assert written == {
        "study": {
            "expected": {
                "table 2": {
                    "tolerance": 0.5,
                    "hardware": 'a "big" machine',
                    "cells": {
                        "mean, a+b": {"STSB": 80.5},
                        "mean, again": {"STSB": 80.5},
                    },
                }
            }
        }
    }


def test_a_table_gives_rows_to_further_studies_and_leaves_those_that_are_elsewhere(
    paper,
):
    rows = "p,table 1,C,MR,1,\np,table 2,C,STS-B,2,\np,table 2,D,STS-B,3,\n"
    (paper / "table.csv").write_text(HEAD + ROWS + rows, "utf-8")
    first = '[table-1]\ncolumns = { MR = "MR" }\nstudies.more = { tolerance = 1.0, rows = { C = "c" } }\n'
    second = '[table-2.elsewhere]\nD = "q/table-1: d"\n[table-2.studies.more.rows]\nC = "c"\n'
    map_tables(paper, MAPPING + first + second)
    outcome = generate(paper / "table.csv", recipes=paper)
    assert outcome.stderr == ""
    written = generated(paper, "more")
    assert written["study"]["expected"] == {
        "table 1": {"tolerance": 1.0, "cells": {"c": {"MR": 1.0}}},
        "table 2": {"cells": {"c": {"STSB": 2.0}}},
    }
    assert (
        "d"
        not in (paper / "p" / "published" / "table-2.toml").read_text("utf-8").split()
    )


def test_the_cells_of_a_contradicted_row_say_why(paper):
    contradicted = '[table-2.contradicted]\n"A | NLI" = "table 1 of \\"q\\" has 70"\n'
    map_tables(paper, MAPPING + contradicted)
    assert generate(paper / "table.csv", recipes=paper).stderr == ""
    written = generated(paper, "table-2")
    reason = 'table 1 of "q" has 70'
    expected = written["study"]["expected"]["table 2"]
    assert expected["contradicted"] == {"mean, a+b": reason, "mean, again": reason}
    assert expected["cells"]["mean, again"] == {"STSB": 80.5}


def test_a_contradicted_row_without_a_cell_is_refused(paper):
    map_tables(paper, MAPPING + '[table-2.contradicted]\nB = "x"\n')
    outcome = generate(paper / "table.csv", recipes=paper)
    assert outcome.returncode == 1
    assert (
        "the row 'B' of `contradicted` is not in the `rows` beside it" in outcome.stderr
    )


def test_a_column_that_a_row_has_twice_is_told_apart_by_the_one_before_it(
    paper,
):
    rows = "p,table 1,A,MR,1,\np,table 1,A,Avg,2,\np,table 1,A,STS-B,3,\np,table 1,A,Avg,4,\n"
    (paper / "table.csv").write_text(HEAD + rows, "utf-8")
    mapping = (
        '[table-1]\nrows = { A = "a" }\n[table-1.columns]\nMR = "MR"\nSTS-B = "STSB"\n'
    )
    mapping += 'Avg = { MR = "AVG/accuracy", STS-B = "AVG/spearman" }\n'
    map_tables(paper, mapping)
    assert generate(paper / "table.csv", recipes=paper).stderr == ""
    written = generated(paper, "table-1")
    (cells,) = (table["cells"] for table in written["study"]["expected"].values())
    assert cells == {
        "a": {"MR": 1.0, "AVG/accuracy": 2.0, "STSB": 3.0, "AVG/spearman": 4.0}
    }


def test_the_rows_of_a_system_in_several_tables_become_one_reference(
    paper,
):
    (paper / "table.csv").write_text(HEAD + ROWS + "p,table 1,B,MR,1,\n", "utf-8")
    first = '[table-1]\ncolumns = { MR = "MR" }\nleft_out = { B = "x" }\nreferences.figure-1 = { B = "BERT" }\n'
    second = (
        '[table-2.references]\nfigure-1 = { B = "BERT" }\ntable-2 = { B = "BERT" }\n'
    )
    map_tables(paper, MAPPING + first + second)
    assert generate(paper / "table.csv", recipes=paper).stderr == ""
    both = generated(paper, "figure-1")
    scores = {"MR": 1.0, "STSB": -3.0}
    assert both["study"]["references"] == {
        "BERT": {"source": "table 2, table 1", "scores": scores}
    }
    beside = generated(paper, "table-2")
    assert beside["study"]["references"] == {
        "BERT": {"source": "table 2", "scores": {"STSB": -3.0}}
    }


def test_a_file_that_was_changed_or_is_of_no_table_fails_the_check(paper):
    assert generate(paper / "table.csv", recipes=paper).returncode == 0
    assert generate(paper / "table.csv", "--check", recipes=paper).returncode == 0
    written = paper / "p" / "published" / "table-2.toml"
    written.write_text(written.read_text("utf-8").replace("80.5", "80.6", 1), "utf-8")
    (paper / "p" / "published" / "table-9.toml").write_text("", "utf-8")
    outcome = generate(paper / "table.csv", "--check", recipes=paper)
    assert outcome.returncode == 1
    assert "table-2.toml is not what the table gives" in outcome.stderr
    assert "table-9.toml is not what the table gives" in outcome.stderr
    assert generate(paper / "table.csv", recipes=paper).returncode == 0
    assert generate(paper / "table.csv", "--check", recipes=paper).returncode == 0


@pytest.mark.sweep(6)
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            'B = "another system"',
            "",
            "the row 'B' is in none of `rows`, `elsewhere` and `left_out`",
        ),
        (
            'B = "another',
            '"A | NLI" = ""\nB = "another',
            "the row 'A | NLI' is in both `rows` and `left_out`",
        ),
        ("B =", 'C = ""\nB =', "there is no row 'C'"),
        (
            "[table-2.left_out]",
            '[table-2.references.more]\nC = ""\n[table-2.left_out]',
            "there is no row 'C'",
        ),
        (
            'Avg = "a mean"',
            "",
            "the column 'Avg' is in none of `columns` and `left_out_columns`",
        ),
        ("[left_out_columns]\n", 'X = "Y"\n[left_out_columns]\nX = ""\n', ""),
        ('Avg = "a mean"', "[columns2]", "`[columns2]` is no table of the paper"),
        ("tolerance", "tolerence", "unknown key `tolerence`"),
        (
            "[table-2.left_out]",
            '[table-2.studies.more.rows]\nB = "b"\n[table-2.left_out]',
            "the row 'B' is in both `left_out` and `studies.more`",
        ),
        (
            "[table-2.left_out]",
            "[table-2.studies.more]\ntolerence = 1.0\n[table-2.left_out]",
            "unknown key `studies.more.tolerence`",
        ),
        (
            'Avg = "a mean"',
            '[table-2.columns]\nAvg = { MR = "AVG" }',
            "'Avg' of 'A | NLI' is after 'STS-B', and has no key for it",
        ),
        ("[table-2", "[table-3", "there is no `[table-2]`"),
    ],
)
def test_what_does_not_fit_together_is_refused(paper, old, new, message):
    assert old in MAPPING
    map_tables(paper, MAPPING.replace(old, new))
    outcome = generate(paper / "table.csv", recipes=paper)
    assert message in outcome.stderr
    assert (outcome.returncode, (paper / "p" / "published").exists()) == (
        (1, False) if message else (0, True)
    )


def test_one_cell_with_two_numbers_for_one_key_is_refused_and_with_the_same_twice_is_not(
    paper,
):
    table = paper / "table.csv"
    table.write_text(HEAD + ROWS + "p,table 2,A | NLI,STS-B,80.5,\n", "utf-8")
    assert generate(table, recipes=paper).returncode == 0
    table.write_text(HEAD + ROWS + "p,table 2,A | NLI,STS-B,80.6,\n", "utf-8")
    assert (
        "'mean, a+b' has 'STSB' 80.5 and, in the row 'A | NLI', 80.6"
        in generate(table, recipes=paper).stderr
    )


def test_a_value_that_is_no_number_is_named_by_its_line(paper):
    (paper / "table.csv").write_text(
        HEAD + ROWS + "p,table 2,A | NLI,STS-B,many,\n", "utf-8"
    )
    outcome = generate(paper / "table.csv", recipes=paper)
    assert (outcome.returncode, "table.csv:5: expected" in outcome.stderr) == (1, True)


def test_a_paper_without_a_mapping_is_refused_unless_others_are_asked_for(
    paper,
):
    table = paper / "table.csv"
    table.write_text(HEAD + ROWS + "q,table 1,A,MR,1,\n", "utf-8")
    outcome = generate(table, recipes=paper)
    assert (outcome.returncode, "q/published.toml" in outcome.stderr) == (1, True)
    assert generate(table, "--paper", "p", recipes=paper).returncode == 0
    assert "no paper 'r'" in generate(table, "--paper", "r", recipes=paper).stderr


def test_the_recipes_have_what_the_reference_table_gives():
    beside = ROOT.parent / "shared" / "data"
    table = (
        Path(os.environ.get("SENTBED_DATA") or beside).parent
        / "reference"
        / "paper_tables.csv"
    )
    if not table.is_file():
        pytest.skip(
            "needs the published numbers: reference/paper_tables.csv beside the directory SENTBED_DATA"
        )
    outcome = generate(table, "--check")
    assert (outcome.returncode, outcome.stderr) == (0, "")


def published_study(directory):
    """A finished study of SentBench whose scores are the published ones."""
    table = directory.removeprefix("studies/sentbench-")
    path = ROOT / "recipes" / "papers" / "sentbench" / "published" / f"{table}.toml"
    (published,) = tomllib.loads(path.read_text("utf-8"))["study"]["expected"].values()
    protocol = {"encoder": {}, "evaluator": {"id": "p"}}
    names = ("backbone", "knowledge", "loss")
    cells = []
    for name, numbers in published["cells"].items():
        scores = tuple(
            Score(task, "accuracy", value, protocol, "encoder", "sentbench")
            for task, value in numbers.items()
        )
        labels = dict(zip(names, name.split(", "), strict=True))
        cells.append(
            CellInfo(name, labels, (CellRun(name, 42, "finished", scores=scores),))
        )
    axes = tuple(
        AxisInfo(axis, tuple(dict.fromkeys(cell.labels[axis] for cell in cells)))
        for axis in names
    )
    return LoadedStudy(StudyData(directory, axes, tuple(cells), None, (42,)))


def test_the_gains_of_sentbench_are_those_that_its_page_shows(
    monkeypatch,
):
    pytest.importorskip("pandas", reason="needs the extra `pandas` of sentbed-studies")
    page = ROOT / "docs" / "papers.md"
    (block,) = (block for block in blocks(page) if "gains" in block.text)
    monkeypatch.setattr("sentbed_studies.load_study", published_study, raising=False)
    module = {}
    exec(compile(block.text, block.name, "exec"), module)
    gains = module["gains"]
    assert {name: series.round(2).to_dict() for name, series in gains.items()} == {
        "table-2": {"bert": -0.96, "roberta": -0.82},
        "table-3": {"bert": -0.23, "roberta": 1.19},
        "table-4": {"bert": 6.24, "roberta": 12.05},
    }
    shown = [
        line
        for line in page.read_text("utf-8").splitlines()
        if line.startswith("| 4, contrasting |")
    ]
    assert shown == [
        f"| 4, contrasting | {gains['table-4']['bert']:+.2f} | {gains['table-4']['roberta']:+.2f} |"
    ]
