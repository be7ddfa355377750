"""The report of a study, as text: what stands in it, and that nothing in it is read as markup."""

from __future__ import annotations

import json
import re
from functools import cached_property
from html.parser import HTMLParser
from pathlib import Path
from statistics import fmean, stdev

import attrs
import numpy as np
import pytest
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.exports import to_json
from sentbed_report.study.published_number_config import Published, Reference
from sentbed_report.study.study_data import AxisInfo, CellInfo, CellRun, StudyData
from sentbed_report.study_page import write_study_report
from sentbed_report.study_page.axis_effect_plots import effects_plot, number_plots
from sentbed_report.study_page.cell_plots import geometry_plots, learning_curves, ranking_plot
from sentbed_report.study_page.effect_tables import views_of
from sentbed_report.study_page.line_styles import LINES, chosen, spans_powers, with_sizes
from toy_study import POOLER, TEMPERATURE, study

ATTACK = "</script><script>alert('x')</script>\"'><img src=x onerror=alert(1)>|`*_$\\frac{"

SIZES = AxisInfo("model", ("opt-125m", "opt-1.3b", "opt-6.7b"))


class Page(HTMLParser):
    """Elements with their attributes and text; fails where a tag is not closed."""

    VOID = frozenset({"meta", "link", "input", "wbr", "img", "br"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] not in ("style", "script"):
            self.texts.append(data)

    @property
    def text(self) -> str:
        return "".join(self.texts)

    def all(self, tag: str, **attributes: str) -> list[dict[str, str | None]]:
        return [a for t, a in self.elements if t == tag and attributes.items() <= a.items()]


@attrs.frozen
class Report:
    """What was written of a study."""

    data: StudyData
    html: str
    markdown: str

    @cached_property
    def page(self) -> Page:
        return Page(self.html)


def report_of(directory: Path, data: StudyData) -> Report:
    path = write_study_report(directory, data, summarise(data, resamples=50))
    assert path == directory / "report.html"
    return Report(data, path.read_text(), (directory / "report.md").read_text())


@pytest.fixture
def write(tmp_path: Path):
    def written(data: StudyData) -> tuple[Page, str]:
        found = report_of(tmp_path, data)
        return found.page, found.markdown

    return written


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """The report of `study()`."""
    return report_of(tmp_path_factory.mktemp("toy"), study())


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """The report of a study of several evaluators."""
    return report_of(tmp_path_factory.mktemp("several"), study(several=True))


def changed(data: StudyData, cell: str, seed: int, **fields: object) -> StudyData:
    """The study with other fields in one run."""
    cells = [
        attrs.evolve(
            c,
            runs=tuple(attrs.evolve(r, **fields) if (c.name, r.seed) == (cell, seed) else r for r in c.runs),
        )
        for c in data.cells
    ]
    return attrs.evolve(data, cells=tuple(cells))


def test_the_page_has_everything_of_a_study(several: Report) -> None:
    page, markdown = several.page, several.markdown
    for text in (page.text, markdown):
        assert "18 of 18 runs finished." in text
        assert "6 cells, 2 axes, 3 seeds" in text
        assert "decoder, 0.05" in text
        assert "senteval-transfer" in text
        assert "Holm's correction" in text
        assert "1, 2, 3" in text
        assert "schema = 1" in text
    headings = re.findall(r"<h2 id=\"([\w-]+)\"", "".join(f'<h2 id="{a["id"]}"' for a in page.all("h2")))
    assert headings == [
        "results",
        "rank-groups",
        "power",
        "published",
        "effects",
        "factors",
        "demonstrations",
        "plots",
        "runs",
        "recipe",
    ]
    # A line plot a table, the plane, the demonstrations, the curves; the effects of a table each; and the
    # groups of a table each, but of further metrics.
    assert len(page.all("svg")) == 4 + 1 + 1 + 1 + 4 + 3
    links = [a["href"] for a in page.all("a")]
    assert len(links) == 18
    assert links[0] == "cells/cell-0-1/seed-1/report.html"
    assert "[finished](<cells/cell-0-1/seed-1/report.html>)" in markdown


def test_nothing_is_loaded_from_elsewhere_and_only_its_own_scripts_run(toy: Report) -> None:
    page = toy.page
    assert [a for t, a in page.elements if a.get("src") or (t == "link" and a["href"] != "data:,")] == []
    (policy,) = page.all("meta", **{"http-equiv": "Content-Security-Policy"})
    assert str(policy["content"]).startswith("default-src 'none'")
    assert str(policy["content"]).count("'sha256-") == len(page.all("script")) == 2


def test_numbers_are_means_and_deviations_over_the_seeds(toy: Report) -> None:
    page, markdown = toy.page, toy.markdown
    for cell in toy.data.cells:
        values = [next(s.value for s in run.scores if s.task == "STSB") for run in cell.runs]
        row = next(line for line in markdown.splitlines() if line.startswith(f"| {cell.name} "))
        shown = row.split(" | ")[3]
        mean, deviation = re.findall(r"\d+\.\d\d", shown)[:2]
        assert float(mean) == pytest.approx(fmean(values), abs=0.00501)
        assert float(deviation) == pytest.approx(stdev(values), abs=0.00501)
        sortable = [float(a["data-value"] or 0) for a in page.all("td") if "data-value" in a]
        assert any(value == pytest.approx(fmean(values)) for value in sortable)


def test_the_best_is_bold_the_second_underlined_and_differences_are_marked(toy: Report) -> None:
    summary = summarise(toy.data, resamples=50)[0]
    page, html = toy.page, toy.html
    means = sorted((row.cells[-1].mean for row in summary.rows), reverse=True)
    assert f"<b>{means[0]:.2f}</b>" in html
    assert f'<span class="second">{means[1]:.2f}</span>' in html
    marks = page.all("span", tabindex="0")
    significant = [c.judged for row in summary.rows for c in row.cells if c.judged and c.judged.significant]
    assert len(marks) == len(significant) > 5
    judged = significant[0]
    assert f"−{abs(judged.difference):.2f} against mean, 0.05" in str(marks[0]["title"])
    assert f"95 % interval −{abs(judged.low):.2f} to −{abs(judged.high):.2f}" in str(marks[0]["title"])
    assert "Holm" in str(marks[0]["title"])
    assert {m["class"] for m in marks} == {"mark worse"}


def test_where_lower_is_better_a_lower_number_is_marked_as_better() -> None:
    data = study(several=True, baseline="first, 0.25")
    views = views_of(data, summarise(data, resamples=10))
    for table in views.tables:
        entries = [entry for line in table.rows for entry in line.entries if entry.sign]
        assert {entry.kind for entry in entries} == {"better"}


def test_published_numbers_stand_beside_ours(write) -> None:
    data = study(
        expected={"Table 5": Published({"mean, 0.05": {"STSB": 50.0}}, 0.5, hardware="a TPU", hours=2.0)}
    )
    ours = fmean(next(s.value for s in run.scores if s.task == "STSB") for run in data.cells[4].runs)
    page, markdown = write(data)
    assert f"vs 50.00 (+{ours - 50:.2f})" in page.text
    assert f"published 50.00 (+{ours - 50:.2f})" in markdown
    assert "not met" in page.text
    assert "Table 5: about 2 h a cell on a TPU." in page.text
    assert "Table 5: about 2 h a cell on a TPU." in markdown


def test_hostile_text_is_shown_as_it_is_in_every_place(write, tmp_path: Path) -> None:
    axis = AxisInfo(f"axis{ATTACK}", (f"a{ATTACK}", f"b{ATTACK}"), (1.0, 100.0))
    data = study(
        (axis, AxisInfo(f"second{ATTACK}", (f"c{ATTACK}", f"d{ATTACK}"))),
        seeds=(1, 2),
        baseline=f"a{ATTACK}, c{ATTACK}",
        several=True,
        name=f"name{ATTACK}",
        recipe=f"recipe{ATTACK}\n```",
        excluded=((f"excluded{ATTACK}", (f"reason{ATTACK}",)),),
        expected={f"table{ATTACK}": Published({f"a{ATTACK}, c{ATTACK}": {"STS12": 1.0}}, 1.0, f"s{ATTACK}")},
    )
    last = data.cells[-1]
    cells = []
    for cell in data.cells:
        runs = [
            attrs.evolve(
                run,
                scores=tuple(
                    attrs.evolve(
                        score,
                        task=score.task if score.task == "STS12" else f"{score.task}{ATTACK}",
                        evaluator=f"{score.evaluator}{ATTACK}",
                        protocol={
                            "encoder": {},
                            "evaluator": {**score.evaluator_protocol, f"entry{ATTACK}": f"value{ATTACK}"},
                        },
                    )
                    for score in run.scores
                ),
                record={
                    "stages": [
                        {
                            "name": f"stage{ATTACK}",
                            "metric": f"m{ATTACK}",
                            "validations": [[1, 2.0], [2, 3.0]],
                        }
                    ],
                    "ranking": {"evaluator": f"r{ATTACK}", "rows": [{"rank": 1, "score": 3.0}]},
                },
            )
            for run in cell.runs
        ]
        cells.append(attrs.evolve(cell, runs=tuple(runs), differences=(f"path{ATTACK}: 1 -> 2",)))
    data = attrs.evolve(data, cells=tuple(cells))
    place = Path("cells") / "x'\"><script>" / "seed-1"
    data = changed(data, last.name, 1, status="failed", error=f"error{ATTACK}", scores=(), directory=place)
    page, markdown = write(data)
    # `Page` takes a script's content for no element: one that was smuggled in would be a third.
    assert len(page.all("script")) == 2
    assert page.all("img") == []
    assert not [a for _, a in page.elements if any(name.startswith("on") for name in a)]
    for what in ("name", "recipe", "excluded", "reason", "axis", "error", "path", "value", "entry"):
        assert f"{what}{ATTACK}" in page.text
    rows = [json.loads(str(a["data-labels"])) for a in page.all("tr") if a.get("data-labels")]
    assert {row[f"axis{ATTACK}"] for row in rows} == {f"a{ATTACK}", f"b{ATTACK}"}
    assert any("%3Cscript%3E" in str(a["href"]) for a in page.all("a"))
    outside = re.sub(r"(?ms)^(`{3,})(text|toml)\n.*?^\1$", "", markdown)
    assert "<script>alert" not in re.sub(r"\\[<>]", "", outside)
    assert not re.search(r"(?<!\\)<(script|img)", outside)


def test_runs_that_wait_fail_or_stopped_are_named(write) -> None:
    data = study()
    nothing = {"scores": (), "record": {}, "seconds": None}
    data = changed(data, "first, 0.01", 1, status="failed", error="Out of memory.\nAt step 3.", scores=())
    data = changed(data, "first, 0.05", 2, status="running", **nothing)
    data = changed(data, "first, 0.05", 3, status="waiting", directory=None, **nothing)
    page, markdown = write(data)
    for text in (page.text, markdown):
        assert "15 of 18 runs finished, 1 waiting, 1 running, 1 failed." in text
        assert "Out of memory.\nAt step 3." in text
        assert "failed, 2 of 3" in text
    assert len(page.all("a")) == 15 + 2  # the failed run twice: above, and among all runs
    assert page.all("p", **{"class": "status failed"})


def test_a_study_of_which_nothing_has_finished_has_a_report(write) -> None:
    data = study()
    for cell in data.cells:
        for run in cell.runs:
            data = changed(data, cell.name, run.seed, status="waiting", scores=(), record={}, directory=None)
    page, markdown = write(data)
    for text in (page.text, markdown):
        assert "0 of 18 runs finished, 18 waiting." in text
        assert "No run has finished with scores yet." in text
        assert "mean, 0.05" in text
    assert page.all("svg") == []


def test_one_seed_has_no_deviation(write) -> None:
    page, markdown = write(study(seeds=(7,)))
    table = markdown.split("## Results")[1].split("## Published")[0]
    assert "±" not in table
    assert "seed 7" in page.text
    assert "One run a row." in page.text


def test_without_a_baseline_nothing_is_marked(write) -> None:
    page, markdown = write(study(baseline=None))
    assert page.all("span", tabindex="0") == []
    assert "†" not in page.text + markdown
    assert "against the first cell" in page.text


def test_runs_without_axes_are_a_table(write) -> None:
    cells = study(several=True).cells
    runs = tuple(CellInfo(cell.name, {}, cell.runs) for cell in cells)
    page, markdown = write(StudyData("6 runs", (), runs, None, (1, 2, 3)))
    assert "6 cells, 3 seeds" in page.text
    assert page.all("fieldset") == []
    assert "## One factor" not in markdown
    # The plane, the demonstrations, the curves; and the groups of a table each.
    assert len(page.all("svg")) == 3 + 3


def test_scores_of_unlike_protocols_are_in_tables_of_their_own(write) -> None:
    data = study()
    for seed in (1, 2, 3):
        run = next(run for run in data.cells[0].runs if run.seed == seed)
        other = tuple(
            attrs.evolve(s, protocol={"encoder": {}, "evaluator": {**s.evaluator_protocol, "data": "other"}})
            for s in run.scores
        )
        data = changed(data, run.cell, seed, scores=other)
    page, markdown = write(data)
    for text in (page.text, markdown):
        assert "unlike other tables in data" in text
    assert markdown.count("| cell | STS12 |") == 2
    regions = [a["aria-label"] for a in page.all("div", role="region")]
    assert len(set(regions)) == len(regions)


@pytest.mark.slow
def test_regions_of_a_page_have_names_of_their_own(write) -> None:
    data = study(several=True)
    for cell in data.cells:
        for run in cell.runs:
            more = (
                attrs.evolve(score, protocol={"encoder": {}, "evaluator": {"id": "other"}})
                for score in run.scores
            )
            data = changed(data, run.cell, run.seed, scores=(*run.scores, *more))
    page, _ = write(data)
    regions = [a["aria-label"] for a in page.all("div", role="region")]
    assert len(set(regions)) == len(regions) > 8


def test_what_is_not_finite_is_not_called_unmeasured(write, tmp_path: Path) -> None:
    data = study(seeds=(1,))
    run = data.cells[0].runs[0]
    scores = tuple(attrs.evolve(s, value=float("nan"), items=None) for s in run.scores)
    page, markdown = write(changed(data, run.cell, 1, scores=scores))
    html = (tmp_path / "report.html").read_text()
    assert html.count('<span class="none">not finite</span>') == 5
    (row,) = [line for line in markdown.splitlines() if line.startswith("| first, 0.01 | not")]
    assert row == "| first, 0.01 | not finite | not finite | not finite | not finite | not finite |"
    assert "not finite ±" not in page.text + markdown


def test_the_deviation_stands_before_the_mark_as_in_other_forms(toy: Report) -> None:
    assert re.search(r"\d ± \d\.\d\d[†‡] \|", toy.markdown)
    assert not re.search(r"[†‡]\*{0,2} ±", toy.markdown)
    assert re.search(r'<small>± \d\.\d\d<span class="mark', toy.html)
    assert not re.search(r"[†‡]</span><small>", toy.html)


def test_what_a_mark_says_is_its_name(toy: Report) -> None:
    marks = toy.page.all("span", role="note")
    assert len(marks) > 5
    assert {str(mark["aria-label"])[0] for mark in marks} <= {"†", "‡"}
    assert all(str(mark["aria-label"])[2:] == mark["title"] for mark in marks)


def test_each_axis_of_the_effects_is_a_group_of_rows_with_a_name(toy: Report) -> None:
    heads = toy.page.all("th", scope="rowgroup")
    assert [head["rowspan"] for head in heads] == ["2", "3"]
    assert not re.search(r"<th[^>]*></th>", toy.html)
    effects = toy.html.split('<table class="effects">')[1].split("</table>")[0]
    assert effects.count("<tbody>") == 2
    assert effects.count('<th scope="row">') == 5


def test_why_something_was_not_judged_is_said_as_in_other_forms(write) -> None:
    data = study(seeds=(1,))
    for cell in data.cells:
        (run,) = cell.runs
        data = changed(data, cell.name, 1, scores=tuple(attrs.evolve(s, items=None) for s in run.scores))
    page, markdown = write(data)
    for text in (page.text, markdown):
        assert (
            "Not judged everywhere (first, 0.01; first, 0.05; first, 0.25; mean, 0.01; mean, 0.25): there"
            in text
        )
        assert "Not compared" not in text


def test_what_is_marked_is_the_best_of_what_has_finished(write, toy: Report) -> None:
    assert "of what has finished" not in toy.page.text + toy.markdown
    data = changed(study(), "mean, 0.05", 2, status="failed", scores=())
    page, markdown = write(data)
    assert "underlined: the second best, of what has finished." in page.text
    assert "italics: the second best, of what has finished." in markdown
    (row,) = [
        line for line in markdown.splitlines() if line.startswith("| mean, 0.05 (baseline; failed, 2 of 3) |")
    ]
    assert "*" not in row


def test_a_table_that_was_made_before_is_taken(tmp_path: Path) -> None:
    data = study()
    summaries = [attrs.evolve(one, evaluator="made-before") for one in summarise(data, resamples=10)]
    write_study_report(tmp_path, data, summaries)
    assert "made-before" in (tmp_path / "report.md").read_text()


def test_a_heat_map_is_darkest_where_the_mean_is_best() -> None:
    data = study(several=True)
    maps = views_of(data, summarise(data, resamples=10)).heat_maps
    assert [heat.title.split(":")[0] for heat in maps] == [
        "senteval-sts",
        "senteval-transfer, transfer",
        "geometry, wang-isola",
        "geometry, wang-isola",
    ]
    for heat, best in zip(maps, (max, max, min, min), strict=True):
        cells = [cell for _, line in heat.rows for cell in line]
        assert len(cells) == 6
        darkest = max(cells, key=lambda cell: cell.heat or 0)
        assert darkest.text == best((c.text for c in cells), key=lambda t: float(t.replace("−", "-")))
        assert heat.row_axis == "temperature"


def test_a_combination_that_has_not_run_is_a_gap_in_the_heat_map(write) -> None:
    data = study()
    data = attrs.evolve(data, cells=data.cells[1:])
    heat = views_of(data, summarise(data, resamples=10)).heat_maps[0]
    assert [cell.heat is None for _, line in heat.rows for cell in line] == [True] + [False] * 5
    page, _ = write(data)
    assert len([a for a in page.all("td") if "--heat" in str(a.get("style"))]) == 5


def test_curves_are_means_over_the_seeds_at_steps_that_all_reached() -> None:
    data = study(seeds=(1, 2))
    cut = {"stages": [{"name": "nli", "metric": "dev", "validations": [[25, 10.0], [50, 20.0]]}]}
    full = {"stages": [{"name": "nli", "metric": "dev", "validations": [[25, 20.0], [50, 40.0], [75, 1.0]]}]}
    cell = attrs.evolve(
        data.cells[0],
        runs=tuple(attrs.evolve(r, record=f) for r, f in zip(data.cells[0].runs, (cut, full), strict=True)),
    )
    (plot,) = learning_curves(attrs.evolve(data, cells=(cell,)), "v")
    assert "first, 0.01: 30.00 at step 50" in plot.svg
    assert plot.title == "Validation in stage nli"


@pytest.mark.slow
def test_many_cells_are_drawn_by_a_rule_that_is_said(write) -> None:
    numbers = tuple(range(1, 17))
    axes = (POOLER, AxisInfo("batch", tuple(map(str, numbers)), numbers))
    data = study(axes, seeds=(1,), baseline="mean, 3", several=True, expected={})
    curves, ranking = learning_curves(data, "v"), ranking_plot(data, "d")
    assert len(data.cells) == 32
    for plot in (*curves, ranking):
        assert plot is not None
        assert f"Of 32 cells {LINES} are drawn: the baseline" in plot.caption
        assert "mean, 3" in plot.svg
    (geometry,) = geometry_plots(data, "g")
    assert "32 points" in geometry.caption
    page, markdown = write(data)
    rows = [a["data-cell"] for a in page.all("tr") if "data-cell" in a]
    # Four tables, the rank groups of two, the demonstrations found and the runs have every cell.
    assert len(rows) == 8 * 32
    assert set(rows) == {cell.name for cell in data.cells}
    assert markdown.count("| mean, 3 ") == 8
    assert page.all("div", **{"class": "scroll long"})


def test_the_cells_drawn_are_the_baseline_and_the_best() -> None:
    worth = {f"cell {i}": float(i) for i in range(20)}
    assert chosen(worth, "cell 3", limit=3) == ("cell 3", "cell 18", "cell 19")
    assert chosen({**worth, "bad": float("nan")}, None, limit=2) == ("cell 18", "cell 19")
    assert len(chosen(worth, None, limit=30)) == 20


@pytest.mark.parametrize(
    ("labels", "numbers"),
    [
        (("opt-125m", "opt-1.3b", "6.7B"), (125e6, 1.3e9, 6.7e9)),
        (("pythia 70M", "pythia 160M deduped"), (70e6, 160e6)),
        (("base", "opt-1.3b"), None),
        (("v1.5", "v2"), None),
        (("3 bits", "7 bits"), None),
        (("bert-1.3b", "opt-1.3b"), None),
    ],
)
def test_a_model_size_is_read_from_labels_that_all_name_one(
    labels: tuple[str, ...], numbers: tuple[float, ...] | None
) -> None:
    assert with_sizes(AxisInfo("model", labels)).numbers == (
        None if numbers is None else pytest.approx(numbers)
    )


def test_numbers_of_a_numeric_axis_are_left_alone() -> None:
    assert with_sizes(TEMPERATURE) is TEMPERATURE


@pytest.mark.parametrize(
    ("numbers", "powers"),
    [
        ((0.01, 0.05, 0.25), True),
        ((64, 128, 256), True),
        ((125e6, 1.3e9, 6.7e9), True),
        ((1, 2, 3, 4), False),
        ((0, 100), False),
        ((-1, 100), False),
        ((0.1, 0.2), False),
        ((5,), False),
    ],
)
def test_a_scale_is_logarithmic_where_numbers_span_powers(numbers: tuple[float, ...], powers: bool) -> None:
    assert spans_powers(numbers) is powers


def test_scores_are_drawn_over_model_size_and_over_every_axis_of_numbers() -> None:
    data = study((SIZES, TEMPERATURE, POOLER), seeds=(1, 2), baseline=None, expected={})
    (summary,) = summarise(data, resamples=10)
    plots = number_plots(data, summary, "n")
    assert [plot.title.rpartition(" by ")[2] for plot in plots] == ["model", "temperature"]
    sizes, _ = plots
    assert "opt-1.3b" in sizes.svg
    mean = fmean(r.cells[-1].mean or 0 for r in summary.rows if r.labels["model"] == "opt-1.3b")
    assert f"1.3e+09: {mean:.2f}" in sizes.svg


def test_lines_beyond_the_colours_are_thin_behind_their_mean() -> None:
    batch = AxisInfo("batch", tuple("abcdefgh"))
    data = study((batch, TEMPERATURE), seeds=(1,), baseline=None, expected={})
    (summary,) = summarise(data, resamples=10)
    (plot,) = number_plots(data, summary, "n")
    assert plot.caption.startswith("Thin: cells that differ in temperature only")


def test_the_effects_plot_tells_each_label() -> None:
    data = study()
    (summary,) = summarise(data, resamples=10)
    plot = effects_plot(data, summary, "e")
    assert plot is not None
    values = [row.cells[-1].mean or 0 for row in summary.rows if row.labels["pooler"] == "first"]
    assert f"pooler first: {fmean(values):.2f}" in plot.svg


def test_plots_of_records_that_hold_something_else_are_left_out() -> None:
    records = (
        {"stages": "none", "ranking": []},
        {"stages": [1, {"validations": [[1], "ab", [1, None], [2, float("nan")]]}], "ranking": {"rows": 3}},
        {"stages": None, "ranking": {"rows": [{"rank": 1, "score": None}]}},
    )
    runs = tuple(CellRun("a", i, "finished", record=record) for i, record in enumerate(records))
    data = StudyData("s", (), (CellInfo("a", {}, runs),), None, (0, 1, 2))
    assert learning_curves(data, "v") == ()
    assert ranking_plot(data, "d") is None
    assert geometry_plots(data, "g") == ()


def test_geometry_is_the_mean_of_a_cell_over_its_seeds() -> None:
    data = study(several=True)
    (plot,) = geometry_plots(data, "g")
    cell = data.cells[0]
    found = {
        metric: np.mean([s.value for run in cell.runs for s in run.scores if s.metric == metric])
        for metric in ("alignment", "uniformity")
    }
    expected = f"first, 0.01: {found['alignment']:.3f}, {found['uniformity']:.3f}".replace("-", "−")
    assert expected in plot.svg


def test_points_are_coloured_by_the_score_of_a_task() -> None:
    data = study(several=True)
    (plain,) = geometry_plots(data, "g")
    # The plane's own scores have the same task.
    (coloured,) = geometry_plots(attrs.evolve(data, colour="STSB"), "g")
    assert coloured.caption == f"{plain.caption} Colour: the score of STSB."
    means = {
        cell.name: fmean(
            s.value for run in cell.runs for s in run.scores if (s.task, s.metric) == ("STSB", "spearman")
        )
        for cell in data.cells
    }
    # Viridis: the least is its first colour, the greatest its last.
    assert min(means.values()) < max(means.values())
    fills = re.findall(r"fill: (#[0-9a-f]{6})", coloured.svg)
    assert {"#440154", "#fde725"} <= set(fills)
    assert not {"#440154", "#fde725"} & set(re.findall(r"#[0-9a-f]{6}", plain.svg))
    (without,) = geometry_plots(attrs.evolve(data, colour="none"), "g")
    assert without.svg == plain.svg


def test_the_page_has_ranks_as_superscripts(write) -> None:
    page, markdown = write(attrs.evolve(study(seeds=(1,)), ranks=("pooler",)))
    marks = [a for a in page.all("sup") if a.get("class") == "rank"]
    # Six cells in four columns of STS and one of transfer tasks, and the average.
    assert len(marks) >= 6 * 4
    assert "Superscripts: the rank in a column, among rows of the same pooler" in page.text
    assert "¹" in markdown


def test_the_same_study_gives_the_same_page(tmp_path: Path, toy: Report) -> None:
    again = report_of(tmp_path, study())
    assert (again.html, again.markdown) == (toy.html, toy.markdown)


def test_what_cannot_be_compared_is_named_in_both_forms(write) -> None:
    """A label that cannot run keeps its axis, and no mean is over other cells than the one beside it."""
    data = study()
    poolers = AxisInfo("pooler", (*POOLER.labels, "decoder"))
    out = tuple((f"decoder, {label}", ("`decoder` needs a decoder.",)) for label in TEMPERATURE.labels)
    page, markdown = write(attrs.evolve(data, axes=(poolers, TEMPERATURE), excluded=out))
    why = "pooler: no mean of decoder: left out of the study: `decoder` needs a decoder."
    assert why in page.text
    assert why.replace("`", r"\`") in markdown
    rows = [line.split(" | ") for line in markdown.splitlines() if line.startswith("| pooler |")]
    assert [(row[1], row[3:]) for row in rows[:3]] == [
        ("first", ["3", rows[0][4], "3 |"]),
        ("mean", ["3", "reference", " |"]),
        ("decoder", ["0", "–", "0 |"]),
    ]
    missing = "; ".join(f"decoder, {label}" for label in TEMPERATURE.labels)
    said = f"Mean of one cell, of the same combinations of everything else everywhere. Not shown: {missing}: "
    assert said in page.text
    assert said in markdown


def test_a_degenerate_number_is_named_below_its_table_in_both_forms(write) -> None:
    data = study()
    run = data.cells[0].runs[0]
    (first, *others) = run.scores
    said = attrs.evolve(first, degenerate="the vectors have collapsed <b>")
    page, markdown = write(changed(data, run.cell, 1, scores=(said, *others)))
    sentence = (
        f"◇ degenerate, neither ranked nor tested ({run.cell}: {first.task}): the vectors have collapsed <b> "
        "(seed 1)."
    )
    assert sentence in page.text
    assert sentence.replace("<b>", r"\<b\>") in markdown
    notes = page.all("span", **{"class": "degenerate"})
    assert {note["title"] for note in notes} == {
        "the vectors have collapsed <b> (seed 1)",
        f"it includes {first.task}, where the score is degenerate (seed 1)",
    }
    said_of_means = f"Left out of the means, since the number is degenerate: {run.cell}."
    assert (said_of_means in page.text, said_of_means in markdown) == (True, True)
    (row,) = [line for line in markdown.splitlines() if line.startswith(f"| {run.cell} | ") and "◇" in line]
    assert row.split(" | ")[1].endswith("◇")


def test_each_table_of_the_page_has_its_legend(several: Report) -> None:
    page, markdown = several.page, several.markdown
    tables = len(page.all("table", **{"class": "results sortable"}))
    assert tables > 1
    assert page.text.count("Bold: the best of a column") == tables
    assert markdown.count("Bold: the best of a column") == tables
    assert page.text.count("† p < 0.05, ‡ p < 0.01, against mean, 0.05.") > 1


def test_the_head_says_model_pooler_and_loss_but_not_what_cells_differ_in(write) -> None:
    recipe = """
    [encoder]
    backbone = { use = "bert", model = "pkg:a/b" }
    pooler = { use = "mean" }
    [[stage]]
    name = "nli"
    loss = { use = "info-nce" }
    """
    page, markdown = write(study(recipe=recipe))
    assert all("encoder.pooler.use" in line for cell in study().cells for line in cell.differences)
    assert [line for line in markdown.splitlines() if line.startswith("- ")][:3] == [
        "- model: bert, pkg:a/b",
        "- loss: info-nce",
        "- pooler: first · mean",
    ]
    assert "model\nbert, pkg:a/b" in page.text.replace("modelbert", "model\nbert")


def test_the_head_does_not_say_a_value_of_an_axis_of_which_one_label_alone_has_cells(write) -> None:
    recipe = """
    [encoder]
    pooler = { use = "decoder" }
    """
    whole = study(recipe=recipe)
    cells = tuple(
        attrs.evolve(cell, differences=()) for cell in whole.cells if cell.labels["pooler"] == "first"
    )
    pooler = AxisInfo("pooler", ("first", "decoder"), paths=("encoder.pooler.use",))
    out = (("decoder, 0.01", ("`decoder` needs a decoder.",)),)
    data = attrs.evolve(whole, cells=cells, axes=(pooler, TEMPERATURE), baseline="first, 0.05", excluded=out)
    page, markdown = write(data)
    head = [line for line in markdown.splitlines() if line.startswith("- ")]
    assert [line for line in head if "pooler" in line] == ["- pooler: first · decoder"]
    assert any(line.startswith("- left out: decoder, 0.01: ") for line in head)
    assert "left out" in page.text


def with_references(data: StudyData) -> StudyData:
    tasks = {"STS12": 70.0, "STS13": 71.0, "STSB": 72.0, "SICKR": 73.0}
    references = {
        "BERT": Reference({**tasks, "AVG/spearman": 71.5}, source="Table 1"),
        "other tasks": Reference({"MR": 81.0}, source="Table 2"),
        "untrained": Reference(cell="first, 0.25"),
    }
    return attrs.evolve(data, references=references)


def test_published_references_are_rows_and_all_references_dashed_lines(write) -> None:
    data = with_references(study())
    (summary,) = summarise(data, resamples=10)
    (own,) = (row.cells[-1].mean for row in summary.rows if row.cell == "first, 0.25")
    assert [(one.name, one.values[-1]) for one in summary.references] == [("BERT", 71.5), ("untrained", own)]
    (plot,) = number_plots(data, summary, "n")
    assert plot.svg.count("stroke-dasharray") == 2 * 2  # each in the plot and in the legend
    assert plot.caption.startswith(f"Dashed: BERT 71.50 (Table 1); untrained {own:.2f} (this study).")
    page, markdown = write(data)
    assert "| BERT (Table 1) | 70.00 | 71.00 | 72.00 | 73.00 | 71.50 |" in markdown
    assert "| untrained" not in markdown
    assert len(page.all("tfoot")) == 1


def test_the_cells_of_references_are_no_points_of_a_line() -> None:
    data = study()
    (before,) = number_plots(data, summarise(data, resamples=10)[0], "n")
    cells = {name: Reference(cell=name) for name in ("first, 0.25", "mean, 0.25")}
    data = attrs.evolve(data, references=cells)
    (after,) = number_plots(data, summarise(data, resamples=10)[0], "n")
    assert "0.25: " in before.svg
    assert "0.25: " not in after.svg.partition("Dashed")[0]


def test_an_average_over_other_tasks_has_no_reference() -> None:
    data = attrs.evolve(
        study(),
        references={"BERT": Reference({"STS12": 70.0, "AVG/spearman": 71.5}), "x": Reference({"AVG": 1})},
    )
    (summary,) = summarise(data, resamples=10)
    assert [(one.name, one.values) for one in summary.references] == [
        ("BERT", (70.0, None, None, None, None))
    ]


def test_the_references_of_a_study_are_in_its_results() -> None:
    data = with_references(study())
    tables = json.loads(to_json(data, summarise(data, resamples=10)))["tables"]
    bert, untrained = tables[0]["references"]
    assert (bert["name"], bert["source"], bert["values"][-1]) == ("BERT", "Table 1", 71.5)
    assert untrained["cell"] == "first, 0.25"


def searched_study() -> StudyData:
    """Two sizes, each without and with a search; the candidates score 50, 60, ..., the prompt alone 65."""
    method = AxisInfo("method", ("PromptEOL", "PromptEOL+ICL"))
    data = study((SIZES, method), seeds=(1,), baseline=None, expected={}, excluded=())
    rows = [
        {"rank": i, "sentence": f"Sentence {i}.", "word": f"W{i}", "score": 100.0 - 10 * i}
        for i in range(1, 6)
    ]
    rows.insert(3, {"rank": None, "sentence": "no demonstration", "word": "", "score": 65.0})
    record = {"ranking": {"evaluator": "senteval-sts", "rows": rows}}
    cells = [
        attrs.evolve(cell, runs=tuple(attrs.evolve(run, record=record) for run in cell.runs))
        if cell.labels["method"] == "PromptEOL+ICL"
        else cell
        for cell in data.cells
    ]
    return attrs.evolve(data, cells=tuple(cells))


def test_a_study_of_searches_has_the_columns_of_prompteols_table_4(write) -> None:
    data = searched_study()
    (summary,) = summarise(data, resamples=10)
    means = {row.cell: row.cells[-1].mean for row in summary.rows}
    page, markdown = write(data)
    for size in SIZES.labels:
        gain = means[f"{size}, PromptEOL+ICL"] - means[f"{size}, PromptEOL"]
        said = f"{abs(gain):.2f} |"
        (line,) = [
            line
            for line in markdown.replace("\\", "").splitlines()
            if line.startswith(f"| {size}, PromptEOL+ICL | Sent")
        ]
        assert "| Sentence 1. | W1 | 90.00 | +25.00 | 3 of 5 (60 %) | 2 of 5 (40 %) |" in line
        assert line.endswith(said)
    assert "senteval-sts: Avg (spearman) |" in markdown.replace("\\", "")
    assert page.text.count("3 of 5 (60 %)") == len(SIZES.labels)
    found = json.loads(to_json(data, [summary]))["demonstrations"]
    assert [(one["word"], one["improvement"], one["helped"], one["harmed"]) for one in found] == [
        ("W1", 25.0, 3, 2)
    ] * len(SIZES.labels)
    assert found[0]["gains"][0]["against"] == "opt-125m, PromptEOL"


def test_a_study_without_searches_has_no_demonstrations(toy: Report) -> None:
    assert "Demonstrations" not in toy.page.text + toy.markdown
