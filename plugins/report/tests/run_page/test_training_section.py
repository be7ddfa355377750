"""Training in a run's report: stages, what was watched, and figures."""

from __future__ import annotations

import json

import attrs
from sentbed_report.page.markdown import page_markdown
from sentbed_report.report_json import to_json
from sentbed_report.run_page.run_page import run_page
from toy_run_report import EMPTY, stage, watched_stage

WATCHED = attrs.evolve(EMPTY, stages=(watched_stage(),))


def test_a_stage_has_its_steps_its_last_loss_and_the_step_that_it_keeps():
    text = page_markdown(run_page(attrs.evolve(EMPTY, stages=(stage(),))))
    assert "| nli | 40 | 0.1750 | STS-B dev | 80.50 at step 20 |" in text
    assert "**Watched**" not in text


def test_the_first_and_the_last_watched_scores_are_a_table():
    text = page_markdown(run_page(WATCHED))
    assert (
        "| nli | zh | geometry | STSB-dev | alignment | wang-isola | 0 to 200 | 0.300 | 0.200 |"
        in text
    )
    assert (
        "| nli | en | sts | dev | spearman | senteval-sts | 0 to 100 | 50.00 | 62.50 |"
        in text
    )


def test_json_has_every_watched_score():
    (table,) = json.loads(to_json(WATCHED))["stages"]
    assert table["metrics"]["temperature"][:2] == [1.0, 0.5]
    assert table["metrics"]["accuracy"][0] is None
    first = table["watched"][0]
    assert (first["encoder"], first["evaluator"], first["steps"]) == (
        "zh",
        "geometry",
        [0, 100, 200],
    )
    assert [score["metric"] for score in first["scores"]] == ["alignment", "uniformity"]
    assert first["values"] == [[0.3, -1.0], [0.25, -2.0], [0.2, -2.5]]
    assert first["scores"][0]["protocol"] == {
        "encoder": {},
        "evaluator": {"id": "wang-isola"},
    }
