"""The command, from folders to the page."""

from __future__ import annotations

import json
import os
import re
import tarfile
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from result_folders import TASKS, write_folder, write_mteb_file
from scipy import stats
from sentbed import DataError
from sentbed_audit.audit import audit_results
from sentbed_audit.audit_command import audit
from sentbed_audit.benchmarks import benchmark_tasks


def run(*arguments):
    return CliRunner().invoke(audit, list(map(str, arguments)))


def test_the_answer_is_printed_and_all_of_it_is_written(tmp_path):
    write_folder(tmp_path / "results")
    ended = run(tmp_path / "results", "--output", tmp_path / "out")
    assert ended.exit_code == 0, ended.output
    assert "First: org/model3 has the best mean" in ended.output
    assert "0 models of 3 are not significantly worse over 12 tasks" in ended.output
    assert "Left out: nothing." in ended.output
    page = (tmp_path / "out" / "report.html").read_text("utf-8")
    assert not re.search(r'(?:src|href)="https?:', page)
    for text in ("Ranking", "What is left out", "org/model3"):
        assert text in page
    record = json.loads((tmp_path / "out" / "audit.json").read_text("utf-8"))
    assert record["ranking"][0]["rank_interval"] == [1, 1]
    table = (tmp_path / "out" / "scores.csv").read_text("utf-8")
    assert len(table.splitlines()) == 1 + 4 * len(TASKS)
    assert (tmp_path / "out" / "report.md").read_text("utf-8").startswith("# results")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--task", "Task0"], "no score is of the task `Task0`"),
        (["--model", "org/model9"], "no score is of the model `org/model9`"),
        (
            ["--benchmark", "MTEB(eng, v2)"],
            "no score is of a task of the benchmark `MTEB(eng, v2)`; name results",
        ),
        (
            ["--benchmark", "MTEB(eng, v2)", "--task", "Task01"],
            "the benchmark `MTEB(eng, v2)` has no task `Task01`",
        ),
    ],
)
def test_a_name_that_is_not_there_is_an_error(tmp_path, options, message):
    write_folder(tmp_path)
    ended = run(tmp_path, *options)
    assert ended.exit_code != 0
    assert message in str(ended.exception)


def test_a_task_that_is_named_twice_counts_once(tmp_path):
    write_folder(tmp_path)
    tasks = [TASKS[0], TASKS[1], TASKS[0]]
    result = audit_results([tmp_path], tasks=tasks)
    assert list(result.comparable) == [TASKS[0], TASKS[1]]


@pytest.mark.parametrize(
    ("tasks", "score", "problem", "finding"),
    [
        ("AA", float("nan"), "0 of 0 models", "not finite 2"),
        ("AB", 0.5, "0 of 2 models have all 2 tasks", "missing tasks 2"),
        ("ABC", 0.5, "no task has scores of half of the 3 models", "rare task 3"),
    ],
    ids=["no numbers", "no common task", "tasks of one model each"],
)
def test_without_two_complete_models_nothing_is_claimed_and_the_findings_stay(
    tmp_path, tasks, score, problem, finding
):
    for number, task in enumerate(tasks):
        write_mteb_file(tmp_path / "results", f"org/{number}", task, score)
    ended = run(tmp_path / "results", "--output", tmp_path / "out")
    assert ended.exit_code == 0, ended.output
    assert f"Claims: None: {problem}" in ended.output
    assert finding in ended.output
    page = (tmp_path / "out" / "report.html").read_text("utf-8")
    assert "Nothing can be claimed" in page


def test_too_few_tasks_for_the_correction_are_said(tmp_path):
    write_folder(tmp_path, models=30)
    ended = run(tmp_path)
    assert (
        "After correction for 435 pairs, none can: over 12 tasks no p-value is below "
        "0.00049, and 15 tasks are needed"
    ) in ended.output


@pytest.mark.slow
def test_any_benchmark_of_mteb_is_known_where_it_is_installed():
    pytest.importorskip("mteb", reason="needs the library of MTEB")
    task = benchmark_tasks("MTEB(deu, v1)")["GermanSTSBenchmark"]
    assert "test" in task.splits
    with pytest.raises(DataError, match="MTEB has no benchmark `MTEB"):
        benchmark_tasks("MTEB(deu)")


def test_json_is_printed(tmp_path):
    write_folder(tmp_path)
    ended = run(tmp_path, "--json", "--task", TASKS[0], "--task", TASKS[1])
    record = json.loads(ended.output)
    assert record["tasks"] == [TASKS[0], TASKS[1]]
    assert record["pairs"] == 6


def test_names_that_a_spreadsheet_would_compute_stay_text(tmp_path):
    table = "model,task,score\n=1+1,@A,1\n=1+1,B,2\n-x,@A,3\n-x,B,4\n"
    (tmp_path / "results.csv").write_text(table)
    assert run(tmp_path / "results.csv", "--output", tmp_path / "out").exit_code == 0
    lines = (tmp_path / "out" / "scores.csv").read_text("utf-8").splitlines()
    assert lines[1].startswith("'=1+1,,'@A,")
    assert lines[3].startswith("'-x,,'@A,")


def test_a_model_with_a_name_of_markup_stays_text(tmp_path):
    write_folder(tmp_path / "results")
    for task in TASKS:
        write_mteb_file(tmp_path / "results", "<script>alert(1)<", task, 0.9)
    assert run(tmp_path / "results", "--output", tmp_path / "out").exit_code == 0
    page = (tmp_path / "out" / "report.html").read_text("utf-8")
    assert "<script>alert(1)" not in page


ARCHIVE = (
    Path(os.environ.get("SENTBED_DATA", ".")) / "mteb_results" / "mteb-eng-v2.tar.xz"
)


@pytest.mark.slow
@pytest.mark.skipif(
    not ARCHIVE.is_file(), reason="needs real data: mteb_results in SENTBED_DATA"
)
def test_mtebs_own_results_have_the_counts_of_a_plain_loop(tmp_path):
    tasks = benchmark_tasks("MTEB(eng, v2)")
    scores = defaultdict(dict)
    with tarfile.open(ARCHIVE) as archive:
        for member in archive:
            _, model, revision, name = (
                Path(member.name).parts if member.isfile() else ("", "", "", "")
            )
            if not name.endswith(".json") or name == "model_meta.json":
                continue
            stream = archive.extractfile(member)
            assert stream is not None
            content = json.load(stream)
            task = tasks.get(content.get("task_name"))
            if task is None or "scores" not in content:
                continue
            values = []
            for split in task.splits:
                for entry in content["scores"].get(split, []):
                    if entry["hf_subset"] in task.subsets:
                        values.append(entry["main_score"])
            if len(values) == len(task.splits) * len(task.subsets):
                scores[model, revision][content["task_name"]] = float(np.mean(values))
    rows = []
    for scores_of_model in scores.values():
        if len(scores_of_model) == len(tasks):
            rows.append([scores_of_model[task] for task in tasks])
    rows.sort(key=np.mean)
    alike = 0
    for first, second in zip(rows[1:], rows, strict=False):
        apart = np.subtract(first, second)
        alike += not apart.any() or stats.wilcoxon(apart).pvalue >= 0.05
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    result = audit_results([tmp_path], benchmark="MTEB(eng, v2)", ignore_data=True)
    assert result.claims is not None
    assert len(result.claims.scores) == len(rows) == 103
    assert np.sum(np.diagonal(result.claims.p_values, 1) >= 0.05) == alike


@pytest.mark.slow
@pytest.mark.parametrize("name", ["MTEB(eng, v1)", "MTEB(eng, v2)"])
def test_the_benchmarks_are_those_of_mteb(name):
    mteb = pytest.importorskip("mteb", reason="needs the library of MTEB")
    tasks = benchmark_tasks(name)
    assert len(tasks) == len(mteb.get_benchmark(name).tasks)
    for task in mteb.get_benchmark(name).tasks:
        entry = tasks[task.metadata.name]
        assert entry.splits == tuple(task.eval_splits)
        assert entry.subsets == tuple(task.hf_subsets)
