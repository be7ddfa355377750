"""What may be compared: planted mixtures are findings, and a clean folder has no finding."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from result_folders import TASKS, write_folder, write_mteb_file
from sentbed_audit.benchmarks import BenchmarkTask
from sentbed_audit.comparable_scores import comparable_scores
from sentbed_audit.read_results import read_results


def compared(*directories, **options):
    """Return the table of comparable scores, and the findings."""
    results = read_results(directories)
    return comparable_scores(results.scores, **options)


def entry(score, subset="default"):
    return {"hf_subset": subset, "main_score": score}


def of_kind(findings, kind):
    return [finding for finding in findings if finding.kind == kind]


def kinds_and_subjects(findings):
    return [(finding.kind, finding.subject) for finding in findings]


def test_a_clean_folder_has_no_finding(tmp_path):
    expected = write_folder(tmp_path)
    table, findings = compared(tmp_path)
    assert findings == []
    np.testing.assert_allclose(table[list(TASKS)].to_numpy(), expected)


def test_each_planted_mixture_is_found_and_nothing_else(tmp_path):
    scores = write_folder(tmp_path, models=6)
    value = float(scores[0, 0])
    write_mteb_file(tmp_path, "org/model1", TASKS[1], 0.5, dataset_revision="data2")
    write_mteb_file(tmp_path, "org/model3", TASKS[3], 0.5, scores={"dev": [entry(0.5)]})
    write_mteb_file(tmp_path, "org/model4", TASKS[4], 100 * value)
    write_mteb_file(tmp_path, "org/model5", TASKS[5], float("nan"))
    (tmp_path / "org__model0" / "rev1" / f"{TASKS[6]}.json").unlink()
    for task in TASKS[:11]:
        write_mteb_file(tmp_path, "org/model0", task, 0.3, revision="rev2")
    _, findings = compared(tmp_path)
    assert set(kinds_and_subjects(findings)) == {
        ("data revision", "org/model1"),
        ("split", "org/model3"),
        ("scale", "org/model4"),
        ("not finite", "org/model5"),
        ("missing tasks", "org/model0@rev1"),
        ("missing tasks", "org/model0@rev2"),
        ("missing tasks", "org/model1"),
        ("missing tasks", "org/model3"),
        ("missing tasks", "org/model4"),
        ("missing tasks", "org/model5"),
    }


def test_scores_on_other_data_are_left_out_unless_all_data_are_compared(tmp_path):
    write_folder(tmp_path)
    write_mteb_file(tmp_path, "org/model1", TASKS[1], 0.5, dataset_revision="data2")
    table, _ = compared(tmp_path)
    assert np.isnan(table.loc["org/model1", TASKS[1]])
    assert table[TASKS[1]].count() == 3
    table, findings = compared(tmp_path, ignore_data=True)
    assert findings == []
    assert table.loc["org/model1", TASKS[1]] == 0.5


def test_each_subset_may_have_data_of_its_own(tmp_path):
    file = tmp_path / "scores.csv"
    lines = [
        "model,task,subset,score,data_revision",
        "a,T,de,80,de-1",
        "a,T,en,70,en-1",
        "b,T,de,60,de-1",
        "b,T,en,50,en-1",
        "c,T,de,40,de-1",
        "c,T,en,90,en-1",
        "d,T,de,1,old",
        "d,T,en,2,old",
    ]
    file.write_text("\n".join(lines))
    table, findings = compared(file)
    assert table["T"].to_dict() == {"a": 75.0, "b": 55.0, "c": 65.0}
    details = [finding.detail for finding in findings]
    assert details == [
        "T: has the data revision old, compared is de-1",
        "T: has the data revision old, compared is en-1",
    ]


def test_a_rare_task_is_said_to_be_left_out_and_is_kept_where_it_is_named(tmp_path):
    write_folder(tmp_path)
    write_mteb_file(tmp_path, "org/model1", "Rare", 0.5)
    table, findings = compared(tmp_path)
    (finding,) = findings
    assert finding.kind == "rare task"
    assert finding.subject == "Rare"
    assert finding.detail == "1 of 4 models have it"
    assert "Rare" not in table
    table, findings = compared(tmp_path, tasks=["Rare", TASKS[0]])
    assert list(table) == ["Rare", TASKS[0]]
    assert of_kind(findings, "rare task") == []


def test_files_are_named(tmp_path):
    write_folder(tmp_path)
    file = write_mteb_file(
        tmp_path, "org/model1", TASKS[1], 0.5, scores={"dev": [entry(0.5)]}
    )
    _, (finding, _) = compared(tmp_path)
    assert finding.files == (file.as_posix(),)
    assert finding.detail == f"{TASKS[1]}: has the split dev, compared is test"


def test_a_score_is_the_mean_over_subsets_and_who_lacks_one_is_left_out(
    tmp_path,
):
    write_folder(tmp_path, models=30)
    for model in range(30):
        subsets = [entry(0.5, "en"), entry(0.2, "de")]
        if model < 3:
            # A subset that few models have does not count.
            subsets.append(entry(0.9, "fr"))
        write_mteb_file(
            tmp_path, f"org/model{model}", "Languages", 0, scores={"test": subsets}
        )
    write_mteb_file(
        tmp_path, "org/model7", "Languages", 0, scores={"test": [entry(0.5, "en")]}
    )
    table, findings = compared(tmp_path)
    column = table["Languages"]
    assert column.drop("org/model7").to_numpy() == pytest.approx(0.35)
    assert np.isnan(column["org/model7"])
    (finding,) = of_kind(findings, "subset")
    assert finding.detail == "Languages: has not all of the subsets de; en"


def test_a_benchmark_decides_splits_and_subsets(tmp_path):
    scores = {"test": [entry(0.5, "en"), entry(0.2, "de")], "dev": [entry(0.7, "en")]}
    for model in range(3):
        write_mteb_file(tmp_path, f"org/model{model}", "Languages", 0, scores=scores)
    benchmark = {"Languages": BenchmarkTask(("dev",), ("en",))}
    table, _ = compared(tmp_path, tasks=["Languages"], benchmark=benchmark)
    assert table["Languages"].tolist() == [0.7, 0.7, 0.7]


def test_files_that_contradict_each_other_are_left_out(tmp_path):
    write_folder(tmp_path / "first")
    write_folder(tmp_path / "second")
    _, findings = compared(tmp_path)
    assert findings == []
    write_mteb_file(tmp_path / "second", "org/model1", TASKS[0], 0.9)
    table, findings = compared(tmp_path)
    assert kinds_and_subjects(findings) == [
        ("two scores", "org/model1"),
        ("missing tasks", "org/model1"),
    ]
    assert np.isnan(table.loc["org/model1", TASKS[0]])


def test_revisions_that_begin_alike_are_different_models(tmp_path):
    for revision, score in (("checkpoint-100", 0.3), ("checkpoint-1000", 0.5)):
        for task in TASKS:
            write_mteb_file(tmp_path, "org/model", task, score, revision=revision)
    table, _ = compared(tmp_path)
    assert table.mean(axis=1).to_dict() == pytest.approx(
        {"org/model@checkpoint-100": 0.3, "org/model@checkpoint-1000": 0.5}
    )


def test_seeds_of_a_table_are_averaged_and_two_scores_of_a_seed_left_out(tmp_path):
    lines = ["model,task,seed,score", "b,U,2,0.4"]
    for model, task, seed in itertools.product("ab", "TU", (1, 2)):
        lines.append(f"{model},{task},{seed},{0.1 * seed}")
    (tmp_path / "scores.csv").write_text("\n".join(lines))
    table, findings = compared(tmp_path)
    expected = [[0.15, 0.15], [0.15, np.nan]]
    np.testing.assert_allclose(table.to_numpy(), expected)
    assert kinds_and_subjects(findings) == [("two scores", "b"), ("missing tasks", "b")]


@pytest.mark.parametrize("is_table", [True, False], ids=["table", "mteb"])
@pytest.mark.parametrize(
    ("sizes", "left_out"),
    [
        pytest.param((60, 61, 0.5), "c", id="fractions"),
        pytest.param((0.6, 0.61, 50), "c", id="percentages"),
        pytest.param((60, 61, 0.5, 0.55), "cd", id="as many of both"),
    ],
)
def test_models_on_another_scale_are_left_out(tmp_path, sizes, left_out, is_table):
    lines = ["model,task,score"]
    for model, size in zip("abcd", sizes, strict=False):
        for task in "TU":
            lines.append(f"{model},{task},{size}")
            if not is_table:
                write_mteb_file(tmp_path, model, task, size)
    if is_table:
        (tmp_path / "scores.csv").write_text("\n".join(lines))
    table, findings = compared(tmp_path)
    subjects = {finding.subject for finding in of_kind(findings, "scale")}
    assert subjects == set(left_out)
    assert set(table.index) == {"a", "b"}


def test_a_low_percentage_of_a_model_with_others_is_compared(tmp_path):
    lines = ["model,task,score", "a,T,60", "a,U,60", "b,T,61", "b,U,61"]
    lines += ["c,T,0.5", "c,U,40", "d,T,0", "d,U,0"]
    (tmp_path / "scores.csv").write_text("\n".join(lines))
    _, findings = compared(tmp_path)
    assert findings == []


def test_files_that_are_read_twice_are_counted_once(tmp_path):
    write_folder(tmp_path, models=5)
    once, findings = compared(tmp_path)
    twice, findings_of_twice = compared(tmp_path, tmp_path)
    assert twice.equals(once)
    assert findings_of_twice == findings
