"""Files of MTEB, of its formats since 1.11 and before."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest
from sentbed_audit.mteb_results import is_mteb_result, model_of_path, mteb_rows

PATH = PurePosixPath("results/org__model/abc123/STS12.json")


def new_file(**scores):
    return {
        "task_name": "STS12",
        "mteb_version": "2.6.7",
        "dataset_revision": "d1",
        "scores": scores
        or {
            "test": [{"hf_subset": "default", "main_score": 0.71, "languages": ["eng"]}]
        },
    }


def old_file(**splits):
    return {
        "mteb_dataset_name": "STS12",
        "mteb_version": "1.1.0",
        "dataset_revision": "d1",
        **splits,
    }


def test_a_file_since_1_11_has_a_row_for_each_split_and_subset():
    entries = [
        {"hf_subset": "en", "main_score": 0.5},
        {"hf_subset": "de", "main_score": 0.4},
    ]
    rows = list(mteb_rows(new_file(test=entries, dev=entries[:1]), PATH))
    assert [(row.split, row.subset, row.score) for row in rows] == [
        ("test", "en", 0.5),
        ("test", "de", 0.4),
        ("dev", "en", 0.5),
    ]
    first = rows[0]
    assert (first.model, first.revision, first.task) == ("org/model", "abc123", "STS12")
    assert (first.software, first.data_revision, first.layout) == (
        "mteb 2.6.7",
        "d1",
        "mteb 1.11",
    )


@pytest.mark.parametrize(
    ("numbers", "score"),
    [
        pytest.param(
            {"cos_sim": {"spearman": 0.7, "pearson": 0.6}, "evaluation_time": 3},
            0.7,
            id="sts",
        ),
        pytest.param(
            {"cos_sim": {"ap": 0.6, "f1": 0.5}, "max": {"ap": 0.8}}, 0.6, id="pairs"
        ),
        pytest.param({"ndcg_at_10": 0.4, "map_at_10": 0.3}, 0.4, id="retrieval"),
        pytest.param({"map": 0.55, "mrr": 0.6}, 0.55, id="reranking"),
        pytest.param({"v_measure": 0.3, "v_measure_std": 0.1}, 0.3, id="clustering"),
        pytest.param({"accuracy": 0.9, "main_score": 0.8}, 0.8, id="main-score"),
        pytest.param(
            {"accuracy": 0.9, "accuracy_stderr": 0.1}, 0.9, id="classification"
        ),
    ],
)
def test_a_file_of_before_has_its_main_score_under_the_name_of_its_metric(
    numbers, score
):
    (row,) = mteb_rows(old_file(test=numbers), PATH)
    assert (row.split, row.subset, row.score, row.layout) == (
        "test",
        "default",
        score,
        "mteb 1.0",
    )


def test_a_file_of_before_has_a_table_for_each_subset():
    content = old_file(
        test={
            "evaluation_time": 4.5,
            "en": {"main_score": 0.5},
            "de": {"main_score": 0.4},
        }
    )
    assert [(row.subset, row.score) for row in mteb_rows(content, PATH)] == [
        ("en", 0.5),
        ("de", 0.4),
    ]


def test_a_file_with_the_names_of_both_formats_is_read_by_its_scores():
    (row,) = mteb_rows({**new_file(), "mteb_dataset_name": "STS12"}, PATH)
    assert (row.score, row.layout) == (0.71, "mteb 1.11")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (new_file(test=[]), "`scores.test` has no subset"),
        (new_file(test=[{"hf_subset": "en"}]), "without `main_score`"),
        (new_file(test=[{"main_score": "high"}]), "is 'high', expected a number"),
        (new_file(test=[{"main_score": True}]), "expected a number"),
        ({**new_file(), "scores": {}}, "`scores` has no split"),
        (old_file(other={}), "no main score in the splits"),
        (old_file(test={"score": 0.5}), "no main score in the splits"),
        ({**new_file(), "task_name": None}, "names no task"),
    ],
)
def test_a_damaged_file_says_what_is_wrong(content, reason):
    with pytest.raises(ValueError, match=reason):
        list(mteb_rows(content, PATH))


@pytest.mark.parametrize(
    "content", [[], {"name": "a model"}, {"task_name": "STS12"}, 3]
)
def test_other_files_are_no_results(content):
    assert not is_mteb_result(content)


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("a/b/org__model/rev/T.json", ("org/model", "rev")),
        ("model/T.json", ("model", "")),
        ("T.json", ("T", "")),
    ],
)
def test_model_and_revision_are_the_folders(path, names):
    assert model_of_path(PurePosixPath(path)) == names
