from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
from sentbed import RunError
from sentbed._run.report_json import record_json as to_json
from sentbed.protocols import Items, ReportData, Score
from sentbed_report import score_items as items
from sentbed_report.paper_style_tables import AVERAGE, paper_tables
from sentbed_report.run_comparison import compare_runs, comparison_json, comparison_text
from sentbed_report.run_report import bootstrapped
from sentbed_report.run_results import read_results
from sentbed_report.run_tables import run_tables
from sentbed_report.statistics.resampling import compare
from sentbed_report.table_formats import (
    latex,
    to_csv,
    to_latex,
    to_long_csv,
    to_markdown,
    to_text,
    write_tables,
)

ENTRIES_OF_ENCODERS = ("pooler", "precision", "max_length", "prompt")


def score(
    task: str,
    value: float,
    encoder: str = "en",
    metric: str = "accuracy",
    evaluator: str = "transfer",
    of: Items | None = None,
    **entries: Any,
) -> Score:
    note = entries.pop("note", "")
    of_encoder = {name: entries.pop(name) for name in ENTRIES_OF_ENCODERS if name in entries}
    protocol = {"encoder": of_encoder, "evaluator": {"id": "senteval", **entries}}
    return Score(task, metric, value, protocol, encoder, evaluator, of, note=note)


def rows(*scores: Score) -> list[tuple[str, Score]]:
    return [(one.encoder, one) for one in scores]


def found_items(seed: int, share: float = 0.5, n: int = 200) -> Items:
    return Items("mean", (np.random.default_rng(seed).random(n) < share).astype(float))


Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a run directory with these scores."""

    def run(name: str, *scores: Score, directory: str | None = None) -> Path:
        data = ReportData(name, "finished", None, "2026-03-04T14:05:33+00:00", 1.0, "", {}, scores)
        path = tmp_path / (directory or name)
        path.mkdir()
        (path / "report.json").write_text(to_json(data))
        items.keep_items(path, scores)
        return path

    return run


# --- tables ------------------------------------------------------------------------------------------------


def test_columns_are_tasks_in_the_order_of_the_scores_and_the_average_comes_last() -> None:
    (table,) = paper_tables(
        rows(
            *(score("MR", 80.0), score("CR", 90.0), score("SST2", 70.0)),
            *(score("MR", 60.0, "zh"), score("CR", 70.0, "zh")),
        )
    )
    assert table.headings == ("MR", "CR", "SST2", "Avg")
    assert table.encoders == ("en", "zh")
    assert [column.values for column in table.columns] == [(80, 60), (90, 70), (70, None), (80, None)]


def test_only_the_first_metric_of_a_task_is_printed() -> None:
    (table,) = paper_tables(
        rows(
            score("STS12", 72.0, metric="spearman", aggregation="all"),
            score("STS12", 70.0, metric="spearman-mean", aggregation="mean"),
            score("MRPC", 75.0, metric="spearman", aggregation="single"),
            score("MRPC", 76.0, metric="pearson", aggregation="single"),
        )
    )
    assert [(column.task, column.metric, column.values) for column in table.columns] == [
        ("STS12", "spearman", (72.0,)),
        ("MRPC", "spearman", (75.0,)),
        (AVERAGE, "spearman", (73.5,)),
    ]
    assert table.note == "transfer; spearman; senteval all, senteval single"


def test_an_average_that_the_evaluator_gives_is_taken_and_stands_last() -> None:
    (table,) = paper_tables(rows(score("MR", 80.0), score("AVG", 12.5, metric="mean"), score("CR", 90.0)))
    assert table.headings == ("MR", "CR", "Avg")
    assert table.columns[-1].values == (12.5,)


def test_one_task_has_no_average() -> None:
    (table,) = paper_tables(rows(score("MR", 80.0)))
    assert table.headings == ("MR",)


def test_metrics_that_differ_are_named_in_the_heading() -> None:
    (table,) = paper_tables(rows(score("CoLA", 40.0, metric="matthews"), score("QQP", 80.0)))
    assert table.headings == ("CoLA (matthews)", "QQP (accuracy)", "Avg")


def test_an_average_of_unlike_metrics_is_printed_and_not_marked() -> None:
    scores = rows(score("CoLA", 40.0, metric="matthews"), score("QQP", 80.0)) + rows(
        score("CoLA", 50.0, "other", metric="matthews"), score("QQP", 90.0, "other")
    )
    average = paper_tables(scores)[0].columns[-1]
    assert average.values == (60.0, 70.0)
    assert average.places(2) == (None, None)


def test_what_only_the_encoders_differ_in_stands_in_one_column() -> None:
    (table,) = paper_tables(
        rows(
            score("MR", 80.0, pooler={"train": "mean"}, precision="fp32", max_length=32, note="odd"),
            score("MR", 60.0, "zh", pooler={"train": "first"}, precision="bf16", prompt={"template": "x"}),
        )
    )
    assert table.columns[0].values == (80.0, 60.0)


def test_unlike_protocols_in_one_column_are_refused_and_named() -> None:
    with pytest.raises(RunError) as error:
        paper_tables(rows(score("MR", 80.0, folds=10, data="a"), score("MR", 60.0, "zh", folds=5, data="a")))
    assert str(error.value) == (
        "`MR` of `zh` is of another protocol than the column it would stand in: `folds` (10 against 5); "
        "make a table of each"
    )
    with pytest.raises(RunError, match=r"`metric` \(accuracy against f1\)"):
        paper_tables(rows(score("MR", 80.0), score("MR", 60.0, "zh", metric="f1")))


def test_one_task_under_two_protocol_ids_stands_in_two_tables() -> None:
    def other(task: str, value: float) -> Score:
        return attrs.evolve(score(task, value), protocol={"encoder": {}, "evaluator": {"id": "logistic"}})

    tables = paper_tables(
        rows(score("MR", 80.0), score("CR", 90.0), other("TREC", 82.0), other("MR", 81.0), other("CR", 91.0))
    )
    assert [table.headings for table in tables] == [("MR", "CR", "Avg"), ("TREC", "MR", "CR", "Avg")]
    assert [table.protocols for table in tables] == [("senteval",), ("logistic",)]
    assert tables[1].columns[-1].values == (pytest.approx((81 + 82 + 91) / 3),)


def test_in_a_run_what_was_scored_together_stands_together() -> None:
    def both(encoder: str) -> list[Score]:
        new = {"classifier": {"protocol": "logistic"}}
        return [
            *(score("MR", 80.0, encoder), score("CR", 90.0, encoder)),
            *(score("MR", 81.0, encoder, **new), score("TREC", 70.0, encoder, **new)),
        ]

    tables = paper_tables(rows(*both("en@start"), *both("en")), strict=False)
    assert [(table.headings, table.encoders) for table in tables] == [
        (("MR", "CR", "Avg"), ("en@start", "en")),
        (("MR", "TREC", "Avg"), ("en@start", "en")),
    ]


def geometry(encoder: str, shift: float) -> list[Score]:
    return [
        Score(
            "STSB",
            metric,
            value + shift,
            {"encoder": {}, "evaluator": {"id": name, "formula": metric}},
            encoder,
            "geometry",
            direction="lower",
            axis=axis,
        )
        for name in ("wang-isola", "st5")
        for metric, value, axis in (("alignment", 0.2, "y"), ("uniformity", -2.0, "x"))
    ]


def test_of_two_conventions_each_has_its_table_and_nothing_is_marked_as_best() -> None:
    tables = paper_tables(rows(*geometry("a", 0), *geometry("b", 0.1)))
    assert [(t.protocols, t.metrics) for t in tables] == [
        (("wang-isola",), ("alignment",)),
        (("st5",), ("alignment",)),
    ]
    assert "**" not in to_markdown(tables[0])
    assert "| a | 0.200 |" in to_markdown(tables[0])


BEST = rows(
    *(score("MR", 80.004, "a"), score("CR", 90.0, "a")),
    *(score("MR", 80.001, "b"), score("CR", 80.0, "b")),
    *(score("MR", 70.0, "c&_d"), score("CR", -1.5, "c&_d")),
)


def test_latex_marks_the_best_and_the_second_best_as_printed() -> None:
    (table,) = paper_tables(BEST)
    assert to_latex(table).splitlines() == [
        r"\begin{table}",
        r"\centering",
        r"\caption{transfer; accuracy; senteval. Bold: the best of a column; underlined: the second best.}",
        r"\label{tab:transfer-accuracy-senteval}",
        r"\begin{tabular}{lrrr}",
        r"\toprule",
        r"Encoder & MR & CR & Avg \\",
        r"\midrule",
        r"a & \textbf{80.00} & \textbf{90.00} & \textbf{85.00} \\",
        r"b & \textbf{80.00} & \underline{80.00} & \underline{80.00} \\",
        r"c\&\_d & \underline{70.00} & $-$1.50 & 34.25 \\",
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]


def test_of_a_metric_of_which_lower_is_better_the_smallest_is_marked_as_the_best() -> None:
    numbers = {"a": 30.0, "b": 10.0, "c": 20.0}
    found = [score("T", value, encoder, "error") for encoder, value in numbers.items()]
    (table,) = paper_tables(rows(*(attrs.evolve(one, direction="lower") for one in found)))
    assert r"b & \textbf{10.00} \\" in to_latex(table)
    assert r"c & \underline{20.00} \\" in to_latex(table)
    assert "| b | **10.00** |" in to_markdown(table)
    (table,) = paper_tables(rows(*(attrs.evolve(one, direction="none") for one in found)))
    assert "textbf" not in to_latex(table)


def test_one_row_has_no_best() -> None:
    (table,) = paper_tables(rows(score("MR", 80.0), score("CR", math.nan)))
    assert r"en & 80.00 & not finite & not finite \\" in to_latex(table)
    assert "**" not in to_markdown(table)


def test_latex_escapes_every_special_sign() -> None:
    assert latex("a_b & 50% #1 {x} \\y ~z ^w $v <u> |t|\n") == (
        r"a\_b \& 50\% \#1 \{x\} \textbackslash{}y \textasciitilde{}z \textasciicircum{}w \$v "
        r"\textless{}u\textgreater{} \textbar{}t\textbar{}"
    )


def test_markdown_csv_and_text_say_the_same() -> None:
    (table,) = paper_tables(BEST)
    assert to_markdown(table).splitlines()[:4] == [
        "| encoder | MR | CR | Avg |",
        "| --- | --: | --: | --: |",
        "| a | **80.00** | **90.00** | **85.00** |",
        "| b | **80.00** | *80.00* | *80.00* |",
    ]
    assert to_markdown(table).endswith("\n\nBold: the best of a column; italics: the second best.\n")
    header, *read = csv.reader(to_csv(table).splitlines())
    assert header == ["encoder", "MR", "CR", "Avg"]
    assert [float(cell) for cell in read[0][1:]] == pytest.approx([80.004, 90.0, 85.002])
    assert to_text(table).splitlines()[1:] == [
        "          MR      CR     Avg",
        "a     80.00*  90.00*  85.00*",
        "b     80.00*   80.00   80.00",
        "c&_d   70.00   −1.50   34.25",
        "*: the best of a column.",
    ]


def test_a_run_directory_gets_a_table_of_each_protocol(tmp_path: Path) -> None:
    scores = [
        *(score("MR", 80.0, "en@start", data="old"), score("MR", 82.0, data="new")),
        score("STS12", 70.0, evaluator="../sts"),
    ]
    write_tables(tmp_path, scores)
    found = {path.name for path in (tmp_path / "tables").iterdir()}
    names = ("transfer-senteval", "transfer-senteval-2", ".._sts-senteval")
    assert found == {f"{name}.{suffix}" for name in names for suffix in ("md", "tex", "csv")}
    assert (tmp_path / "tables" / "transfer-senteval.csv").read_text() == "encoder,MR\nen@start,80.0\n"
    assert (tmp_path / "tables" / "transfer-senteval-2.csv").read_text() == "encoder,MR\nen,82.0\n"


def test_a_task_scored_twice_in_one_run_is_in_two_tables_or_refused() -> None:
    """Also where it is the only task, and nothing stands between the two."""
    scores = [("en", score("MR", 75.0, folds=10)), ("en", score("MR", 70.0, folds=5))]
    assert [table.columns[0].values for table in paper_tables(scores, strict=False)] == [(75.0,), (70.0,)]
    with pytest.raises(RunError, match=r"`folds` \(10 against 5\)"):
        paper_tables(scores)


def test_one_metric_is_asked_for_and_several_tables_are_one_csv(write: Write) -> None:
    f1 = attrs.evolve(score("MRPC", 81.0), metric="f1")
    run = write("one", score("MRPC", 72.0), f1, score("STS12", 70.0, evaluator="sts"))
    (table,) = run_tables([run], metric="f1")
    assert table.columns[0].values == (81.0,)
    lines = to_long_csv(run_tables([run])).splitlines()
    assert lines == [
        "evaluator,protocol,encoder,task,metric,value",
        "transfer,senteval,en,MRPC,accuracy,72.0",
        "sts,senteval,en,STS12,accuracy,70.0",
    ]


def test_rows_of_several_runs_are_named_after_run_and_encoder(write: Write, tmp_path: Path) -> None:
    one, two = write("one", score("MR", 80.0)), write("two", score("MR", 70.0), score("MR", 60.0, "en@start"))
    assert run_tables([one])[0].encoders == ("en",)
    assert run_tables([one, two])[0].encoders == ("one/en", "two/en", "two/en@start")
    again = write("one", score("MR", 75.0), directory="again")
    assert run_tables([one, again])[0].encoders == (f"{one}/en", f"{again}/en")


def test_a_table_of_one_protocol_id_or_evaluator(write: Write) -> None:
    said = {"id": "logistic", "classifier": {"C": [1, 2], "folds": 10}}
    logistic = attrs.evolve(score("MR", 81.0), protocol={"encoder": {}, "evaluator": said})
    run = write("one", score("MR", 80.0), logistic, score("STS12", 70.0, evaluator="sts"))
    assert len(run_tables([run])) == 3
    (table,) = run_tables([run], "transfer", "logistic")
    assert table.columns[0].values == (81.0,)
    assert run_tables([run], protocol="classifier.folds=10") == (table,)
    with pytest.raises(RunError, match=r"no score is of the protocol `logistc`\. Did you mean `logistic`"):
        run_tables([run], protocol="logistc")


# --- comparisons -------------------------------------------------------------------------------------------


def test_two_runs_are_compared_score_by_score(write: Write) -> None:
    a, b = found_items(1, 0.5), found_items(2, 0.8)
    one = write("one", score("MR", 50.0, of=a, pooler="mean"), score("CR", 70.0, pooler="mean"))
    two = write("two", score("CR", 75.0, "zh", pooler="first"), score("MR", 80.0, "zh", of=b, pooler="first"))
    found = compare_runs(one, two)
    assert (found.a, found.b) == ("one/en", "two/zh")
    assert [(row.a.task, row.b.value) for row in found.rows] == [("MR", 80.0), ("CR", 75.0)]
    assert found.rows[0].comparison == compare(a, b)
    assert found.rows[1].comparison is None
    assert found.remarks == ("The encoders differ in `pooler` (mean against first).",)
    text = comparison_text(found)
    (mr,) = re.findall(r"^MR .*$", text, re.MULTILINE)
    assert re.search(r"50\.00 +80\.00 +\+30\.00 +\d+\.\d\d to \d+\.\d\d +0\.002 ‡$", mr)
    assert "not corrected for the number of comparisons" in text
    assert "Where there is no p" in text
    document = json.loads(comparison_json(found))
    assert document["comparisons"][0]["p_value"] == pytest.approx(2 / 1001)
    assert document["comparisons"][1] == {
        "evaluator": "transfer",
        "task": "CR",
        "metric": "accuracy",
        "protocol": {"id": "senteval"},
        "a": 70.0,
        "b": 75.0,
        "difference": 5.0,
        "low": None,
        "high": None,
        "p_value": None,
    }


def test_the_method_and_the_number_of_resamples_are_those_asked_for(write: Write) -> None:
    a, b = found_items(1), found_items(2)
    one, two = write("one", score("MR", 50.0, of=a)), write("two", score("MR", 52.0, of=b))
    found = compare_runs(one, two, (), 300, "randomisation")
    assert found.rows[0].comparison == compare(a, b, 300, method="randomisation")
    assert "by approximate randomisation, 300 resamples" in comparison_text(found)


def test_scores_of_unlike_protocol_are_not_compared_and_the_entries_are_named(write: Write) -> None:
    one = write("one", score("MR", 80.0, classifier={"folds": 10}), score("CR", 70.0), score("TREC", 1.0))
    unlike = score("MR", 81.0, classifier={"folds": 5}, mode="fast")
    two = write("two", unlike, score("CR", 71.0), score("SST2", 1.0))
    found = compare_runs(one, two)
    assert [row.a.task for row in found.rows] == ["CR"]
    assert found.remarks == (
        "transfer MR accuracy (senteval): not compared, the protocols differ in `classifier.folds` "
        "(10 against 5), `mode` (nothing against fast)",
        "transfer TREC accuracy (senteval): only one/en has it",
        "transfer SST2 accuracy (senteval): only two/en has it",
    )
    three = write("three", unlike)
    with pytest.raises(
        RunError, match=r"nothing of one/en and three/en can be compared:\n.*\.folds` \(10 ag"
    ):
        compare_runs(one, three)


def test_a_score_under_two_protocols_is_compared_with_its_like(write: Write) -> None:
    one = write("one", score("MR", 80.0, folds=10), score("MR", 79.0, folds=5))
    two = write("two", score("MR", 69.0, folds=5), score("MR", 70.0, folds=10))
    assert [(row.a.value, row.b.value) for row in compare_runs(one, two).rows] == [(80, 70), (79, 69)]


def test_items_that_cannot_be_paired_are_a_remark(write: Write) -> None:
    one = write("one", score("MR", 80.0, of=found_items(1)), score("CR", 1.0))
    two = write("two", score("MR", 81.0, of=found_items(1, n=199)), score("CR", 2.0))
    (remark,) = compare_runs(one, two).remarks
    assert "MR accuracy (senteval): the two scores cannot be paired: one was scored on 200 items" in remark


def test_scores_of_two_versions_of_a_plugin_are_compared_and_the_versions_remarked(write: Write) -> None:
    def by(version: str, value: float, task: str = "MR") -> Score:
        return attrs.evolve(score(task, value, of=found_items(3)), plugin=f"sentbed-evaluators {version}")

    one = write("one", by("0.1.0", 80.0), by("0.1.0", 70.0, "CR"))
    two = write("two", by("0.2.0", 81.0), by("0.2.0", 71.0, "CR"))
    assert [one.plugin for one in read_results(two).scores] == ["sentbed-evaluators 0.2.0"] * 2
    found = compare_runs(one, two)
    assert [row.comparison is not None for row in found.rows] == [True, True]
    assert found.remarks == ("A was scored by sentbed-evaluators 0.1.0, B by sentbed-evaluators 0.2.0.",)
    (table,) = run_tables([one, two])
    assert [column.values for column in table.columns[:2]] == [(80.0, 81.0), (70.0, 71.0)]
    assert compare_runs(one, write("three", by("0.1.0", 82.0))).remarks[1:] == ()


def test_the_encoder_is_the_trained_one_or_has_to_be_named(write: Write) -> None:
    one = write("one", score("MR", 70.0, "en@start"), score("MR", 80.0))
    two = write("two", score("MR", 60.0), score("MR", 50.0, "zh"))
    assert compare_runs(one, write("three", score("MR", 1.0))).a == "one/en"
    assert compare_runs(one, two, ["en"]).b == "two/en"
    assert compare_runs(one, two, ["en@start", "zh"]).rows[0].b.value == 50.0
    assert compare_runs(one, one, ["en@start", "en"]).rows[0].b.value == 80.0
    with pytest.raises(RunError, match="has scores of `en`, `zh`; choose one with `--encoder`"):
        compare_runs(one, two)
    with pytest.raises(RunError, match=r"no scores of an encoder `e`\. "):
        compare_runs(one, two, ["e"])
    with pytest.raises(RunError, match="both are the encoder `en` of one run; name two of `en@start`, `en`"):
        compare_runs(one, one)


@pytest.mark.parametrize("content", [None, b"", b"{}", b'{"name": "x", "scores": [{}]}', b"[]"])
def test_what_is_no_run_directory_is_named(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "report.json").write_bytes(content)
    with pytest.raises(RunError, match="is not a run directory"):
        read_results(tmp_path)


def test_a_run_without_scores_says_what_to_add(write: Write) -> None:
    with pytest.raises(RunError, match=r"has no scores; add an `\[\[evaluate\]\]`"):
        read_results(write("empty"))


# --- within a run ------------------------------------------------------------------------------------------


def test_within_a_run_start_is_compared_with_end_and_ends_with_each_other() -> None:
    names = ("en@start", "zh@start", "en", "zh")
    scores = [score("MR", 1.0, name, of=found_items(n), pooler=name) for n, name in enumerate(names)]
    found = bootstrapped([*scores, score("CR", 1.0)], 200, 0.9, 5)
    assert [(one.first, one.second) for one in found.differences] == [
        ("en@start", "en"),
        ("en", "zh"),
        ("zh@start", "zh"),
    ]
    first = scores[0].items
    last = scores[2].items
    assert first is not None
    assert last is not None
    assert found.differences[0].comparison == compare(first, last, 200, 0.9, 5)
    assert found.intervals[-1] is None
    assert all(interval is not None for interval in found.intervals[:-1])


@pytest.mark.parametrize(
    "other",
    [
        score("CR", 1.0, of=found_items(1)),
        score("MR", 1.0, metric="f1", of=found_items(1)),
        score("MR", 1.0, evaluator="other", of=found_items(1)),
        score("MR", 1.0, of=found_items(1), data="another"),
        score("MR", 1.0, of=found_items(1, n=10)),
        score("MR", 1.0),
    ],
)
def test_within_a_run_unlike_scores_are_not_compared(other: Score) -> None:
    before = score("MR", 1.0, "en@start", of=found_items(2))
    assert bootstrapped([before, other], 100, 0.95, 0).differences == ()


def test_items_that_cannot_be_used_leave_a_score_without_interval() -> None:
    bad = score("MR", 1.0, of=Items("mean", np.array([math.nan])))
    assert bootstrapped([bad], 100, 0.95, 0).intervals == (None,)
