"""Results in folders and files of all formats."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from result_folders import TASKS, write_folder, write_mteb_file
from sentbed.errors import DataError
from sentbed_audit.read_results import read_results


def test_what_is_no_result_is_passed_over_and_what_is_damaged_is_named(
    tmp_path,
):
    write_mteb_file(tmp_path, "org/model", "A", 0.5)
    (tmp_path / "model_meta.json").write_text('{"name": "org/model"}')
    (tmp_path / "notes.txt").write_text("nothing")
    (tmp_path / "other.csv").write_text("x,y\n1,2\n")
    (tmp_path / "broken.json").write_text('{"task_name"')
    results = read_results([tmp_path])
    assert len(results.scores) == 1
    (unreadable,) = results.unreadable
    assert Path(unreadable.subject).name == "broken.json"


def test_a_table_may_have_seeds(tmp_path):
    (tmp_path / "scores.csv").write_text(
        "Model,task,score,seed\na,T,0.5,1\na,T,0.7,2.0\n"
    )
    scores = read_results([tmp_path / "scores.csv"]).scores
    assert scores[["model", "score", "seed"]].to_numpy().tolist() == [
        ["a", 0.5, "1"],
        ["a", 0.7, "2.0"],
    ]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (
            "model,task,score\na,T,0.5\na,U,high\n",
            "line 3: the score is 'high', expected a number",
        ),
        ("model,task,score,Score\na,T,0.5,0.6\n", "there are 2 columns `score`"),
    ],
)
def test_a_line_of_a_table_that_is_no_score_is_named(tmp_path, content, reason):
    write_mteb_file(tmp_path, "org/model", "A", 0.5)
    (tmp_path / "scores.csv").write_text(content)
    (entry,) = read_results([tmp_path]).unreadable
    assert entry.detail == reason


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
    }
    (tmp_path / "results_1.json").write_text(json.dumps(content))
    scores = read_results([tmp_path]).scores
    assert scores["task"].tolist() == ["arc (acc,none)", "arc (acc_norm,none)"]
    assert scores["data_revision"].unique().tolist() == ["1.0"]


@pytest.mark.parametrize("name", ["missing", "empty"])
def test_nothing_to_audit_is_an_error(tmp_path, name):
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="name"):
        read_results([tmp_path / name])


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
