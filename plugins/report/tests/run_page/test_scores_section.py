"""The tables of a run's scores: change by training, intervals, differences, and what is not comparable."""

from __future__ import annotations

import math
import re

import attrs
import numpy as np
import pytest
from scipy import stats
from sentbed.protocols import Items
from sentbed_common import item_score
from sentbed_report.formatting import number
from sentbed_report.page.markdown import page_markdown
from sentbed_report.run_page.run_page import run_page
from sentbed_report.run_page.scores_section import run_summaries
from toy_run_report import EMPTY, full, score, whitened


def summaries_of(*scores):
    return run_summaries(attrs.evolve(EMPTY, scores=scores))


def test_tasks_are_columns_and_change_is_against_the_encoder_before_training():
    sts, alignment, uniformity = run_summaries(full())
    assert sts.headings == ("STS12", "STS-B", "Avg")
    assert [row.encoder for row in sts.rows] == ["encoder@start", "encoder"]
    assert [cell.change for cell in sts.rows[0].cells] == [None, None, None]
    assert [cell.change for cell in sts.rows[1].cells] == [10.0, 10.0, 10.0]
    assert (alignment.note, uniformity.note) == (
        "geometry; alignment; wang-isola",
        "geometry; uniformity; wang-isola",
    )
    text = page_markdown(run_page(full()))
    assert "| Avg | mean | sts" not in text
    assert (
        "| STS-B | spearman | sts, senteval-sts | 60.00 | 70.00 | – | +10.00 | – |"
        in text
    )
    # Lower is better.
    assert (
        "| alignment | geometry, wang-isola | 0.300 | 0.200 | – | −0.100 | – |" in text
    )


@pytest.mark.parametrize(
    "other",
    [
        score("a", 2.0, metric="pearson"),
        score("a", 2.0, evaluator="other"),
        score("a", 2.0, aggregation="mean"),
        score("a", 2.0, encoder="b", data="another file"),
        score("a", 2.0, text_rules=["strip"]),
    ],
)
def test_scores_that_differ_in_anything_stand_in_two_tables(other):
    tables = summaries_of(score("a", 1.0, "encoder@start"), score("a", 1.0), other)
    assert len({(table.evaluator, table.metric, table.note) for table in tables}) == 2
    values = [
        cell.value for table in tables for row in table.rows for cell in row.cells
    ]
    assert [value for value in values if value is not None] == [1.0, 1.0, 2.0]


@pytest.mark.parametrize(
    ("before", "data"), [(1.0, "old"), (math.nan, "new")], ids=["data", "undefined"]
)
def test_there_is_no_change_across_protocols_and_from_an_undefined_score(before, data):
    tables = summaries_of(
        score("a", before, "encoder@start", data=data), score("a", 9.0, data="new")
    )
    changes = [
        cell.change for table in tables for row in table.rows for cell in row.cells
    ]
    assert set(changes) == {None}


def test_intervals_of_scores_and_of_their_changes_stand_beside_them():
    data = attrs.evolve(full(), stages=(), scatters=())
    numbers = np.random.default_rng(0).random((2, 100))
    right = (numbers < [[0.5], [0.7]]).astype(float)
    scores = list(data.scores)
    for place, of_score in ((0, right[0]), (2, right[1])):
        items = Items("mean", of_score)
        scores[place] = attrs.evolve(
            scores[place], value=item_score(items), items=items
        )
    markdown = page_markdown(run_page(attrs.evolve(data, scores=tuple(scores))))
    low, high = stats.ttest_rel(*(100 * right[::-1])).confidence_interval(0.95)
    gain = 100 * float(right[1].mean() - right[0].mean())
    (row,) = re.findall(r"^\| STS12 .*$", markdown, re.MULTILINE)
    assert f"| +{gain:.2f}‡ | {number(low)} to {number(high)} |" in row


def test_an_evaluator_that_scores_an_encoder_twice_has_two_tables():
    plain = score("MR", 60.0, "en")
    white = attrs.evolve(whitened(plain), value=65.0)
    before = attrs.evolve(plain, encoder="en@start", value=50.0)
    white_before = attrs.evolve(white, encoder="en@start", value=52.0)
    first, second = summaries_of(before, white_before, plain, white)
    assert first.note.endswith('in whitening (nothing against {"width": 256})')
    assert second.note.endswith('in whitening ({"width": 256} against nothing)')
    assert [row.cells[0].value for row in first.rows] == [50.0, 60.0]
    assert [row.cells[0].value for row in second.rows] == [52.0, 65.0]
    assert second.rows[1].cells[0].change == 13.0
