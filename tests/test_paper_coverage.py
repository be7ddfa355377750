"""Every number in the tables of the four papers is computed by a cell of a study, or has its reason."""

from __future__ import annotations

import csv
import os
import re
import tomllib
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from paper_coverage import (
    COVERAGE,
    Place,
    Printed,
    keys,
    mapping,
    offer,
    printed,
    resolve,
)
from paper_studies import PAPERS, ROOT, study
from sentbed import FilePath
from sentbed.protocols import Prepared, TextEncoder, Vectors
from sentbed_evaluators.sentbench import SentBench
from sentbed_evaluators.sentglue import SentGLUE
from sentbed_evaluators.sts import STS, SentEvalSTS

TABLES = [(paper, table) for paper, tables in COVERAGE.items() for table in tables]


def test_every_table_of_the_mappings_is_counted():
    mapped_tables = {
        (path.parent.name, table)
        for path in PAPERS.glob("*/published.toml")
        for table in mapping(path.parent.name)
        if table.startswith("table-")
    }
    assert mapped_tables == set(TABLES)
    assert sum(COVERAGE[paper][table]["numbers"] for paper, table in TABLES) == 2612


@pytest.mark.parametrize(("paper", "table"), TABLES)
def test_every_number_has_one_score_or_one_reason(paper, table):
    numbers = list(printed(paper, table))
    assert len(numbers) == COVERAGE[paper][table]["numbers"]
    places = {number: resolve(paper, table, number) for number in numbers}
    reasons = {
        number: place for number, place in places.items() if isinstance(place, str)
    }
    assert all(reason and "\n" not in reason for reason in reasons.values())
    assert (
        sum(number not in reasons for number in numbers)
        == COVERAGE[paper][table]["computed"]
    )
    computed = [place for place in places.values() if isinstance(place, Place)]
    assert len(set(computed)) == len(computed)
    for place in computed:
        assert place.cell in study(place.study).names, place
        assert offer(place.study, place.cell).count(place.key) == 1, place


def numbers_of_the_csv():
    """Yield paper, table, number and value of every line of the reference table, or skip the test."""
    beside = ROOT.parent / "shared" / "data"
    path = (
        Path(os.environ.get("SENTBED_DATA") or beside).parent
        / "reference"
        / "paper_tables.csv"
    )
    if not path.is_file():
        pytest.skip(
            "needs the published numbers: reference/paper_tables.csv beside the directory SENTBED_DATA"
        )
    last = ""
    with path.open(encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file):
            paper, table, column = (
                line["paper"],
                line["table"].replace(" ", "-"),
                line["column"],
            )
            columns = ["", *COVERAGE[paper][table]["columns"]]
            # Which of two columns of one name this is, the file's order says.
            before = (
                last
                if columns.count(column) > 1
                else columns[columns.index(column) - 1]
            )
            last = column
            yield (
                paper,
                table,
                Printed(line["row"], column, before),
                float(line["value"]),
            )


def test_the_reference_table_has_these_numbers_and_no_others():
    reference = Counter(
        (paper, table, number) for paper, table, number, _ in numbers_of_the_csv()
    )
    ours = Counter(
        (paper, table, number)
        for paper, table in TABLES
        for number in printed(paper, table)
    )
    assert reference == ours


def test_the_recipes_have_the_values_of_the_reference_table():
    different = []
    for paper, table, number, value in numbers_of_the_csv():
        place = resolve(paper, table, number)
        if isinstance(place, str):
            continue
        same_paper = place.study.startswith(f"{paper}/")
        values = expected(place, table.replace("-", " ") if same_paper else None)
        misprint = (
            COVERAGE[paper][table]
            .get("misprinted", {})
            .get(number.row, {})
            .get(number.column)
        )
        if misprint is not None:
            # Taken from another paper, with a slip: the study has that paper's own number.
            assert not same_paper
            assert misprint == value
            assert value not in values
        elif set(values) != {value}:
            different.append((paper, table, number, place, value, values))
    assert not different


def expected(place, title):
    """Return the published values that a study has for a score: of one table, or of all."""
    tables = study(place.study).table.expected
    return [
        published.cells[place.cell][place.key]
        for name, published in tables.items()
        if title in (None, name) and place.key in published.cells.get(place.cell, {})
    ]


class RandomVectors(TextEncoder):
    """An encoder that knows nothing."""

    def encode(self, texts, task=None):
        return np.random.default_rng(0).normal(size=(len(texts), 8)).astype(np.float32)


@pytest.mark.parametrize(
    "evaluator",
    [
        SentEvalSTS(tasks=("STS12", "STSB", "SICKR")),
        SentGLUE(tasks=("STS-B",)),
        SentBench(paradigms=("contrast",), tasks=("ST", "GoEmo"), limit=50),
        STS(
            path=FilePath("data:cnsd/cnsd-sts-test.txt"),
            separator="||",
            header=False,
            columns=("1", "2", "3"),
            task="T",
        ),
    ],
    ids=lambda evaluator: evaluator.name,
)
def test_the_keys_of_an_evaluator_are_the_tasks_that_it_scores(
    evaluator, data_directory
):
    prepared = evaluator.prepare()
    assert isinstance(prepared, Prepared)
    scores = prepared.score(Vectors(prepared.lists, RandomVectors())).scores
    assert {score.task for score in scores} == {
        key for key, listed in keys(evaluator).items() if listed
    }


def test_the_page_of_the_papers_says_what_is_covered():
    page = (ROOT / "docs" / "papers.md").read_text("utf-8")
    lines = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines()
    ]
    rows = {
        (line[0], line[1].replace(" ", "-")): line[2:]
        for line in lines
        if len(line) == 6 and line[2].isdigit()
    }
    assert list(rows) == TABLES
    for (paper, table), (numbers, computed, by, reasons) in rows.items():
        places = [resolve(paper, table, number) for number in printed(paper, table)]
        facts = COVERAGE[paper][table]
        assert (int(numbers), int(computed)) == (facts["numbers"], facts["computed"])
        studies = {place.study for place in places if isinstance(place, Place)}
        assert {
            name if "/" in name else f"{paper}/{name}" for name in by.split("`")[1::2]
        } == studies
        assert (
            sum(int(n) for n in re.findall(r"\((\d+)\)", reasons))
            == facts["numbers"] - facts["computed"]
        )
    total = sum(
        facts["computed"] for tables in COVERAGE.values() for facts in tables.values()
    )
    assert (
        f"print 2,612 numbers. A cell of a study computes {total:,} of them; for {2612 - total} "
        in page
    )


def rows_below(heading):
    """Return the table rows of a section of the page of the papers, up to the next heading."""
    page = (ROOT / "docs" / "papers.md").read_text("utf-8")
    section = re.split(rf"^#+ {heading}$", page, flags=re.MULTILINE)[1]
    lines = re.split(r"^#+ ", section, flags=re.MULTILINE)[0].splitlines()
    return [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in lines
        if line.startswith("| ")
    ]


def test_the_page_of_the_papers_says_of_every_table_whether_it_was_met():
    rows = {}
    for line in rows_below("What is met"):
        paper, _, tables = line[0].partition("/`: tables ")
        if tables:
            counted, met, by, when = line[1:]
            # A table that was run has a row of its own, with who ran it and when.
            assert met == "not yet run" or (by and when), line
            for number in tables.split(", "):
                rows[paper.strip("`"), f"table-{number}"] = line
            numbers = sum(
                COVERAGE[paper.strip("`")][f"table-{n}"]["numbers"]
                for n in tables.split(", ")
            )
            assert counted == f"{numbers:,}"
    assert sorted(rows) == sorted(TABLES)


def test_the_page_of_the_papers_has_every_model_with_its_size():
    models = tomllib.loads(
        (ROOT / "tests" / "papers" / "models.toml").read_text("utf-8")
    )
    lines = {line[0]: line[1:] for line in rows_below("Models") if line[0] in models}
    assert list(lines) == list(models)
    for model, (parameters, gigabytes, file, gated) in lines.items():
        entry = models[model]
        assert parameters == f"{entry['parameters'] / 1e6:,.0f}"
        size = entry["parameters"] * entry["bytes"] / 1e9
        assert gigabytes == (f"{size:.2f}" if size < 10 else f"{size:.1f}")
        assert (file, gated == "yes") == (entry["file"], entry["gated"])


def test_the_page_of_the_papers_has_the_numbers_of_minilm_that_recipes_expect():
    expected = {}
    for recipe in ("minilm-sts", "minilm-senteval"):
        table = tomllib.loads((PAPERS / f"{recipe}.toml").read_text("utf-8"))[
            "expected"
        ]
        expected |= {task: entry["value"] for task, entry in table.items()}
    shown_values = {
        line[0]: [cell for cell in line[1:3] if cell]
        for line in rows_below("What is met")
    }
    for task, value in expected.items():
        assert {float(cell) for cell in shown_values[task]} == {value}, task
