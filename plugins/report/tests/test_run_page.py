"""The report of a run: its files, its sections, and texts that are no markup."""

from __future__ import annotations

import math
import re

import attrs
import numpy as np
import pytest
from page_elements import Elements
from scipy import stats
from sentbed.errors import RunError
from sentbed.protocols import ExpectedRow, Items, ReportSection
from sentbed_common import item_score
from sentbed_report.figures.plot import Plot
from sentbed_report.formatting import number
from sentbed_report.page.markdown import page_markdown
from sentbed_report.page.report_page import AnswerLine, page_html
from sentbed_report.run_page.run_page import UNTRAINED, run_page
from sentbed_report.run_page.scores_section import run_summaries
from sentbed_report.write_report import write_report
from toy_run_report import (
    EMPTY,
    full,
    hostile,
    score,
    stage,
    whitened,
)

PROTOCOLS = "How these numbers were made"


def titles(data):
    return [section.title for section in run_page(data).sections]


def changed(**fields):
    return attrs.evolve(EMPTY, **fields)


def markdown(**fields):
    return page_markdown(run_page(changed(**fields)))


def test_an_empty_run_has_a_report(tmp_path):
    path = write_report(tmp_path / "new", EMPTY)

    assert sorted(file.name for file in path.parent.iterdir()) == [
        "report.html",
        "report.md",
    ]

    text = path.read_text()

    assert "<section" not in text
    assert "0 scores; started 2026-03-04 14:05, took 3.0 s." in text


def test_a_page_has_each_section_that_has_something_and_all_figures():
    assert titles(full()) == [
        *("Scores", "Expected", "Training", "Figures", PROTOCOLS, "Record"),
    ]

    text = page_html(run_page(full()))

    # Validation, loss, learning rate, a plane.
    assert text.count("<img ") == text.count("<figure>") == 4
    # The same run gives the same page, which loads nothing.
    assert page_html(run_page(full())) == text

    elements = Elements(text)

    addresses = elements.values("src", "href", "action", "srcset", "data")
    ids = elements.values("id")

    assert all(address.startswith(("#", "data:")) for address in addresses)
    assert len(ids) == len(set(ids))


def test_no_text_of_a_page_is_read_as_markup():
    text = page_html(run_page(hostile()))

    assert len(Elements(text).all("script")) == 1
    assert "alert" not in text.replace("&lt;script&gt;alert", "")
    assert text.count("&lt;script&gt;alert") > 20


def test_no_text_of_markdown_is_read_as_markup():
    data = attrs.evolve(hostile(), error=None, recipe_toml="", manifest={})
    lines = page_markdown(run_page(data)).splitlines()

    assert [line for line in lines if re.search(r"(?<!\\)<", line)] == []

    width = None
    for line in lines:
        # An unescaped pipe would make a column.
        pipes = len(re.findall(r"(?<!\\)\|", line)) if line.startswith("|") else None
        assert None in (pipes, width) or pipes == width, line
        width = pipes


def test_the_numbers_are_on_disk_when_a_figure_fails(tmp_path, monkeypatch):
    def fail(plot):
        raise ValueError("cannot be drawn")

    monkeypatch.setattr(Plot, "address", fail)
    with pytest.raises(ValueError, match="cannot be drawn"):
        write_report(tmp_path, full())

    assert "| STS12 |" in (tmp_path / "report.md").read_text()


def test_a_place_that_cannot_be_written_is_a_run_error(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(RunError):
        write_report(tmp_path / "file", EMPTY)


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
    page = run_page(changed(expected=(row,)))

    assert f"| key | {cells} |" in page_markdown(page)

    verdict = cells.split(" | ")[4]
    shown = f'<td class="t">{verdict}</td>'
    if kind:
        shown = f'<span class="{kind}">{verdict}</span>'

    assert shown in page_html(page)


@pytest.mark.parametrize("status", ["interrupted", "failed"])
def test_a_run_that_did_not_finish_says_so(status):
    page = run_page(changed(status=status, error="The disk is full; free some space."))

    assert f'class="status {status}"' in page_html(page)
    assert '<pre tabindex="0">The disk is full' in page_html(page)
    assert "The disk is full" in page_markdown(page)


def test_a_section_of_a_plugin_is_a_table_with_a_note():
    rows = (("A <b>horse</b>.", 0.4), ("Rain.", None))
    section = ReportSection("words", "Words", ("Sentence", "share"), rows, "Said next.")
    text = markdown(sections=(section,))

    assert "| A \\<b\\>horse\\</b\\>. | 0.4 |\n| Rain. | – |" in text
    assert text.endswith("Said next.\n")


def test_a_stage_has_its_steps_its_last_loss_and_the_step_that_it_keeps():
    text = markdown(stages=(stage(),))

    assert "| nli | 40 | 0.1750 | 20 | 80.50 | STS-B dev |" in text


def test_a_row_of_scores_has_the_numbers_before_and_after_training():
    sts, alignment, uniformity = run_summaries(full())

    assert sts.headings == ("STS12", "STS-B", "Avg")
    assert [row.encoder for row in sts.rows] == ["encoder@start", "encoder"]
    assert (alignment.note, uniformity.note) == (
        "geometry; alignment; wang-isola",
        "geometry; uniformity; wang-isola",
    )

    text = page_markdown(run_page(full()))
    row = "| STS-B | spearman | sts, senteval-sts | 60.00 | 70.00 | – | +10.00 | – |"

    assert row in text

    # Lower is better.
    row = "| alignment | geometry, wang-isola | 0.300 | 0.200 | – | −0.100 | – |"

    assert row in text


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
def test_scores_that_differ_in_anything_stand_in_two_rows(other):
    scores = (score("a", 1.0, "encoder@start"), score("a", 1.5), other)
    rows = re.findall(r"^\| a .*", markdown(scores=scores), re.MULTILINE)
    changes = [re.search(r"\| (\S+) \| – \|$", row).group(1) for row in rows]

    assert changes == ["+0.500", "–"]


def test_intervals_of_scores_and_of_their_changes_stand_beside_them():
    numbers = np.random.default_rng(0).random((2, 100))
    right = (numbers < [[0.5], [0.7]]).astype(float)
    scores = list(full().scores)
    for place, of_score in ((0, right[0]), (2, right[1])):
        items = Items("mean", of_score)
        scores[place] = attrs.evolve(
            scores[place], value=item_score(items), items=items
        )

    low, high = stats.ttest_rel(*(100 * right[::-1])).confidence_interval(0.95)
    gain = 100 * float(right[1].mean() - right[0].mean())
    (row,) = re.findall(r"^\| STS12 .*$", markdown(scores=tuple(scores)), re.MULTILINE)

    assert f"| +{gain:.2f}‡ | {number(low)} to {number(high)} |" in row


def test_an_evaluator_that_scores_an_encoder_twice_has_two_tables():
    plain = score("MR", 60.0, "en")
    white = attrs.evolve(whitened(plain), value=65.0)
    before = attrs.evolve(plain, encoder="en@start", value=50.0)
    white_before = attrs.evolve(white, encoder="en@start", value=52.0)
    scores = (before, white_before, plain, white)
    first, second = run_summaries(changed(scores=scores))

    assert first.note.endswith('in whitening (nothing against {"width": 256})')
    assert second.note.endswith('in whitening ({"width": 256} against nothing)')
    assert [row.cells[0].value for row in first.rows] == [50.0, 60.0]
    assert [row.cells[0].value for row in second.rows] == [52.0, 65.0]

    text = markdown(scores=scores)

    assert "+10.00" in text
    assert "+13.00" in text


def test_there_is_no_change_across_protocols():
    scores = (
        score("a", 1.0, "encoder@start", data="old"),
        score("a", 9.0, data="new"),
    )

    assert "+8.00" not in markdown(scores=scores)
