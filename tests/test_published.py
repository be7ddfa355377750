"""The recipes have the numbers that papers published, and our page shows them."""

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


def generate(table, *options):
    command = [sys.executable, str(ROOT / "tools" / "published.py"), str(table)]
    return subprocess.run([*command, *options], capture_output=True, text=True)


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
