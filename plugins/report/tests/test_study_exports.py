from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest
from pyarrow import parquet
from sentbed.errors import RuntimeUnavailableError
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.exports import (
    MEASURED,
    to_csv,
    to_json,
    to_long_csv,
    to_tidy_csv,
    write_exports,
    write_parquet,
)
from sentbed_report.study.published_number_comparison import published_numbers, published_table
from sentbed_report.study.published_number_config import Published
from sentbed_report.study.study_data import AxisInfo, StudyData
from sentbed_report.study.summary_tables import Summary
from sentbed_report.table_formats import to_latex, to_markdown, to_text

Make = Callable[..., StudyData]

AXIS = AxisInfo("pooler", ("first", "mean", 'odd & 50% | <b>_x_</b> \\ "q"'))
NUMBERS = {
    "first": {1: {"MR": 50.0, "CR": 60.0}, 2: {"MR": 51.0, "CR": 61.0}},
    "mean": {1: {"MR": 80.0, "CR": 90.0}, 2: {"MR": 82.0, "CR": 90.0}},
    AXIS.labels[2]: {1: {"MR": 49.0, "CR": -1.5}, 2: {"MR": 50.0, "CR": -2.5}},
}
EXPECTED = {"Table 1": Published({"mean": {"MR": 81.05, "CR": 90.0, "AVG": 70.0}}, 0.1)}


@pytest.fixture
def data(study_of: Make) -> StudyData:
    return study_of(
        NUMBERS, [AXIS], baseline="first", items=True, expected=EXPECTED, excluded=(("x", ("no mask",)),)
    )


@pytest.fixture
def summary(data: StudyData) -> Summary:
    (found,) = summarise(data)
    return found


# --- LaTeX -------------------------------------------------------------------------------------------------


def columns_of(latex: str) -> list[int]:
    """Check that braces and environments are balanced; return the number of columns of each row."""
    text = re.sub(r"\\[\\{}&%#$_]", "", latex)
    assert not re.search(r"[%#~^_]", re.sub(r"\$\^\{\\(dag|ddag)ger\}\$", "", text))
    depth = 0
    for sign in text:
        depth += {"{": 1, "}": -1}.get(sign, 0)
        assert depth >= 0
    assert depth == 0
    assert text.count("$") % 2 == 0
    assert all(ord(sign) < 128 for sign in text)
    begun = re.findall(r"\\(begin|end)\{(\w+)\}", latex)
    assert begun == [("begin", "table"), ("begin", "tabular"), ("end", "tabular"), ("end", "table")]
    rows = re.findall(r"^(.*?) \\\\$", latex, re.MULTILINE)
    return [len(re.findall(r"(?<!\\)&", row)) + 1 for row in rows]


def test_latex_has_as_many_cells_in_each_row_and_nothing_unescaped(summary: Summary) -> None:
    latex = to_latex(summary)
    assert columns_of(latex) == [4] * 5
    assert r"\begin{tabular}{lrrr}" in latex
    assert [latex.index(rule) for rule in (r"\toprule", r"\midrule", r"\bottomrule")] == sorted(
        latex.index(rule) for rule in (r"\toprule", r"\midrule", r"\bottomrule")
    )
    assert r"odd \& 50\% \textbar{} \textless{}b\textgreater{}\_x\_" in latex


def test_latex_marks_best_second_deviation_and_significance(summary: Summary) -> None:
    rows = re.findall(r"^(.*) \\\\$", to_latex(summary), re.MULTILINE)
    assert rows[1] == (
        r"first (baseline) & \underline{50.50} $\pm$ 0.71 & \underline{60.50} $\pm$ 0.71 "
        r"& \underline{55.50} $\pm$ 0.71"
    )
    assert rows[2].startswith(r"mean & \textbf{81.00} $\pm$ 1.41$^{\d")
    assert rows[3] == r"\quad published & 81.05 & 90.00 & 70.00"
    assert r"$-$2.00 $\pm$ 0.71" in rows[4]


def test_the_caption_states_protocol_seeds_and_test(summary: Summary) -> None:
    (caption,) = re.findall(r"\\caption\{(.*)\}\n", to_latex(summary))
    assert caption.startswith(
        "toy: transfer; accuracy; p. Mean and standard deviation over 2 seeds (1, 2). Tests against first, "
        "each seed against the same seed: two-sided, Student's t over"
    )
    assert "Holm's correction over the cells in each column." in caption
    assert caption.endswith(
        "Bold: the best of a column; underlined: the second best. "
        r"$^{\dagger}$ p \textless{} 0.05, $^{\ddagger}$ p \textless{} 0.01, against first."
    )


# --- Markdown, CSV, text -----------------------------------------------------------------------------------


def test_markdown_keeps_its_columns_whatever_a_label_says(data: StudyData, summary: Summary) -> None:
    lines = [
        *to_markdown(summary).splitlines(),
        *published_table(published_numbers(data, [summary])).splitlines(),
    ]
    table = [line for line in lines if line.startswith("|")]
    assert [len(re.findall(r"(?<!\\)\|", line)) for line in table[:5]] == [5] * 5
    assert table[2] == "| first (baseline) | *50.50* ± 0.71 | *60.50* ± 0.71 | *55.50* ± 0.71 |"
    assert re.fullmatch(r"\| mean \| \*\*81\.00\*\* ± 1\.41[†‡] \| .* \|", table[3])
    assert r"\<b\>" in table[4]
    assert "| mean | MR | 81.00 | 81.05 | −0.05 | ±0.10 | met | Table 1 |" in table
    assert any("**not met**" in line for line in table)


def test_wide_csv_has_mean_deviation_and_p_of_each_column(summary: Summary) -> None:
    header, *rows = csv.reader(to_csv(summary).splitlines())
    found = [dict(zip(header, row, strict=True)) for row in rows]
    assert [row["pooler"] for row in found] == list(AXIS.labels)
    assert (found[0]["MR mean"], found[0]["MR seeds"], found[0]["MR corrected p"]) == ("50.5", "2", "")
    assert float(found[1]["MR std"]) == pytest.approx(math.sqrt(2))
    assert float(found[1]["MR difference"]) == 30.5
    assert 0 < float(found[1]["MR corrected p"]) < 0.05
    assert (found[1]["MR published"], found[1]["CR published"]) == ("81.05", "90.0")
    assert (found[0]["MR published"], found[0]["CR published"]) == ("", "")


def test_several_tables_are_one_table_of_csv_under_one_header(summary: Summary) -> None:
    found = [*csv.DictReader(to_tidy_csv([summary, attrs.evolve(summary, protocol="other")]).splitlines())]
    size = len(summary.rows) * len(summary.columns)
    assert [row["table"] for row in found] == [found[0]["table"]] * size + [found[-1]["table"]] * size
    assert found[0]["table"] != found[-1]["table"]
    assert [row["task"] for row in found[:3]] == [column.task for column in summary.columns]
    assert (found[0]["cell"], found[0]["pooler"], found[0]["mean"]) == ("first", "first", "50.5")
    # The same numbers as in the table alone.
    (header, *rows) = csv.reader(to_csv(summary).splitlines())
    for line, row in zip(rows, (found[i : i + 3] for i in range(0, size, 3)), strict=True):
        assert line[header.index("MR mean") :] == [one[what] for one in row for what in MEASURED]


def test_long_csv_has_each_score_of_each_seed(data: StudyData, summary: Summary) -> None:
    found = list(csv.DictReader(to_long_csv(data, [summary]).splitlines()))
    assert len(found) == 3 * 2 * 3
    assert found[0] == {
        "evaluator": "transfer",
        "protocol": "p",
        "metric": "accuracy",
        "cell": "first",
        "encoder": "en",
        "pooler": "first",
        "seed": "1",
        "task": "MR",
        "value": "50.0",
        "direction": "higher",
        "degenerate": "",
    }
    assert [row["value"] for row in found if row["task"] == "AVG"][:2] == ["55.0", "56.0"]


def test_text_stands_in_columns_with_the_best_starred(summary: Summary) -> None:
    note, header, first, mean, *_ = to_text(summary).splitlines()
    assert note == "transfer; accuracy; p"
    assert header.split() == ["MR", "CR", "Avg"]
    assert first.split("  ")[0] == "first (baseline)"
    assert re.search(r" 81\.00 ± 1\.41[†‡]\*", mean)


def test_why_something_was_not_judged_is_said_once(study_of: Make) -> None:
    numbers = {name: {1: seeds[1]} for name, seeds in NUMBERS.items()}
    (found,) = summarise(study_of(numbers, baseline="first"))
    text = to_text(found)
    assert text.count("there is one seed, and the score has no items") == 1
    assert "Not judged everywhere (mean; odd" in text


# --- JSON, Parquet, files ----------------------------------------------------------------------------------


def test_json_says_everything_and_has_no_numbers_that_are_not_finite(
    data: StudyData, summary: Summary
) -> None:
    found = json.loads(to_json(data, [summary]), parse_constant=pytest.fail)
    assert (found["study"], found["baseline"], found["seeds"], found["total"]) == ("toy", "first", [1, 2], 6)
    assert found["excluded"] == [{"cell": "x", "reasons": ["no mask"]}]
    assert [cell["name"] for cell in found["cells"]] == list(NUMBERS)
    value = found["tables"][0]["rows"][1]["values"][0]
    assert (value["mean"], value["seeds"], value["place"]) == (81.0, {"1": 80.0, "2": 82.0}, 1)
    judged = summary.rows[1].cells[0].judged
    assert judged is not None
    assert value["against_baseline"]["p_value"] == judged.p_value
    assert value["against_baseline"]["basis"] == "items and seeds"
    assert [one["verdict"] for one in found["published"]] == ["met", "met", "not met"]


def test_parquet_has_the_rows_of_the_long_csv(tmp_path: Path, data: StudyData, summary: Summary) -> None:
    write_parquet(tmp_path / "r.parquet", data, [summary])
    found = parquet.read_table(tmp_path / "r.parquet")
    expected = list(csv.DictReader(to_long_csv(data, [summary]).splitlines()))
    assert [{name: str(value) for name, value in row.items()} for row in found.to_pylist()] == expected
    assert [str(field.type) for field in found.schema][-5:] == ["int64", "string", "double", *2 * ["string"]]
    write_parquet(tmp_path / "empty.parquet", data, [])
    assert parquet.read_table(tmp_path / "empty.parquet").schema == found.schema


def test_every_file_is_written(tmp_path: Path, data: StudyData) -> None:
    write_exports(tmp_path, data)
    names = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert names == {
        *(f"tables/transfer-p.{suffix}" for suffix in ("md", "csv", "tex")),
        *("tables/scores.csv", "results.json", "results.parquet"),
    }
    assert "Table 1" in (tmp_path / "tables/transfer-p.md").read_text()


def test_without_pyarrow_there_is_no_parquet_and_a_sentence(
    tmp_path: Path, data: StudyData, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_exports(tmp_path, data)
    monkeypatch.setattr("sentbed_report.study.exports.find_spec", lambda name: None)
    with pytest.raises(RuntimeUnavailableError, match=r"pip install 'sentbed-report\[parquet\]'"):
        write_parquet(tmp_path / "r.parquet", data, [])
    write_exports(tmp_path, data)
    assert not (tmp_path / "results.parquet").exists()
    assert (tmp_path / "results.json").exists()


def test_names_of_files_are_safe_and_do_not_take_each_others_place(tmp_path: Path, study_of: Make) -> None:
    tasks = {"MR": 1.0, "MR/a b": 2.0, "MR/a_b": 3.0, "CR/../x": 4.0}
    write_exports(tmp_path, study_of({"a": {1: tasks}}))
    assert {path.stem for path in (tmp_path / "tables").glob("*.tex")} == {
        "transfer-p",
        "transfer-p-a_b",
        "transfer-p-a_b-2",
    }
    assert "CR (../x)" in (tmp_path / "tables" / "transfer-p.tex").read_text()


def test_a_study_that_has_not_begun_leaves_its_state_only(tmp_path: Path, study_of: Make) -> None:
    write_exports(tmp_path, study_of({"a": {1: {}}}, statuses={"a": "waiting"}))
    found = json.loads((tmp_path / "results.json").read_text())
    assert (found["finished"], found["total"], found["tables"]) == (0, 1, [])
    assert (tmp_path / "tables" / "scores.csv").read_text().count("\n") == 1


def test_unlike_protocols_are_files_of_their_own(tmp_path: Path, study_of: Make) -> None:
    data = study_of({"a": {1: {"MR": 1.0}}, "b": {1: {"MR/f1": 2.0}}})
    write_exports(tmp_path, data)
    tables = [(tmp_path / "tables" / f"transfer-p{number}.md").read_text() for number in ("", "-2")]
    assert ["| a |" in table for table in tables] == [True, False]
    assert ["| b |" in table for table in tables] == [False, True]
    assert "unlike other tables in metric (f1 against accuracy)" in tables[1]


def test_tables_have_labels_of_their_own(tmp_path: Path, study_of: Make) -> None:
    def label(path: Path) -> str:
        (found,) = re.findall(r"\\label\{tab:([a-z0-9-]+)\}", path.read_text())
        return found

    data = study_of({"a": {1: {"MR": 1.0, "MR/a b": 2.0, "MR/a-b": 3.0}}, "b": {1: {"MR/f1": 2.0}}})
    runs = data.cells[0].runs
    other = [
        attrs.evolve(score, protocol={"encoder": {}, "evaluator": {"id": "Q"}}) for score in runs[0].scores
    ]
    more = tuple(attrs.evolve(run, scores=(*run.scores, *other)) for run in runs)
    data = attrs.evolve(data, cells=(attrs.evolve(data.cells[0], runs=more), data.cells[1]))
    write_exports(tmp_path, data)
    labels = {path.stem: label(path) for path in (tmp_path / "tables").glob("*.tex")}
    assert labels["transfer-p"] == "toy-transfer-p"
    assert labels["transfer-Q-a_b"] == "toy-transfer-q-a-b"
    assert len(set(labels.values())) == len(labels) == 7


def test_numbered_names_take_no_other_tables_place(tmp_path: Path, study_of: Make) -> None:
    numbers = {"a": {1: {"MR/x": 1.0, "CR/x": 1.0}}, "b": {1: {"MR/y": 1.0}}}
    data = study_of(numbers)
    (run,) = data.cells[1].runs
    named = (
        *run.scores,
        attrs.evolve(run.scores[0], evaluator="transfer-p-2", protocol={"encoder": {}, "evaluator": {}}),
    )
    upper = attrs.evolve(run.scores[0], evaluator="SCORES", protocol={"encoder": {}, "evaluator": {}})
    cell = attrs.evolve(data.cells[1], runs=(attrs.evolve(run, scores=(*named, upper)),))
    data = attrs.evolve(data, cells=(data.cells[0], cell))
    write_exports(tmp_path, data)
    names = {path.stem for path in (tmp_path / "tables").glob("*.tex")}
    assert names == {"transfer-p", "transfer-p-2", "transfer-p-2-2", "SCORES-2"}
    assert (tmp_path / "tables" / "scores.csv").read_text().startswith("evaluator,")


def test_tables_of_an_earlier_state_go_and_what_others_wrote_stays(tmp_path: Path, study_of: Make) -> None:
    write_exports(tmp_path, study_of({"a": {1: {"MR": 1.0, "MR/f1": 2.0}}}))
    tables = tmp_path / "tables"
    (tables / "mine.tex").write_text("by hand")
    outside = tmp_path / "outside.md"
    outside.write_text("by hand")
    assert (tables / "transfer-p-f1.csv").is_file()
    found = json.loads((tmp_path / "results.json").read_text())
    assert [table["name"] for table in found["tables"]] == ["transfer-p", "transfer-p-f1"]
    found["tables"] += [{"name": "../outside"}, {"name": 3}]
    (tmp_path / "results.json").write_text(json.dumps(found))
    write_exports(tmp_path, study_of({"a": {1: {"MR": 1.0}}}))
    assert {path.name for path in tables.iterdir()} == {
        *(f"transfer-p.{suffix}" for suffix in ("md", "csv", "tex")),
        *("scores.csv", "mine.tex"),
    }
    assert outside.is_file()
    for broken in ("", "[]", '{"tables": 3}', '{"tables": [{}]}'):
        (tmp_path / "results.json").write_text(broken)
        write_exports(tmp_path, study_of({"a": {1: {"MR": 1.0}}}))


@pytest.mark.parametrize("sign", list("=+-@\t\r"))
def test_no_text_of_a_csv_file_is_a_formula(study_of: Make, sign: str) -> None:
    label = f"{sign}cmd|' /C calc'!A0"
    axis = AxisInfo(f"{sign}axis", (label, "-0.5"))
    data = study_of({label: {1: {f"{sign}MR": -50.0}}, "-0.5": {1: {f"{sign}MR": 60.0}}}, [axis])
    (summary,) = summarise(data)
    for text in (to_csv(summary), to_long_csv(data, [summary])):
        cells = [cell for row in csv.reader(io.StringIO(text, newline="")) for cell in row]
        formulas = {cell for cell in cells if cell.startswith(tuple("=+-@\t\r"))}
        # Numbers are what they are, also those that are labels.
        assert formulas == {"-50.0", "-0.5"}
        assert f"'{label}".replace("\r", "\n") in cells


def test_what_is_not_finite_is_nan_and_what_was_not_measured_is_empty(study_of: Make) -> None:
    numbers = {"a": {1: {"MR": math.nan}, 2: {"MR": 1.0}}, "b": {1: {}, 2: {}}}
    data = study_of(numbers, statuses={"b": "failed"})
    (summary,) = summarise(data)
    first, second = csv.DictReader(to_csv(summary).splitlines())
    assert [first[f"MR {what}"] for what in ("mean", "std", "seeds")] == ["nan", "nan", "2"]
    assert [second[f"MR {what}"] for what in ("mean", "std", "seeds")] == ["", "", "0"]
    assert [row["value"] for row in csv.DictReader(to_long_csv(data, [summary]).splitlines())] == [
        "nan",
        "1.0",
    ]
    assert "| a | not finite |" in to_markdown(summary)
