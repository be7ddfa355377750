"""The report of a study, as text: what stands in it, and that nothing in it is read as markup."""

from __future__ import annotations

import json
import re
from functools import cached_property
from pathlib import Path

import attrs
import pytest
from page_elements import Elements
from sentbed_report.page.markdown import page_markdown
from sentbed_report.page.report_page import page_html
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.exports import to_json
from sentbed_report.study.published_number_config import Published, Reference
from sentbed_report.study.study_data import AxisInfo, CellInfo, StudyData, with_runs
from sentbed_report.study_page.study_report import study_page, write_study_report
from toy_study import study

ATTACK = (
    "</script><script>alert('x')</script>\"'><img src=x onerror=alert(1)>|`*_$\\frac{"
)


@attrs.frozen
class Report:
    """What was written of a study."""

    data: StudyData
    html: str
    markdown: str

    @cached_property
    def page(self):
        return Elements(self.html)


def report_of(directory, data):
    path = write_study_report(directory, data, summarise(data))

    assert path == directory / "report.html"

    return Report(data, path.read_text(), (directory / "report.md").read_text())


def report_without_figures(data):
    """The report without its figures, which take most of the time."""
    summaries = summarise(data)
    page = study_page(data, summaries, summaries)
    sections = [attrs.evolve(section, plots=()) for section in page.sections]
    page = attrs.evolve(page, sections=tuple(sections))
    return Report(data, page_html(page), page_markdown(page))


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    """The report of `study()`."""
    return report_of(tmp_path_factory.mktemp("toy"), study())


def changed(data, cell, seed, **fields):
    """The study with other fields in one run."""

    def change(run):
        if (run.cell, run.seed) != (cell, seed):
            return run

        return attrs.evolve(run, **fields)

    return attrs.evolve(data, cells=with_runs(data.cells, change))


def links_to_runs(report):
    """Addresses of the page's links, without those to items."""
    addresses = [str(element["href"]) for element in report.page.all("a")]
    return [address for address in addresses if not address.startswith("pages/")]


def test_the_page_and_markdown_have_the_sections_of_a_study(toy):
    titles = [
        "results",
        "effects",
        "all-scores",
        "published",
        "figures",
        "power",
        "runs",
        "how-these-numbers-were-made",
        "recipe",
    ]

    assert [heading["id"] for heading in toy.page.all("h2")] == titles

    in_markdown = re.findall(r"^## (.*)$", toy.markdown, re.MULTILINE)

    # Figures are only on the page.
    assert ["-".join(title.lower().split()) for title in in_markdown] == [
        title for title in titles if title != "figures"
    ]

    for text in (toy.page.text, toy.markdown):
        assert "18 of 18 runs finished." in text
        assert "6 cells, 2 axes, 3 seeds" in text
        assert "schema = 1" in text
        assert "mean, 0.05: 88.79 spearman on Avg " in text

    # Results, effects and scores are open, and all else is closed.
    assert len(toy.page.all("details")) == len(titles) - 3

    links = links_to_runs(toy)

    assert len(links) == 18
    assert links[0] == "cells/cell-0-1/seed-1/report.html"
    assert "](<cells/cell-0-1/seed-1/report.html>)" in toy.markdown


def test_columns_of_several_evaluators_say_whose_they_are():
    report = report_without_figures(study(several=True, seeds=(1,)))

    assert "| senteval-transfer, transfer, accuracy: MR |" in report.markdown
    assert [group["colspan"] for group in report.page.all("th", scope="colgroup")] == [
        *("5", "3", "1", "1"),
    ]


def test_hostile_text_is_shown_as_it_is_in_every_place(tmp_path):
    report = report_of(tmp_path, hostile_study())
    page = report.page

    # `Elements` takes a script's content for no element: one that was smuggled in would be a second.
    assert len(page.all("script")) == 1
    assert all(image["src"].startswith("data:") for image in page.all("img"))

    for place in (
        "name",
        "recipe",
        "excluded",
        "reason",
        "axis",
        "error",
        "value",
        "entry",
    ):
        assert f"{place}{ATTACK}" in page.text

    (form,) = page.all("form")
    labels = json.loads(str(form["data-labels"]))

    assert {cell[f"axis{ATTACK}"] for cell in labels.values()} == {
        f"a{ATTACK}",
        f"b{ATTACK}",
    }
    assert any("%3Cscript%3E" in str(link["href"]) for link in page.all("a"))

    outside_fences = re.sub(r"(?ms)^(`{3,})(text|toml)\n.*?^\1$", "", report.markdown)

    assert not re.search(r"(?<!\\)<(script|img)", outside_fences)


def hostile_study():
    """A study in which every text that a stranger may choose is an attack."""
    axis = AxisInfo(f"axis{ATTACK}", (f"a{ATTACK}", f"b{ATTACK}"), (1.0, 100.0))
    other = AxisInfo(f"second{ATTACK}", (f"c{ATTACK}", f"d{ATTACK}"))
    baseline = f"a{ATTACK}, c{ATTACK}"
    data = study(
        (axis, other),
        seeds=(1, 2),
        baseline=baseline,
        name=f"name{ATTACK}",
        recipe=f"recipe{ATTACK}\n```",
        excluded=((f"excluded{ATTACK}", (f"reason{ATTACK}",)),),
        expected={
            f"table{ATTACK}": Published({baseline: {"STS12": 1.0}}, 1.0, f"s{ATTACK}")
        },
    )
    stage = {
        "name": f"stage{ATTACK}",
        "metric": f"m{ATTACK}",
        "validations": [[1, 2.0], [2, 3.0]],
    }
    record = {"stages": [stage], "warnings": [f"warning{ATTACK}"]}
    cells = []
    for cell in data.cells:
        runs = []
        for run in cell.runs:
            scores = tuple(map(hostile_score, run.scores))
            runs.append(attrs.evolve(run, scores=scores, record=record))
        cells.append(
            attrs.evolve(cell, runs=tuple(runs), differences=(f"path{ATTACK}: 1 -> 2",))
        )

    data = attrs.evolve(data, cells=tuple(cells))
    place = Path("cells") / "x'\"><script>" / "seed-1"
    failed = {
        "status": "failed",
        "error": f"error{ATTACK}",
        "scores": (),
        "directory": place,
    }
    return changed(data, data.cells[-1].name, 1, **failed)


def hostile_score(score):
    task = score.task if score.task == "STS12" else f"{score.task}{ATTACK}"
    evaluator = {**score.evaluator_protocol, f"entry{ATTACK}": f"value{ATTACK}"}
    protocol = {"encoder": {}, "evaluator": evaluator}
    return attrs.evolve(
        score, task=task, evaluator=f"{score.evaluator}{ATTACK}", protocol=protocol
    )


def test_a_study_of_which_nothing_has_finished_has_a_report(tmp_path):
    data = study()
    for cell in data.cells:
        for run in cell.runs:
            data = changed(
                data,
                cell.name,
                run.seed,
                status="waiting",
                scores=(),
                record={},
                directory=None,
            )

    report = report_of(tmp_path, data)
    for text in (report.page.text, report.markdown):
        assert "0 of 18 runs finished, 18 waiting." in text
        assert "No run has finished with scores that rank the cells." in text
        assert "mean, 0.05" in text

    assert report.page.all("figure") == []


def test_runs_without_axes_have_no_filter_and_no_effects():
    cells = tuple(CellInfo(cell.name, {}, cell.runs[:1]) for cell in study().cells)
    report = report_without_figures(StudyData("6 runs", (), cells, None, (1,)))

    assert "6 cells, 1 seed" in report.page.text
    assert report.page.all("form") == []
    assert "effects" not in {heading["id"] for heading in report.page.all("h2")}

    results = report.markdown.split("## All scores")[1].split("##")[0]

    assert "One run per row (seed 1)." in results
    assert "±" not in results
    assert "†" not in results


def with_references(data):
    tasks = {"STS12": 70.0, "STS13": 71.0, "STSB": 72.0, "SICKR": 73.0}
    references = {
        "BERT": Reference({**tasks, "AVG/spearman": 71.5}, source="Table 1"),
        "other tasks": Reference({"MR": 81.0}, source="Table 2"),
        "untrained": Reference(cell="first, 0.25"),
    }
    return attrs.evolve(data, references=references)


def test_published_references_are_rows():
    data = with_references(study(seeds=(1,)))
    (summary,) = summarise(data)
    (untrained,) = (
        row.cells[-1].value for row in summary.rows if row.cell == "first, 0.25"
    )
    last = [(reference.name, reference.values[-1]) for reference in summary.references]

    assert last == [("BERT", 71.5), ("untrained", untrained)]

    report = report_without_figures(data)

    assert (
        "| BERT | (Table 1) | 70.00 | 71.00 | 72.00 | 73.00 | 71.50 |"
        in report.markdown
    )
    assert "| untrained" not in report.markdown
    assert len(report.page.all("tfoot")) == 1

    bert, other = json.loads(to_json(data, [summary]))["tables"][0]["references"]

    assert (bert["name"], bert["source"], bert["values"][-1]) == (
        "BERT",
        "Table 1",
        71.5,
    )
    assert other["cell"] == "first, 0.25"
