"""Every number in the tables of the four papers is computed by a cell of a study, or has its reason."""

from __future__ import annotations

import csv
import os
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
