"""A run's report in a real browser: plots have a size, and the console is silent.

Theme, tables on a phone, sorting and hints are tested on a study's page, which has the same style and script.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
from browser import ERRORS, POLICY, browse, needed, probe_of
from sentbed.protocols import ExpectedRow, ReportData, Scatter, Score, StageCurve
from sentbed_report.write_report import write_report

pytestmark = needed

PROBE = """<script>addEventListener("load", () => {
  const box = e => { const b = e.getBoundingClientRect(); return [b.width, b.height]; };
  document.documentElement.dataset.probe = JSON.stringify({
    wrong: window.wrong,
    svgs: [...document.querySelectorAll("figure svg")].map(box),
    drawn: [...document.querySelectorAll("figure svg")].map(s => box(s.querySelector("g"))),
    images: document.querySelectorAll("figure svg image").length,
    wide: document.documentElement.scrollWidth - innerWidth,
    resources: performance.getEntriesByType("resource").map(e => e.name),
  });
});</script>"""


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    steps = list(range(1, 301))
    x = np.linspace(0, 5, 400)
    tasks = [f"a task with a long name {i}" for i in range(9)]
    encoders = ("encoder@start", "encoder")
    scores = [
        Score(
            task,
            "spearman",
            70.0,
            {"encoder": {}, "evaluator": {"id": "sts", "data": "ab" * 32}},
            e,
            "sts",
        )
        for e in encoders
        for task in tasks
    ]
    protocol = {"encoder": {}, "evaluator": {"id": "wang-isola"}}
    for encoder in encoders:
        for metric, value, axis in (
            ("alignment", 0.2 + 0.1 * len(encoder), "y"),
            ("uniformity", -2.0, "x"),
        ):
            scores.append(
                Score(
                    "STS-B",
                    metric,
                    value,
                    protocol,
                    encoder,
                    "geometry",
                    direction="lower",
                    axis=axis,
                )
            )

    data = ReportData(
        name="</title><script>document.title = 'owned'; throw 1</script>",
        status="interrupted",
        error="Interrupted by the user.",
        started="2026-03-04T14:05:33+00:00",
        seconds=725.0,
        recipe_toml="[encoders.encoder]\n" + "long = " + "x" * 400,
        manifest={"</script>": "<img src=x onerror=alert(1)>"},
        scores=tuple(scores),
        expected=(ExpectedRow("sts.STS-B.spearman", 70.0, 0.5, "a source", 70.2),),
        stages=(
            StageCurve(
                "s",
                steps,
                [1 / s for s in steps],
                [1e-5] * 300,
                [(100, 70.0), (200, 71.0)],
                200,
                "dev",
            ),
        ),
        scatters=tuple(
            (encoder, Scatter("STS-B", "gold", "cosine", x, x / 5))
            for encoder in encoders
        ),
    )
    return write_report(tmp_path_factory.mktemp("run"), data)


def test_the_page_as_written_runs_without_a_word_on_the_console(report, tmp_path):
    dom = browse(report, tmp_path, "--dump-dom")
    assert "<title>&lt;/title&gt;&lt;script&gt;" in dom
    # The script removes `hidden`: the policy's hash is that of the script.
    assert re.search(r'<button id="theme" type="button">(Dark|Light)</button>', dom)


def test_plots_have_a_size_and_the_page_is_no_wider_than_the_window(report, tmp_path):
    # The copy lacks the security policy, which would not let the probe run.
    text, times = re.subn(POLICY, ERRORS, report.read_text())
    assert times == 1
    copy = tmp_path / "probe.html"
    copy.write_text(text.replace("</body>", f"{PROBE}</body>"))
    seen = probe_of(browse(copy, tmp_path, "--dump-dom", "--window-size=500,1000"))
    assert seen["wrong"] == []
    assert seen["resources"] == []
    assert len(seen["svgs"]) == 6
    for width, height in seen["svgs"] + seen["drawn"]:
        assert width > 150, seen
        assert height > 100, seen

    assert seen["images"] == 2
    assert seen["wide"] <= 0
