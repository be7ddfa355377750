"""The search for a prompt in a run's report."""

from __future__ import annotations

import json
import math

import attrs
import pytest
from sentbed_report.page.markdown import page_markdown
from sentbed_report.page.report_page import page_html
from sentbed_report.report_json import to_json
from sentbed_report.run_page.demonstration_search_section import verdict
from sentbed_report.run_page.run_page import run_page
from toy_run_report import EMPTY, ranking


def test_a_search_has_its_best_demonstration_and_how_many_help_and_harm():
    data = attrs.evolve(EMPTY, ranking=ranking(80.0, 75.0, 70.0, 60.0, math.nan))
    page = run_page(data)
    markdown = page_markdown(page)
    assert (
        "| Sentence 0. | Word0 | +10.00 | 2 of 5 (40 %) | 1 of 5 (20 %) |" in markdown
    )
    assert "| no demonstration | – | – | 70.00 | ±0.00 |" in markdown
    assert "| Sentence 3. | Word3 | 4 | 60.00 | −10.00 |" in markdown
    assert page_html(page).count("<figure>") == 1
    record = json.loads(to_json(data))["ranking"]
    assert record["winner"] == {
        "sentence": "Sentence 0.",
        "word": "Word0",
        "score": 80.0,
        "improvement": 10.0,
    }
    assert record["helped"] == {"candidates": 2, "share": 0.4}
    assert record["harmed"] == {"candidates": 1, "share": 0.2}


def test_the_baseline_of_a_search_stands_at_its_place_without_a_rank():
    rows = ranking(80.0, 75.0, 70.0, 60.0, math.nan).rows
    assert [rank for rank, _, _ in rows] == [1, 2, None, 3, 4, 5]
    assert [difference for _, _, difference in rows[:5]] == [10.0, 5.0, 0.0, 0.0, -10.0]
    assert math.isnan(rows[5][2])
    assert [rank for rank, _, _ in ranking(80.0, baseline=math.nan).rows] == [None, 1]


@pytest.mark.parametrize(
    ("scores", "baseline", "sentence"),
    [
        (
            (80.0, 60.0),
            70.0,
            "The best demonstration is “Sentence 0.” → “Word0”: 80.00, "
            "against 70.00 without a demonstration.",
        ),
        (
            (70.0,),
            70.0,
            "No demonstration is better than none: the best, “Sentence 0.” → “Word0”, has 70.00, "
            "against 70.00 without a demonstration.",
        ),
        (
            (80.0,),
            math.nan,
            "The best demonstration is “Sentence 0.” → “Word0”: 80.00, "
            "against undefined without a demonstration.",
        ),
    ],
)
def test_the_verdict_says_whether_a_demonstration_helps(scores, baseline, sentence):
    assert verdict(ranking(*scores, baseline=baseline)) == sentence
