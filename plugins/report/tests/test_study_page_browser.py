"""A study's report in a real browser: sorting, filter, hover, and a phone's width."""

from __future__ import annotations

import re

import pytest
from browser import ERRORS, browse, needed, probe_of
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.study_data import AxisInfo
from sentbed_report.study_page.study_report import write_study_report
from toy_study import POOLER, study

pytestmark = needed

TOOLS = """
const one = (what, within = document) => within.querySelector(what);
const all = (what, within = document) => [...within.querySelectorAll(what)];
const table = one("table.results");
const names = () => all("tbody tr", table).filter(r => !r.hidden).map(r => r.dataset.cell);
const column = (i) => all("tbody tr", table).map(r => r.cells[i].dataset.value).map(Number);
const heads = () => all(".headings th", table).map(h => h.getAttribute("aria-sort"));
const head = (i) => one("button", all(".headings th", table)[i]);
const open = () => all("details").forEach(d => { d.open = true; });
const style = (e) => getComputedStyle(e);
const type = (text) => {
  one("input[type=search]").value = text;
  one("input[type=search]").dispatchEvent(new Event("input", {bubbles: true}));
};
const tell = (what) => {
  document.documentElement.dataset.probe = JSON.stringify({wrong: window.wrong, ...what});
};
"""

FRAME = """<!doctype html>
<iframe src="inner.html" style="width:375px;height:800px;border:0"></iframe>
<script>addEventListener("load", () => {
  const page = document.querySelector("iframe").contentDocument;
  for (const part of page.querySelectorAll("details")) part.open = true;
  document.documentElement.dataset.probe = JSON.stringify({
    page: page.documentElement.scrollWidth,
    table: page.querySelector(".results").getBoundingClientRect().width,
    box: page.querySelector(".scroll").getBoundingClientRect().right,
    sticky: getComputedStyle(page.querySelector(".results tbody th")).position,
    images: [...page.querySelectorAll("figure img")].map(s => s.getBoundingClientRect().right),
  });
});</script>"""
"""A headless window is no narrower than 500 pixels; a frame is."""


def act(page, tmp_path, script, *options):
    """Run a script in a copy of the page."""
    text = page.read_text().replace("<head>", f"<head>{ERRORS}")
    copy = tmp_path / "probe.html"
    whole = (
        f'<script>addEventListener("load", async () => {{{TOOLS}{script}}});</script>'
    )
    copy.write_text(text.replace("</body>", f"{whole}</body>"))
    seen = probe_of(browse(copy, tmp_path, "--dump-dom", *options))
    assert seen["wrong"] == []
    return seen


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    hostile = "</title><script>document.title = 'owned'; throw 1</script>"
    data = study(several=True, name=hostile)
    summaries = summarise(data)
    return write_study_report(tmp_path_factory.mktemp("study"), data, summaries)


def test_the_page_as_written_runs_without_a_word_on_the_console(report, tmp_path):
    dom = browse(report, tmp_path, "--dump-dom")
    assert "<title>&lt;/title&gt;&lt;script&gt;" in dom
    # The script removes `hidden`.
    assert re.search(r'<form class="filter"[^>]*>', dom)
    assert not re.search(r'<form class="filter"[^>]*hidden', dom)


def test_a_heading_sorts_its_column_and_says_so(report, tmp_path):
    seen = act(
        report,
        tmp_path,
        """
        const before = names();
        head(2).click();
        const down = [column(2), heads()];
        head(2).focus();
        head(2).click();
        const up = [column(2), heads(), document.activeElement === head(2)];
        head(0).click();
        tell({before, down, up, again: names()});
        """,
    )
    assert len(seen["before"]) == 6
    down, up = seen["down"], seen["up"]
    assert down[0] == sorted(down[0], reverse=True)
    assert len(set(down[0])) == 6
    assert down[1][:3] == [None, None, "descending"]
    assert up[0] == sorted(down[0])
    assert up[1][:3] == [None, None, "ascending"]
    assert up[2]
    assert seen["again"] == seen["before"]


def test_text_and_labels_filter_every_table(report, tmp_path):
    seen = act(
        report,
        tmp_path,
        """
        type("MEAN, 0.0");
        const text = [names(), one(".filter output").textContent];
        type("");
        for (const box of all(".filter input[type=checkbox]"))
          if (["first", "0.05", "0.25"].includes(box.value)) box.click();
        const labels = names();
        const runs = all("#runs").map(h => h.closest("details"))
          .flatMap(d => all("table", d)[0]).flatMap(t => all("tbody tr", t))
          .filter(r => !r.hidden).map(r => r.dataset.cell);
        tell({text, labels, runs});
        """,
    )
    assert seen["text"] == [["mean, 0.05", "mean, 0.01"], "2 of 6 cells"]
    assert seen["labels"] == ["first, 0.05", "first, 0.25"]
    assert seen["runs"] == seen["labels"]


def test_a_mark_says_why_on_hover_and_on_focus(report, tmp_path):
    seen = act(
        report,
        tmp_path,
        """
        const mark = one(".mark"), tip = document.getElementById("tip");
        const first = [tip.hidden, all("[aria-describedby]").length];
        mark.dispatchEvent(new MouseEvent("mouseover", {bubbles: true}));
        const hovered = [tip.hidden, tip.textContent, tip.getBoundingClientRect().left];
        mark.dispatchEvent(new MouseEvent("mouseout", {bubbles: true}));
        const left = [tip.hidden, all("[aria-describedby]").length];
        mark.focus({preventScroll: true});
        await new Promise(done => setTimeout(done, 300));
        const focused = [tip.hidden, mark.getAttribute("aria-describedby")];
        dispatchEvent(new KeyboardEvent("keydown", {key: "Escape"}));
        const escaped = tip.hidden;
        mark.blur();
        mark.focus({preventScroll: true});
        all(".mark")[1].dispatchEvent(new MouseEvent("mouseover", {bubbles: true}));
        const described = all("[aria-describedby]").map(e => all(".mark").indexOf(e));
        mark.blur();
        tell({first, hovered, left, focused, escaped, described, name: mark.getAttribute("aria-label")});
        """,
    )
    assert seen["first"] == seen["left"] == [True, 0]
    # The tip is of one mark at a time.
    assert seen["described"] == [1]
    assert seen["escaped"]
    hidden, text, left = seen["hovered"]
    assert not hidden
    assert "Holm" in text
    assert text in seen["name"]
    assert left >= 0
    assert seen["focused"] == [False, "tip"]


@pytest.mark.parametrize("width", [1200, 500])
@pytest.mark.sweep(1)
def test_plots_have_a_size_and_the_page_is_no_wider_than_the_window(
    report, tmp_path, width
):
    seen = act(
        report,
        tmp_path,
        """
        const box = e => { const b = e.getBoundingClientRect(); return [b.width, b.height]; };
        open();
        tell({
          images: all("figure img").map(box),
          wide: document.documentElement.scrollWidth - innerWidth,
          resources: performance.getEntriesByType("resource").map(e => e.name),
        });
        """,
        f"--window-size={width},1000",
    )
    assert seen["resources"] == []
    assert len(seen["images"]) >= 3
    for width, height in seen["images"]:
        assert width > 150, seen
        assert height > 100, seen

    assert seen["wide"] <= 0


def test_a_phone_scrolls_tables_not_the_page(report, tmp_path):
    (tmp_path / "inner.html").write_text(report.read_text())
    outer = tmp_path / "outer.html"
    outer.write_text(FRAME)
    seen = probe_of(
        browse(outer, tmp_path, "--dump-dom", "--allow-file-access-from-files")
    )
    assert seen["page"] == 375
    assert seen["table"] > 375
    assert seen["box"] <= 375
    assert seen["sticky"] == "sticky"
    assert seen["images"]
    assert max(seen["images"]) <= 375


@pytest.fixture(scope="module")
def eight_cells(tmp_path_factory):
    temperature = AxisInfo(
        "temperature", ("0.01", "0.05", "0.1", "0.25"), (0.01, 0.05, 0.1, 0.25)
    )
    data = study((POOLER, temperature), several=True)
    summaries = summarise(data)
    return write_study_report(tmp_path_factory.mktemp("eight"), data, summaries)


@pytest.mark.slow
def test_the_answer_of_eight_cells_stands_within_the_first_screen_and_the_closed_page_is_short(
    eight_cells, tmp_path
):
    script = """
    const bottom = one(".answer").getBoundingClientRect().bottom;
    tell({bottom, length: document.documentElement.scrollHeight, lines: all(".answer > div").length});
    """
    wide = act(eight_cells, tmp_path, script, "--window-size=1400,1000")
    assert 1 < wide["lines"] <= 6
    assert wide["bottom"] < 600
    assert wide["length"] < 3000
    phone = act(eight_cells, tmp_path, script, "--window-size=500,800")
    assert phone["bottom"] < 800
