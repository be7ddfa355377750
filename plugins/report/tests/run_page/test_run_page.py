"""Sections of a run's report, and what stands above them."""

from __future__ import annotations

import json
import math
import re
from functools import cache

import attrs
import pytest
from sentbed.protocols import ExpectedRow, ReportSection
from sentbed_report.page.markdown import page_markdown
from sentbed_report.page.report_page import AnswerLine, page_html
from sentbed_report.run_page.run_page import UNTRAINED, run_page
from sentbed_report.write_report import write_report
from toy_run_report import EMPTY, full, stage

PLANE = "Geometry"
PROTOCOLS = "How these numbers were made"


@cache
def full_page():
    return page_html(run_page(full()))


def titles(data):
    return [section.title for section in run_page(data).sections]


def test_a_page_has_each_section_that_has_something_and_all_figures():
    assert titles(full()) == [
        "Scores",
        "Expected",
        "Training",
        "Similarity",
        PLANE,
        PROTOCOLS,
        "Record",
    ]
    # Validation, loss, learning rate, a scatter plot an encoder, a plane.
    assert full_page().count('role="img"') == full_page().count("<figure>") == 6
    assert '<p class="plot-title">STS-B: encoder@start</p>' in full_page()


@pytest.mark.parametrize(
    ("nothing", "missing"),
    [
        ({"scores": ()}, ["Scores", PLANE, PROTOCOLS]),
        ({"expected": ()}, ["Expected"]),
        ({"stages": ()}, ["Training"]),
        ({"scatters": ()}, ["Similarity"]),
        ({"manifest": {}, "recipe_toml": ""}, ["Record"]),
    ],
)
def test_a_page_has_no_section_that_has_nothing(nothing, missing):
    left = titles(attrs.evolve(full(), **nothing))
    assert left == [title for title in titles(full()) if title not in missing]


@pytest.mark.parametrize(
    ("kept_steps", "is_untrained"),
    [((0,), True), ((0, 0), True), ((20, 0), False), ((None,), False), ((), False)],
)
def test_untrained_weights_come_first_in_the_answer(kept_steps, is_untrained):
    stages = tuple(attrs.evolve(stage(), best_step=step) for step in kept_steps)
    first, *_ = run_page(attrs.evolve(full(), stages=stages)).answer
    assert (first == AnswerLine("Untrained", UNTRAINED)) == is_untrained


@pytest.mark.parametrize(
    ("row", "cells", "kind"),
    [
        (
            ExpectedRow("key", 70.1, 0.5, "table 5", 70.0),
            "70.00 | 70.10 | −0.10 | ±0.50 | met | table 5",
            "met",
        ),
        (
            ExpectedRow("key", 68.0, 0.5, "", 60.0),
            "60.00 | 68.00 | −8.00 | ±0.50 | not met | –",
            "unmet",
        ),
        (
            ExpectedRow("key", 68.0, 0.5, "a", None),
            "– | 68.00 | – | ±0.50 | not measured | a",
            "",
        ),
        (
            ExpectedRow("key", 274.0, None, "a", 1.5),
            "1.50 | 274.00 | −272.50 | – | to compare | a",
            "",
        ),
        (
            ExpectedRow("key", 68.0, None, "a", 60.0, contradicted="a misprint"),
            "60.00 | 68.00 | −8.00 | – | contradicted | a",
            "",
        ),
        (
            ExpectedRow("key", 1.0, 0.1, "a", math.nan),
            "undefined | 1.00 | undefined | ±0.10 | not met | a",
            "unmet",
        ),
    ],
)
def test_an_expected_number_stands_beside_what_was_measured(row, cells, kind):
    page = run_page(attrs.evolve(EMPTY, expected=(row,)))
    assert f"| key | {cells} |" in page_markdown(page)
    verdict = cells.split(" | ")[4]
    shown = (
        f'<span class="{kind}">{verdict}</span>'
        if kind
        else f'<td class="t">{verdict}</td>'
    )
    assert shown in page_html(page)


@pytest.mark.parametrize("status", ["interrupted", "failed"])
def test_a_run_that_did_not_finish_says_so(tmp_path, status):
    data = attrs.evolve(
        EMPTY, status=status, error="The disk is full; free some space."
    )
    text = write_report(tmp_path, data).read_text()
    assert f'class="status {status}"' in text
    assert '<pre tabindex="0">The disk is full' in text
    assert "The disk is full" in (tmp_path / "report.md").read_text()
    record = json.loads((tmp_path / "report.json").read_text())
    assert (record["status"], record["error"]) == (status, data.error)


def test_a_plugins_labels_with_shares_are_bars_of_one_scale(tmp_path):
    """The longest bar of a section is as long as its column; a label is text, whatever it holds."""
    rows = (
        ("A <b>horse</b>.", (("ride|r", 0.4), ("<i>", 0.1)), (("that", 0.2),)),
        ("Rain.", (("wet", 0.05),), None),
    )
    section = ReportSection(
        "words", "Words", ("Sentence", "one:\nfirst", "other"), rows, "Said next."
    )
    page = write_report(tmp_path, attrs.evolve(EMPTY, sections=(section,))).read_text()
    assert re.findall(r"width:([0-9.]+)%", page) == [
        "100.00",
        "25.00",
        "50.00",
        "12.50",
    ]
    assert "<b>" not in page
    assert "<i>" not in page
    assert re.findall(r'class="share">([^<]+)<', page) == [
        "40 %",
        "10 %",
        "20 %",
        "5.0 %",
    ]
    assert re.findall(r'class="bars (c\d)"', page) == ["c0", "c1", "c0"]
    assert 'style="--columns: 2"' in page
    printed = (tmp_path / "report.md").read_text()
    assert r"| A \<b\>horse\</b\>. | ride\|r 40 %, \<i\> 10 % | that 20 % |" in printed
    assert "| Sentence | one: first | other |" in printed
    assert printed.endswith("Said next.\n")
    record = json.loads((tmp_path / "report.json").read_text())
    assert record["sections"]["words"]["rows"][1] == ["Rain.", [["wet", 0.05]], None]
