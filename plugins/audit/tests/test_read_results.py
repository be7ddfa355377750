"""Results in folders, archives and files of all formats."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st
from result_folders import TASKS, write_folder, write_mteb_file
from sentbed.errors import DataError
from sentbed.protocols import ReportData, Score
from sentbed.tools import record_json
from sentbed_audit.read_results import read_results
from sentbed_report.study.study_data import AxisInfo, CellInfo, CellRun, StudyData
from sentbed_report.study.study_file import write_study_file


def test_what_is_no_result_is_passed_over_and_what_is_damaged_is_named(
    tmp_path,
):
    write_mteb_file(tmp_path, "org/model", "A", 0.5)
    (tmp_path / "model_meta.json").write_text('{"name": "org/model"}')
    (tmp_path / "notes.txt").write_text("nothing")
    (tmp_path / "other.csv").write_text("x,y\n1,2\n")
    (tmp_path / "broken.json").write_text('{"task_name"')
    results = read_results([tmp_path])
    assert (len(results.scores), results.files) == (1, 1)
    (unreadable,) = results.unreadable
    assert Path(unreadable.file).name == "broken.json"


def test_a_table_may_have_seeds(tmp_path):
    (tmp_path / "scores.csv").write_text(
        "Model,task,score,seed\na,T,0.5,1\na,T,0.7,2.0\n"
    )
    scores = read_results([tmp_path / "scores.csv"]).scores
    assert scores[["model", "score", "seed"]].to_numpy().tolist() == [
        ["a", 0.5, 1],
        ["a", 0.7, 2],
    ]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (
            "model,task,score\na,T,0.5\na,U,high\n",
            "line 3: the score is 'high', expected a finite number",
        ),
        (
            "model,task,score,seed\na,T,0.5,one\n",
            "line 2: the seed is 'one', expected a whole number",
        ),
        (
            "model,task,score,seed\na,T,0.5,1.5\n",
            "line 2: the seed is '1.5', expected a whole number",
        ),
        ("model,task,score,Score\na,T,0.5,0.6\n", "there are 2 columns `score`"),
    ],
)
def test_a_line_of_a_table_that_is_no_score_is_named(tmp_path, content, reason):
    write_mteb_file(tmp_path, "org/model", "A", 0.5)
    (tmp_path / "scores.csv").write_text(content)
    (entry,) = read_results([tmp_path]).unreadable
    assert entry.reason == reason


def test_lm_eval_has_a_task_for_each_metric_that_is_better_if_higher(tmp_path):
    content = {
        "results": {
            "arc": {
                "alias": "arc",
                "sample_len": 1172,
                "acc,none": 0.3,
                "acc_stderr,none": 0.01,
                "acc_norm,none": 0.4,
                "word_perplexity,none": 20.0,
            }
        },
        "versions": {"arc": 1.0},
        "higher_is_better": {"arc": {"acc": True, "word_perplexity": False}},
        "model_name": "org/model",
        "lm_eval_version": "0.4.9",
    }
    (tmp_path / "results_1.json").write_text(json.dumps(content))
    scores = read_results([tmp_path]).scores
    assert scores["task"].tolist() == ["arc (acc,none)", "arc (acc_norm,none)"]
    assert scores["software"].unique().tolist() == ["lm-eval 0.4.9"]


@pytest.mark.parametrize("name", ["missing", "empty"])
def test_nothing_to_audit_is_an_error(tmp_path, name):
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="name"):
        read_results([tmp_path / name])


def write_study(directory, scores):
    """Write a study of one cell with one run that has these scores; return the directory of the run."""
    recipe = {"run": {"name": "mine", "seed": 1}, "encoder": {"pooler": {}}}
    run = directory / "runs" / "key"
    run.mkdir(parents=True)
    (run / "manifest.json").write_text('{"status": "finished"}')
    (run / "resolved.toml").write_text(tomli_w.dumps(recipe))
    data = ReportData(
        "mine", "finished", None, "2026-03-04T14:05:33+00:00", 2.5, "", {}, scores
    )
    (run / "report.json").write_text(record_json(data))

    of_cell = CellRun(
        "mean",
        3,
        evaluations=(),
        key="key",
    )
    cell = CellInfo("mean", {"pooler": "mean"}, (of_cell,))
    axis = AxisInfo("pooler", ("mean",))
    data = StudyData(
        "study",
        (axis,),
        (cell,),
        baseline=None,
        seeds=(3,),
    )
    write_study_file(directory, data)

    (directory / "study.toml").write_text("")
    return run


def score_of(task, value, encoder="encoder", split="test", **fields):
    protocol = {"encoder": {}, "evaluator": {"id": "senteval", "split": split}}
    return Score(task, "spearman", value, protocol, encoder, "sts", **fields)


def test_a_run_and_a_study_of_ours_are_models(tmp_path):
    scores = (
        score_of("STS12", 50.0, "encoder@start"),
        score_of("STS12", 71.5),
        score_of("STSB-dev", 80.0, split="dev"),
        score_of("speed", 2.0, direction="lower"),
        score_of("texts", 2.0, axis="cost"),
    )
    run = write_study(tmp_path / "study", scores)
    columns = ["model", "task", "score", "layout"]
    of_run = read_results([run]).scores
    assert of_run[columns].to_numpy().tolist() == [
        ["mine/encoder", "sts STS12 (spearman)", 71.5, "sentbed"]
    ]
    of_study = read_results([tmp_path / "study"]).scores
    assert of_study[[*columns, "seed"]].to_numpy().tolist() == [
        ["mean/encoder", "sts STS12 (spearman)", 71.5, "sentbed", 3]
    ]
    assert of_study["data_revision"].tolist() == of_run["data_revision"].tolist()


def test_scores_before_training_and_on_development_data_are_read_if_there_are_no_others(
    tmp_path,
):
    scores = (
        score_of("STSB-dev", 80.0, "encoder@start", split="dev"),
        score_of("SST-2", 90.0, "encoder@start", split="dev"),
    )
    run = write_study(tmp_path / "study", scores)
    for directory in (run, tmp_path / "study"):
        assert read_results([directory]).scores["score"].tolist() == [80.0, 90.0]


JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.just(10**400),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
KEYS = (
    "task_name",
    "mteb_dataset_name",
    "scores",
    "test",
    "dataset_revision",
    "results",
    "versions",
)


@given(
    st.dictionaries(st.sampled_from(KEYS), JUNK, min_size=1),
    st.sampled_from([".json", ".csv"]),
)
def test_whatever_a_file_holds_it_is_read_or_named(content, suffix):
    """Damaged results are findings: nothing but a `DataError` leaves the reader."""
    with tempfile.TemporaryDirectory() as directory:
        write_folder(Path(directory), models=2)
        text = json.dumps(content)
        if suffix == ".csv":
            text = f"model,task,score\n{text}"
        (Path(directory) / f"junk{suffix}").write_text(text)
        results = read_results([directory])
        assert len(results.scores) >= 2 * len(TASKS)
