from __future__ import annotations

import math
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import attrs
import pytest
from click.testing import CliRunner
from sentbed.protocols import ExpectedRow
from sentbed.tools import read_document
from sentbed_report.study.published_number_comparison import Number
from sentbed_report.study.published_number_config import Published
from sentbed_studies import published_table_recipes
from sentbed_studies.published_table_recipes import (
    comparison,
    find_papers,
    missed,
    numbers_of,
    tables_of,
    verdict,
)
from sentbed_studies.reproduce_command import reproduce as command

ROOT = Path(__file__).parents[3]
PAPERS = ROOT / "recipes" / "papers"


def number(
    found,
    value=80.0,
    tolerance=0.5,
    fits=1,
):
    return Number("mean", ExpectedRow("MR", value, tolerance, "Table 1", found, fits))


@pytest.mark.parametrize(
    ("found", "said", "fails"),
    [
        (number(80.5), "within", False),
        (number(80.6), "not within", True),
        (number(math.nan), "not within", True),
        (number(None), "not measured", False),
        (number(None, fits=2), "the key fits 2 scores", True),
        (number(90.0, tolerance=None), "shown only", False),
        (number(None, tolerance=None), "not measured", False),
    ],
)
def test_what_was_measured_and_is_not_within_fails(found, said, fails):
    assert (verdict(found), missed([number(80.0), found])) == (said, fails)


def test_what_was_not_measured_is_counted_beside():
    numbers = [
        number(80.0),
        number(90.0),
        number(None),
        number(None),
        number(None, fits=2),
    ]
    *_, last = comparison(numbers)
    assert last == "1 of 3 numbers within their tolerance; 2 not measured"
    *_, last = comparison(numbers[:2])
    assert last == "1 of 2 numbers within their tolerance"


def test_a_contradicted_number_is_shown_with_its_reason_and_counts_neither_way():
    row = ExpectedRow(
        "MR",
        38.8,
        None,
        "Table 1",
        30.9,
        contradicted="table 3 of another paper has 30.9",
    )
    off = Number("first", row)
    again = Number("first", attrs.evolve(row, key="CR"))
    assert verdict(off) == "contradicted"
    assert not missed([number(80.0), off, again])
    *table, count, reason = comparison([number(80.0), off, again])
    assert table[2].split() == [
        "first",
        "MR",
        "30.90",
        "38.80",
        "−7.90",
        "contradicted",
    ]
    assert (
        count
        == "1 of 1 number within their tolerance; 2 contradicted, which do not count"
    )
    assert reason == "contradicted: Table 1, first: table 3 of another paper has 30.9"


def test_numbers_have_the_digits_of_the_recipe():
    _, line, _ = comparison([number(0.12341, value=0.1234, tolerance=0.0005)])
    assert line.split() == [
        "mean",
        "MR",
        "0.1234",
        "0.1234",
        "±0.0000",
        "0.0005",
        "within",
    ]
    _, line, _ = comparison([number(80.0)])
    assert line.split()[2:6] == ["80.00", "80.00", "±0.00", "0.50"]


def test_an_average_of_fewer_tasks_is_not_judged_by_that_of_the_paper(
    study_of,
):
    published = {"MR": 70.0, "CR": 80.0, "TREC": 99.0, "AVG": 83.0}
    expected = {
        "T": Published({"a": published}, 0.5),
        "U": Published({"b": {"MR": 1.0}}),
    }
    numbers = {"a": {1: {"MR": 70.0, "CR": 80.0}}, "b": {1: {}}}
    found = numbers_of(study_of(numbers, statuses={"b": "failed"}, expected=expected))
    # What has not finished is left out.
    assert [(one.cell, one.row.key, verdict(one)) for one in found] == [
        *(("a", "MR", "within"), ("a", "CR", "within")),
        *(("a", "TREC", "not measured"), ("a", "AVG", "not measured")),
    ]
    assert not missed(found)


def test_two_averages_of_a_published_row_are_each_compared_with_their_own(
    study_of,
):
    transfer = {"MR": 70.0, "CR": 80.0, "AVG/accuracy": 75.0}
    published = {
        **transfer,
        "STS12": 60.0,
        "STSB": 70.0,
        "SICKR": 80.0,
        "AVG/spearman": 70.0,
    }
    scores = {
        "MR": 70.0,
        "CR": 80.0,
        "STS12/spearman": 60.0,
        "STSB/spearman": 70.0,
        "SICKR/spearman": 80.0,
    }
    data = study_of(
        {"a": {1: scores}}, expected={"T": Published({"a": published}, 0.5)}
    )
    (cell,) = data.cells
    (run,) = cell.runs
    apart = tuple(
        attrs.evolve(score, evaluator="sts") if score.metric == "spearman" else score
        for score in run.scores
    )
    both = attrs.evolve(
        data, cells=(attrs.evolve(cell, runs=(attrs.evolve(run, scores=apart),)),)
    )
    assert [(one.row.key, one.row.found) for one in numbers_of(both)] == list(
        published.items()
    )
    # A number of a task that was not run may be of either average.
    fewer = tuple(score for score in apart if score.task != "STS12")
    both = attrs.evolve(
        data, cells=(attrs.evolve(cell, runs=(attrs.evolve(run, scores=fewer),)),)
    )
    found = {one.row.key: one.row.found for one in numbers_of(both)}
    assert (found["AVG/accuracy"], found["AVG/spearman"]) == (None, None)


# --- the papers' recipes -----------------------------------------------------------------------------------


def files(papers):
    return {
        str(path.relative_to(papers)): path.read_bytes()
        for path in papers.rglob("*.toml")
    }


def build(source, target, kind):
    """Build a distribution, and unpack it."""
    program = [
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "-t",
        kind,
        "-d",
        str(target),
    ]
    subprocess.run(program, cwd=source, check=True, capture_output=True)
    (archive,) = target.iterdir()
    if kind == "wheel":
        zipfile.ZipFile(archive).extractall(target)
        return target
    with tarfile.open(archive) as packed:
        packed.extractall(target, filter="data")
    return target / archive.name.removesuffix(".tar.gz")


def test_what_is_built_has_the_papers_recipes(tmp_path):
    wheel = build(ROOT / "plugins" / "studies", tmp_path / "wheel", "wheel")
    papers = wheel / "sentbed_studies" / "recipes" / "papers"
    assert files(papers) == files(PAPERS)
    source = build(ROOT / "plugins" / "studies", tmp_path / "sdist", "sdist")
    again = build(source, tmp_path / "again", "wheel")
    assert files(again / "sentbed_studies" / "recipes" / "papers") == files(PAPERS)


def test_the_papers_recipes_need_no_file_beside_them(tmp_path):
    copy = shutil.copytree(PAPERS, tmp_path / "papers")
    names = [place.name for place in PAPERS.iterdir() if place.is_dir()]
    tables = [
        file.relative_to(PAPERS)
        for name in names
        for file in tables_of(PAPERS, name).values()
    ]
    assert len(tables) > 20
    for table in tables:
        assert read_document(copy / table).data == read_document(PAPERS / table).data


def test_papers_are_found_above_the_directory_then_in_what_is_installed(
    tmp_path, monkeypatch
):
    here, installed = tmp_path / "a" / "b", tmp_path / "installed"
    for place in (here, installed):
        place.mkdir(parents=True)
    monkeypatch.chdir(here)
    assert find_papers() == PAPERS
    monkeypatch.setattr(published_table_recipes, "INSTALLED", installed)
    assert find_papers() == installed
    (tmp_path / "a" / "recipes" / "papers").mkdir(parents=True)
    assert find_papers() == tmp_path / "a" / "recipes" / "papers"


@pytest.mark.slow
def test_a_dry_run_shows_the_numbers_what_is_missing_and_the_time(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SENTBED_DATA", str(tmp_path))
    dry = ["sentence-t5:table-3", "--dry-run", "--only", "pooler=mean"]
    result = CliRunner().invoke(command, dry, catch_exceptions=False)
    assert result.exit_code == 0
    lines = result.output.splitlines()
    first = next(line for line in lines if not line.startswith("missing here: "))
    assert lines[0].startswith("missing here: ")
    assert first.startswith("table 3: 96 numbers")
    assert "none, base, bert, mean       STS12          38.78  contradicted" in lines
    assert not any("first" in line for line in lines[2:] if line.startswith("none"))
    (missing,) = (
        line
        for line in lines
        if line.startswith("missing here: none, base, bert, mean; ")
    )
    assert "has no SentEval data" in missing
    assert re.search(r"table-3\.toml:\d+ evaluate\.0", missing)
    assert "  time left: unknown" in lines
    assert not list(tmp_path.iterdir())
