from __future__ import annotations

import enum
import functools
import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
from sentbed._run.report_json import plain
from sentbed.errors import RunError
from sentbed.protocols import ExpectedRow, Scatter, Score, StageCurve, Watched
from sentbed_report.formatting import (
    chance,
    duration,
    expected_digits,
    expected_verdict,
    number,
    short,
    signed,
    summary,
    verdict,
)
from sentbed_report.html_report import to_html
from sentbed_report.markdown_report import escape, to_markdown
from sentbed_report.report_json import to_json
from sentbed_report.resampling import Comparison
from sentbed_report.run_report import Bootstrapped, Candidate, Difference, Ranking, RunReport
from sentbed_report.score_tables import GeometryPoint, encoder_order, geometry_panels, score_tables
from sentbed_report.write_report import write_report

EMPTY = RunReport(
    name="empty",
    status="finished",
    error=None,
    started="2026-03-04T14:05:33+00:00",
    seconds=3.0,
    recipe_toml="",
    manifest={},
)
ATTACK = "<script>alert('x')</script>|`*_$\\frac{"


def score(
    task: str,
    value: float,
    encoder: str = "encoder",
    metric: str = "spearman",
    evaluator: str = "sts",
    **entries: object,
) -> Score:
    protocol = {"encoder": {}, "evaluator": {"id": "senteval-sts", **entries}}
    return Score(task, metric, value, protocol, encoder, evaluator)


def placed(task: str, metric: str, value: float, protocol: str, encoder: str, evaluator: str) -> Score:
    """A score of a plane."""
    said = {"encoder": {}, "evaluator": {"id": protocol}}
    axis: Any = {"alignment": "y", "uniformity": "x"}[metric]
    return Score(task, metric, value, said, encoder, evaluator, direction="lower", axis=axis)


def stage(steps: int = 40, name: str = "nli") -> StageCurve:
    numbers = list(range(1, steps + 1))
    return StageCurve(
        name=name,
        steps=numbers,
        losses=[3 / step + 0.1 * (step % 3) for step in numbers],
        learning_rates=[1e-5 * (1 - step / (steps + 1)) for step in numbers],
        validations=[(10, 70.0), (20, 80.5), (30, 79.0)],
        best_step=20,
        metric="STS-B dev",
    )


def geometry(
    encoder: str, task: str, protocol: str, *places: tuple[float, float], every: int = 100
) -> Watched:
    """Looks at (uniformity, alignment), one every so many steps."""
    scores = tuple(
        placed(task, metric, math.nan, protocol, encoder, "geometry")
        for metric in ("alignment", "uniformity")
    )
    steps = [every * i for i in range(len(places))]
    values = [[alignment, uniformity] for uniformity, alignment in places]
    return Watched(encoder, "geometry", scores, steps, [-sum(look) for look in values], values)


def full() -> RunReport:
    scores = [
        score(task, value + gain, encoder, aggregation="all", data=task)
        for encoder, gain in (("encoder@start", 0.0), ("encoder", 10.0))
        for task, value in (("STS12", 50.0), ("STS-B", 60.0))
    ]
    scores += [
        placed("STS-B", metric, value + gain, "wang-isola", encoder, "geometry")
        for encoder, gain in (("encoder@start", 0.0), ("encoder", -0.1))
        for metric, value in (("alignment", 0.3), ("uniformity", -1.5))
    ]
    x = np.linspace(0, 5, 2000)
    scatters = tuple(
        (encoder, Scatter("STS-B", "gold score", "cosine", x, np.sin(x)))
        for encoder in ("encoder@start", "encoder")
    )
    return attrs.evolve(
        EMPTY,
        name="full",
        recipe_toml='name = "full"\n',
        manifest={"python": "3.11", "seed": 1},
        scores=tuple(scores),
        expected=(
            ExpectedRow("sts.STS-B.spearman", 70.1, 0.5, "table 5", 70.0),
            ExpectedRow("sts.STS12.spearman", 68.0, 0.5, "table 5", 60.0),
            ExpectedRow("sts.STS13.spearman", 68.0, 0.5, "table 5", None),
        ),
        stages=(stage(),),
        scatters=scatters,
    )


@functools.cache
def full_page() -> str:
    return to_html(full())


HOSTILE = {"encoder": {ATTACK: ATTACK}, "evaluator": {"id": ATTACK, ATTACK: ATTACK}}


def hostile() -> RunReport:
    """Every text that a recipe, a plugin or a data file can bring is an attack."""
    return RunReport(
        name=ATTACK,
        status="failed",
        error=ATTACK,
        started=ATTACK,
        seconds=math.nan,
        recipe_toml=ATTACK,
        manifest={ATTACK: ATTACK},
        scores=(
            Score(ATTACK, ATTACK, 1.0, HOSTILE, ATTACK, ATTACK, note=ATTACK),
            Score(ATTACK, ATTACK, 1.0, HOSTILE, ATTACK, ATTACK, axis="y"),
            Score(ATTACK, ATTACK, 1.0, HOSTILE, ATTACK, ATTACK, axis="x"),
        ),
        expected=(ExpectedRow(ATTACK, 1.0, 0.1, ATTACK, 1.0),),
        stages=(
            StageCurve(
                *(ATTACK, [1, 2], [1.0, 2.0], [0.1, 0.1], [(1, 2.0)], 1, ATTACK),
                metrics={ATTACK: [1.0, 2.0]},
                watched=(
                    geometry(ATTACK, ATTACK, ATTACK, (1.0, 2.0), (3.0, 4.0)),
                    Watched(
                        ATTACK,
                        ATTACK,
                        (Score(ATTACK, ATTACK, 1.0, HOSTILE),),
                        [0, 1],
                        [1.0, 2.0],
                        [[1.0], [2.0]],
                    ),
                ),
            ),
        ),
        scatters=((ATTACK, Scatter(ATTACK, ATTACK, ATTACK, [1.0], [2.0])),),
        ranking=Ranking(
            ATTACK, Candidate(ATTACK, "", 1.0, ATTACK), (Candidate(ATTACK, ATTACK, 2.0, ATTACK),)
        ),
        warnings=(ATTACK,),
    )


def ranking(*scores: float, baseline: float = 70.0) -> Ranking:
    """Candidates with these scores, the best first."""
    candidates = (Candidate(f"Sentence {i}.", f"Word{i}", value, f"t{i}") for i, value in enumerate(scores))
    return Ranking("sts", Candidate("no demonstration", "", baseline, "t"), tuple(candidates))


class Page(HTMLParser):
    """The tags, ids and loading attributes of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.loads: list[str] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for key, value in attributes:
            assert not key.startswith("on"), key
            if key == "id":
                self.ids.append(value or "")
            if key in ("src", "href", "xlink:href", "action", "srcset", "data"):
                self.loads.append(value or "")

    def handle_data(self, text: str) -> None:
        self.words.append(text)


def test_json_has_the_keys_of_schema_2() -> None:
    document = json.loads(to_json(full()))
    assert document["schema"] == 2
    assert list(document) == [
        *("schema", "name", "status", "error", "warnings", "started", "seconds"),
        *("scores", "expected", "stages", "manifest"),
    ]
    assert document["scores"][0] == {
        "encoder": "encoder@start",
        "evaluator": "sts",
        "task": "STS12",
        "metric": "spearman",
        "value": 50.0,
        "direction": "higher",
        "protocol": {
            "encoder": {},
            "evaluator": {"id": "senteval-sts", "aggregation": "all", "data": "STS12"},
        },
    }
    assert [row["met"] for row in document["expected"]] == [True, False, None]
    assert document["stages"][0]["validations"] == [[10, 70.0], [20, 80.5], [30, 79.0]]
    assert document["stages"][0]["best_step"] == 20


def test_json_writes_null_for_what_is_not_finite() -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    data = attrs.evolve(
        EMPTY,
        seconds=math.inf,
        scores=(score("a", math.nan, threshold=-math.inf),),
        expected=(ExpectedRow("a", 1.0, 0.1, "", math.nan),),
        stages=(StageCurve("s", [1], [math.nan], [math.inf], [(1, math.nan)]),),
        manifest={"x": [math.nan]},
    )
    document = json.loads(to_json(data), parse_constant=refuse)
    assert document["seconds"] is None
    assert document["scores"][0]["value"] is None
    assert document["scores"][0]["protocol"]["evaluator"]["threshold"] is None
    assert document["expected"][0]["met"] is False
    assert document["stages"][0]["losses"] == [None]
    assert document["manifest"] == {"x": [None]}


class Colour(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.float32(0.5), 0.5),
        (np.array([[1, 2]]), [[1, 2]]),
        (np.float64("nan"), None),
        (Path("a/b"), "a/b"),
        ({1: (2, {"b", "a"})}, {"1": [2, ["a", "b"]]}),
        (True, True),
        (b"x", "b'x'"),
        (Colour.RED, "red"),
        (Level.HIGH, 3),
        (range(2), [0, 1]),
    ],
)
def test_plain_turns_values_into_json(value: object, expected: object) -> None:
    assert plain(value) == expected
    json.dumps(plain(value), allow_nan=False)


def test_tasks_are_columns_and_change_is_against_the_start() -> None:
    table = score_tables(full().scores)[0]
    assert table.tasks == ("STS12", "STS-B")
    assert [row.encoder for row in table.rows] == ["encoder@start", "encoder"]
    assert [cell.change for cell in table.rows[1].cells if cell] == [10.0, 10.0]
    assert [cell.change for cell in table.rows[0].cells if cell] == [None, None]
    assert (table.protocol, table.common) == (
        "senteval-sts · all",
        (("id", "senteval-sts"), ("aggregation", "all")),
    )
    assert (table.varying, table.by_task) == (("data",), (("STS12",), ("STS-B",)))


@pytest.mark.parametrize(
    "other",
    [
        score("a", 2.0, metric="pearson"),
        score("a", 2.0, evaluator="other"),
        score("a", 2.0, aggregation="mean"),
        score("a", 2.0, encoder="b", data="another file"),
        score("a", 2.0, text_rules=["strip"]),
        score("a", 2.0),
    ],
)
def test_scores_that_differ_in_anything_stand_in_two_tables(other: Score) -> None:
    tables = score_tables([score("a", 1.0, "encoder@start"), score("a", 1.0), other])
    assert len(tables) == 2
    assert len({(table.evaluator, table.metric, table.protocol) for table in tables}) == 2
    assert sum(cell is not None for table in tables for row in table.rows for cell in row.cells) == 3


def test_a_change_is_not_shown_across_protocols() -> None:
    tables = score_tables([score("a", 1.0, "encoder@start", data="old"), score("a", 9.0, data="new")])
    assert [cell.change for table in tables for row in table.rows for cell in row.cells if cell] == [
        None,
        None,
    ]
    assert [table.protocol for table in tables] == ["senteval-sts · data old", "senteval-sts · data new"]


def test_an_encoder_stands_next_to_its_start() -> None:
    assert encoder_order(["en@start", "zh@start", "en", "zh", "en"]) == ("en@start", "en", "zh@start", "zh")


def test_geometry_pairs_only_equal_protocols_and_tasks() -> None:
    def measured(metric: str, value: float, protocol: str, task: str = "STS-B") -> Score:
        return placed(task, metric, value, protocol, "encoder", "geometry")

    panels = geometry_panels(
        [
            measured("alignment", 0.2, "wang-isola"),
            measured("uniformity", -2.0, "wang-isola"),
            measured("alignment", 0.1, "st5"),
            measured("uniformity", -1.0, "st5", task="another"),
            measured("uniformity", math.nan, "st5"),
        ]
    )
    assert [(panel.protocol, panel.points) for panel in panels] == [
        ("wang-isola", (GeometryPoint("encoder", x=-2.0, y=0.2),))
    ]


@pytest.mark.parametrize(
    ("found", "met"), [(82.13, True), (81.93, True), (82.14, False), (math.nan, False), (None, None)]
)
def test_met_is_within_the_tolerance_inclusive(found: float | None, met: bool | None) -> None:
    assert ExpectedRow("k", 82.03, 0.1, "", found).met is met


def test_a_number_to_compare_with_is_shown_without_a_verdict() -> None:
    row = ExpectedRow("speed", 274.0, None, "another machine", 1.5)
    assert (row.met, expected_verdict(row)) == (None, "to compare")
    assert (row.difference, expected_digits(row)) == (-272.5, 2)
    data = attrs.evolve(EMPTY, expected=(row, ExpectedRow("k", 1.0, 0.1, "", 1.0)))
    cells = ["1.50", "274.00", "–", "−272.50", "to compare", "another machine"]
    assert ["speed", *cells] in rows_of(to_markdown(data))
    (found,) = re.findall(r'<th scope="row">speed</th>(.*?)</tr>', to_html(data))
    assert re.findall(r">([^<>]+)<", found) == cells
    assert "1 of 1 expected number met" in summary(data)
    assert "expected" not in summary(attrs.evolve(EMPTY, expected=(row,)))


@pytest.mark.parametrize(
    ("value", "tolerance", "digits"),
    [(77.1, 0.5, 2), (0.203, 0.005, 3), (80.0, 1.0, 2), (1.0, 1e-9, 6), (100.0, math.inf, 2)],
)
def test_an_expected_number_is_printed_as_exactly_as_it_is_stated(
    value: float, tolerance: float, digits: int
) -> None:
    assert expected_digits(ExpectedRow("k", value, tolerance, "", None)) == digits


def rows_of(markdown: str) -> list[list[str]]:
    return [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in markdown.splitlines()
        if line.startswith("|")
    ]


def test_markdown_has_one_row_an_encoder_evaluator_and_metric() -> None:
    rows = rows_of(to_markdown(full()))
    assert rows[0] == ["encoder", "evaluator", "metric", "protocol", "STS12", "STS-B"]
    assert rows[2] == ["encoder@start", "sts", "spearman", "senteval-sts · all", "50.00", "60.00"]
    assert rows[4] == ["encoder@start", "geometry", "alignment", "wang-isola", "–", "0.300"]
    assert len(rows[0:8]) == 8


def test_markdown_says_met_and_not_met() -> None:
    rows = rows_of(to_markdown(full()))
    assert ["sts.STS-B.spearman", "70.00", "70.10", "±0.50", "−0.10", "met", "table 5"] in rows
    assert ["sts.STS12.spearman", "60.00", "68.00", "±0.50", "−8.00", "**not met**", "table 5"] in rows
    assert ["sts.STS13.spearman", "–", "68.00", "±0.50", "–", "not measured", "table 5"] in rows


def test_markdown_escapes_names() -> None:
    assert escape("a|b\n*c* `d` <e> [f](g) __h__ snake_case") == (
        r"a\|b \*c\* \`d\` \<e\> \[f\](g) \_\_h\_\_ snake_case"
    )
    text = to_markdown(attrs.evolve(hostile(), error=None))
    assert "<script" not in text.replace(r"\<", "")
    tables = [len(row) for row in rows_of(text)]
    assert set(tables) == {5, 7, 9}, "an unescaped pipe would make a column"


def test_markdown_fences_an_error_with_backticks() -> None:
    text = to_markdown(attrs.evolve(EMPTY, status="failed", error="```\nend"))
    assert "````text\n```\nend\n````" in text


@pytest.mark.parametrize("data", [full(), hostile(), EMPTY], ids=["full", "hostile", "empty"])
def test_html_loads_nothing(data: RunReport) -> None:
    text = to_html(data)
    page = Page(text)
    assert all(load.startswith(("#", "data:,")) for load in page.loads), page.loads
    assert set(re.findall(r"url\(([^#])", text)) == set()
    assert "@import" not in text
    assert "http://" not in text
    assert "https://" not in text


def test_html_escapes_everything() -> None:
    text = to_html(hostile())
    page = Page(text)
    assert page.tags.count("script") == 1
    assert "alert" not in re.sub(r"&lt;script&gt;alert", "", text)
    assert text.count("&lt;script&gt;alert") > 20


def test_html_ids_are_unique_and_references_resolve() -> None:
    data = attrs.evolve(full(), stages=(stage(), stage(name="again"), stage(name="again")))
    text = to_html(data)
    ids = Page(text).ids
    assert len(ids) == len(set(ids))
    referenced = set(re.findall(r"(?:url\(|href=\")#([^)\"]+)", text))
    assert referenced
    assert referenced <= set(ids)


def test_html_is_the_same_for_the_same_run() -> None:
    assert to_html(full()) == full_page()


def test_html_shows_every_section_that_has_something() -> None:
    text = full_page()
    sections = re.findall(r"<h2 id=\"(\w+)\"", text)
    assert sections == ["scores", "expected", "training", "similarity", "geometry", "record"]
    assert text.count('role="img"') == text.count("<figure>") == 2 + 2 + 1
    assert "var(--c0)" in text
    assert "#0101" not in text, "a sentinel colour is left"
    assert "1,500 of 2,000 points" in text
    assert "80.50 at step 20" in text
    assert "+10.00" in text
    assert "senteval-sts" in text


@pytest.mark.parametrize(
    ("empty", "section"),
    [
        ({"scores": ()}, "scores"),
        ({"scores": ()}, "geometry"),
        ({"expected": ()}, "expected"),
        ({"stages": ()}, "training"),
        ({"stages": (StageCurve("none", [], [], []),)}, "training"),
        ({"stages": (StageCurve("diverged", [1], [math.nan], [1.0]),)}, "training"),
        ({"scatters": ()}, "similarity"),
        ({"scatters": (("encoder", Scatter("t", "x", "y", [math.nan], [1.0])),)}, "similarity"),
        ({"manifest": {}, "recipe_toml": ""}, "record"),
    ],
)
def test_html_omits_a_section_with_nothing_to_show(empty: dict[str, object], section: str) -> None:
    assert f'<h2 id="{section}"' in full_page()
    assert f'<h2 id="{section}"' not in to_html(attrs.evolve(full(), **empty))


def resampled() -> RunReport:
    comparison = Comparison(50.0, 60.0, 10.0, 2.5, 17.25, 0.012)
    data = full()
    return attrs.evolve(
        data,
        bootstrap=Bootstrapped(
            2000,
            0.9,
            ((48.1, 51.95), *[None] * (len(data.scores) - 1)),
            (
                Difference("encoder@start", "encoder", data.scores[2], comparison),
                Difference("a", ATTACK, data.scores[3], attrs.evolve(comparison, p_value=0.0502, low=-2.5)),
            ),
        ),
    )


def test_intervals_and_differences_are_shown_where_there_are_any() -> None:
    text = to_html(resampled())
    assert "<small>48.10 to 51.95</small>" in text
    assert text.count(" to ") == 3 + full_page().count(" to ")
    assert re.search(r"\+10\.00<small>2\.50 to 17\.25</small></td><td class=\"n\">0\.012 †</td>", text)
    assert re.search(r"−2\.50 to 17\.25</small></td><td class=\"n\">0\.050</td>", text)
    assert "Intervals of 90 %: bootstrap of the items, 2,000 resamples." in text
    assert "not corrected for the number of comparisons made here (2)." in text
    assert "<script>alert" not in text
    assert '<h2 id="differences"' not in full_page()
    rows = rows_of(to_markdown(resampled()))
    assert rows[2][4] == "50.00 (48.10 to 51.95)"
    (header, found) = (row for row in rows if row[4:6] in (["first", "second"], ["encoder@start", "encoder"]))
    assert found[6:] == ["+10.00", "2.50 to 17.25", "0.012 †"]
    assert len(header) == len(found)


def test_json_has_intervals_and_differences_where_there_are_any() -> None:
    document = json.loads(to_json(resampled()))
    assert document["schema"] == 2
    assert [score["interval"] for score in document["scores"][:2]] == [[48.1, 51.95], None]
    about = document["bootstrap"]
    assert (about["resamples"], about["confidence"]) == (2000, 0.9)
    assert about["differences"][0] == {
        "evaluator": "sts",
        "task": "STS12",
        "metric": "spearman",
        "direction": "higher",
        "protocol": {
            "encoder": {},
            "evaluator": {"id": "senteval-sts", "aggregation": "all", "data": "STS12"},
        },
        "first": "encoder@start",
        "second": "encoder",
        "a": 50.0,
        "b": 60.0,
        "difference": 10.0,
        "low": 2.5,
        "high": 17.25,
        "p_value": 0.012,
    }


@pytest.mark.parametrize(
    ("p_value", "text"), [(0.2, "0.200"), (0.0499, "0.050 †"), (0.05, "0.050"), (0.0002, "< 0.001 ‡")]
)
def test_a_small_p_value_has_a_sign(p_value: float, text: str) -> None:
    assert chance(p_value) == text


def test_tables_have_scoped_headers() -> None:
    headers = re.findall(r"<th(?:\s[^>]*)?>", full_page())
    assert headers
    assert all('scope="' in header for header in headers)


@pytest.mark.parametrize("status", ["interrupted", "failed"])
def test_a_run_that_did_not_finish_says_so(tmp_path: Path, status: str) -> None:
    data = attrs.evolve(full(), status=status, error="The disk is full; free some space.")
    path = write_report(tmp_path, data)
    text = path.read_text()
    assert f'class="status {status}"' in text
    assert "The disk is full" in text
    assert "The disk is full" in (tmp_path / "report.md").read_text()
    assert json.loads((tmp_path / "report.json").read_text())["status"] == status


def test_an_empty_run_has_a_report(tmp_path: Path) -> None:
    path = write_report(tmp_path / "new", EMPTY)
    assert path == tmp_path / "new" / "report.html"
    assert sorted(file.name for file in path.parent.iterdir()) == ["report.html", "report.json", "report.md"]
    text = path.read_text()
    assert "<section" not in text
    assert "nothing was measured" in text


def test_text_that_is_no_unicode_is_written(tmp_path: Path) -> None:
    name = b"caf\xe9".decode("utf-8", "surrogateescape") + " \x00 日本語 $"
    data = attrs.evolve(
        full(),
        name=name,
        error=name,
        stages=(stage(name=name),),
        scatters=((name, Scatter(name, name, name, [1], [1])),),
    )
    write_report(tmp_path, data)
    assert json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))["name"] == name
    assert "日本語" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_the_numbers_are_on_disk_when_a_plot_fails(tmp_path: Path) -> None:
    broken = attrs.evolve(full(), scatters=(("encoder", Scatter("t", "x", "y", ["no number"], [1.0])),))  # type: ignore[list-item]
    with pytest.raises((TypeError, ValueError)):
        write_report(tmp_path, broken)
    assert json.loads((tmp_path / "report.json").read_text())["scores"]


def test_a_place_that_cannot_be_written_is_a_run_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError):
        write_report(tmp_path / "file", EMPTY)


@pytest.mark.slow
def test_a_page_of_many_scatters_and_long_curves_stays_small() -> None:
    rng = np.random.default_rng(0)
    scatters = tuple(
        (encoder, Scatter(f"task {i}", "gold", "cosine", rng.uniform(size=5000), rng.uniform(size=5000)))
        for i in range(20)
        for encoder in ("encoder@start", "encoder")
    )
    steps = list(range(100_000))
    curve = StageCurve("long", steps, rng.uniform(size=len(steps)), rng.uniform(size=len(steps)))
    assert len(to_html(attrs.evolve(full(), scatters=scatters, stages=(curve,)))) < 1_500_000


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.04, "0.0 s"),
        (59.96, "60.0 s"),
        (60, "1 min"),
        (725, "12 min 5 s"),
        (11_523, "3 h 12 min"),
        (3600, "1 h"),
        (183_600, "2 d 3 h"),
    ],
)
def test_duration(seconds: float, expected: str) -> None:
    assert duration(seconds) == expected


def test_numbers() -> None:
    assert [number(v) for v in (1.005, -2.5, -0.001, None, math.nan)] == [
        "1.00",
        "−2.50",
        "0.00",
        "–",
        "not finite",
    ]
    assert [signed(v) for v in (1.0, -1.0, 0.001, -0.001, None)] == ["+1.00", "−1.00", "±0.00", "±0.00", "–"]
    assert [short(v) for v in (2e-5, 0.4242, 123456.0, -1e-7)] == ["2e−5", "0.424", "1.23e5", "−1e−7"]


# --- the ranking of a search -------------------------------------------------------------------------------


def test_a_search_tells_its_best_demonstration_and_how_many_help_and_harm() -> None:
    data = attrs.evolve(EMPTY, ranking=ranking(80.0, 75.0, 70.0, 60.0, math.nan))
    shown = ("Sentence 0.", "Word0", "+10.00", "2 of 5 (40 %)", "1 of 5 (20 %)")
    assert "| " + " | ".join(shown) + " |" in to_markdown(data).replace("\\", "")
    page = "".join(Page(to_html(data)).words)
    assert all(text in page for text in shown)
    found = json.loads(to_json(data))["ranking"]
    assert found["winner"] == {"sentence": "Sentence 0.", "word": "Word0", "score": 80.0, "improvement": 10.0}
    assert (found["helped"], found["harmed"]) == (
        {"candidates": 2, "share": 0.4},
        {"candidates": 1, "share": 0.2},
    )


def test_a_search_in_which_nothing_helps_says_so_in_numbers() -> None:
    markdown = to_markdown(attrs.evolve(EMPTY, ranking=ranking(60.0, 50.0))).replace("\\", "")
    assert "0 of 2 (0 %) | 2 of 2 (100 %) |" in markdown


def test_the_baseline_of_a_ranking_stands_at_its_place_without_a_rank() -> None:
    rows = ranking(80.0, 75.0, 70.0, 60.0, math.nan).rows
    assert [rank for rank, _, _ in rows] == [1, 2, None, 3, 4, 5]
    assert [difference for _, _, difference in rows[:5]] == [10.0, 5.0, 0.0, 0.0, -10.0]
    assert math.isnan(rows[5][2])


def test_a_baseline_that_is_no_number_stands_first() -> None:
    rows = ranking(80.0, baseline=math.nan).rows
    assert [rank for rank, _, _ in rows] == [None, 1]
    assert "not finite without" in verdict(ranking(80.0, baseline=math.nan))


def test_the_verdict_says_whether_a_demonstration_helps() -> None:
    assert verdict(ranking(80.0, 60.0)) == (
        "The best demonstration is “Sentence 0.” → “Word0”: 80.00, against 70.00 without a demonstration."
    )
    assert verdict(ranking(70.0)).startswith("No demonstration is better than none: the best, “Sentence 0.”")


def test_a_report_of_another_name_lies_under_it(tmp_path: Path) -> None:
    path = write_report(tmp_path, attrs.evolve(EMPTY, ranking=ranking(80.0, 60.0)), "search")
    assert {file.name for file in tmp_path.iterdir()} == {"search.html", "search.json", "search.md"}
    assert path == tmp_path / "search.html"
    rows = json.loads((tmp_path / "search.json").read_text())["ranking"]["rows"]
    assert [(row["rank"], row["score"], row["difference"]) for row in rows] == [
        (1, 80.0, 10.0),
        (None, 70.0, 0.0),
        (2, 60.0, -10.0),
    ]
    assert "| 2 | Sentence 1. | Word1 | 60.00 | −10.00 |" in (tmp_path / "search.md").read_text()
    assert "2 candidates; started" in path.read_text()


# --- what a stage watched ----------------------------------------------------------------------------------


def watched_stage() -> StageCurve:
    return attrs.evolve(
        stage(),
        metrics={"temperature": [1 / step for step in range(1, 41)], "accuracy": [math.nan] * 40},
        watched=(
            geometry("zh", "STSB-dev", "wang-isola", (-1.0, 0.3), (-2.0, 0.25), (-2.5, 0.2)),
            geometry("en", "STSB-dev", "wang-isola", (-1.5, 0.4), (-2.25, 0.35)),
            geometry("en", "val", "wang-isola", (-0.5, 1.5), (-0.75, 1.25)),
            Watched("en", "sts", (score("dev", 50.0),), [0, 100], [50.0, 62.5], [[50.0], [62.5]]),
        ),
    )


def test_the_page_has_the_plots_and_the_numbers_of_a_trajectory() -> None:
    data = attrs.evolve(EMPTY, stages=(watched_stage(),))
    text = to_html(data)
    # Loss, validation, two trajectories, one score, the metrics.
    assert text.count('role="img"') == text.count("<figure>") == 6
    assert "<summary>Alignment and uniformity by step: wang-isola, STSB-dev, geometry</summary>" in text
    assert '<td class="n">0.350</td><td class="n">−2.250</td></tr>' in text
    ids = Page(text).ids
    assert len(ids) == len(set(ids))


def test_json_has_every_look() -> None:
    document = json.loads(to_json(attrs.evolve(EMPTY, stages=(watched_stage(),))))
    (table,) = document["stages"]
    assert table["metrics"]["temperature"][:2] == [1.0, 0.5]
    assert table["metrics"]["accuracy"][0] is None
    first = table["watched"][0]
    assert {key: first[key] for key in ("encoder", "evaluator", "steps")} == {
        "encoder": "zh",
        "evaluator": "geometry",
        "steps": [0, 100, 200],
    }
    protocol = {"encoder": {}, "evaluator": {"id": "wang-isola"}}
    assert [(s["task"], s["metric"], s["protocol"], s["values"]) for s in first["series"]] == [
        ("STSB-dev", "alignment", protocol, [0.3, 0.25, 0.2]),
        ("STSB-dev", "uniformity", protocol, [-1.0, -2.0, -2.5]),
    ]


def test_markdown_has_the_first_and_the_last_look() -> None:
    text = to_markdown(attrs.evolve(EMPTY, stages=(watched_stage(),)))
    assert "## Watched" in text
    assert "| nli | zh | geometry | STSB-dev | alignment | wang-isola | 0 to 200 | 0.300 | 0.200 |" in text
    assert "| nli | en | sts | dev | spearman | senteval-sts | 0 to 100 | 50.00 | 62.50 |" in text
    assert "## Watched" not in to_markdown(full())


def test_warnings_stand_in_every_form_of_the_report() -> None:
    data = attrs.evolve(EMPTY, warnings=("the recipe has changed",))
    assert "Warning: the recipe has changed" in to_markdown(data)
    assert '<p class="note">the recipe has changed</p>' in to_html(data)
    assert json.loads(to_json(data))["warnings"] == ["the recipe has changed"]
