"""From the difference of two cells to the items that make it: shares, and pages of items."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from sentbed import RunError
from sentbed.protocols import Items
from sentbed_common import item_score
from sentbed_report.item_page.item_page import write_item_pages
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.item_differences import (
    item_differences,
    item_shares,
)
from sentbed_report.study.study_data import AxisInfo
from sentbed_report.study_page.study_report import write_study_report
from toy_study import POOLER, study

FIRST, SECOND = "first, 0.05", "mean, 0.05"


def two_cells(**fields):
    """A study of few cells and seeds, whose report has few figures."""
    axes = (POOLER, AxisInfo("temperature", ("0.05",), (0.05,)))
    return study(axes, seeds=(1,), **fields)


@pytest.mark.parametrize("statistic", ["mean", "pearson", "spearman"])
@pytest.mark.parametrize("weighted", [True, False])
def test_the_shares_of_items_sum_to_the_score(statistic, weighted):
    rng = np.random.default_rng(0)
    gold = rng.normal(size=60).round(1)
    prediction = gold + rng.normal(size=60).round(1)
    groups = np.repeat([0, 1, 2], [10, 20, 30])
    if statistic == "mean":
        prediction = None

    items = Items(statistic, gold, prediction, groups, weighted)

    assert item_shares(items).sum() == pytest.approx(item_score(items))


def test_the_shares_of_other_statistics_say_which_items_move_it_and_sum_to_0():
    gold = np.array([1.0, 1, 0, 0, 1, 0])
    items = Items("f1", gold, np.array([1.0, 0, 0, 1, 1, 0]))
    shares = item_shares(items)

    assert shares.sum() == pytest.approx(0, abs=1e-6)
    assert shares[0] > 0 > shares[1]


def test_items_make_the_difference_of_two_cells_the_largest_first():
    data = study()
    (summary,) = summarise(data)
    items = item_differences([summary], FIRST, SECOND, "STSB")
    place = [column.task for column in summary.columns].index("STSB")
    means = {row.cell: row.cells[place].value or 0.0 for row in summary.rows}

    assert items["share"].sum() == pytest.approx(means[SECOND] - means[FIRST])

    sizes = items["share"].abs()

    assert list(sizes) == sorted(sizes, reverse=True)
    assert sorted(items["item"]) == list(range(200))

    run = next(cell for cell in data.cells if cell.name == FIRST).runs[0]
    score = next(score for score in run.scores if score.task == "STSB")
    np.testing.assert_array_equal(items.sort_values("item")["gold"], score.items.x)


def test_a_task_or_a_cell_without_items_is_an_error_with_the_names_there_are():
    with pytest.raises(
        RunError, match=r"no score of the task `STSb` has items\. Did you mean `STSB`"
    ):
        item_differences(summarise(study()), FIRST, SECOND, "STSb")

    with pytest.raises(RunError, match="no cell `none` has items of the task `STSB`"):
        item_differences(summarise(study()), FIRST, "none", "STSB")


def test_each_task_with_items_has_a_page_that_the_report_leads_to(tmp_path):
    report = write_study_report(tmp_path, two_cells(several=True)).read_text()
    pages = {f"pages/{path.name}" for path in (tmp_path / "pages").iterdir()}

    assert len(pages) == 4 + 2

    links = re.findall(r'<a href="([^"#]+)#second=([^"]+)"', report)

    assert {page for page, _ in links} == pages
    assert ("pages/senteval-sts-stsb.html", "first%2C%200.05") in links


def content_of(html):
    """Return the numbers in an item page."""
    (content,) = re.findall(
        r'<script type="application/json" id="content">(.*?)</script>', html
    )
    return json.loads(content)


def test_a_page_has_the_predictions_and_shares_of_the_cells(tmp_path):
    data = study(name="</script><script>alert(1)</script>")
    (summary,) = summarise(data)
    (linked,) = write_item_pages(tmp_path, data, [summary])
    page = (tmp_path / linked.columns[2].address).read_text()

    assert "items of STSB (spearman)" in page
    assert "<script>alert" not in page

    document = content_of(page)

    assert document["left"] == 0

    first, *_ = document["cells"]

    assert first["name"] == data.baseline

    shares = {cell["name"]: sum(cell["shares"]) for cell in document["cells"]}
    means = {row.cell: row.cells[2].value for row in summary.rows}

    assert shares == pytest.approx(means, abs=0.01)
