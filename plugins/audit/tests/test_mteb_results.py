"""Files of MTEB."""

from __future__ import annotations

from pathlib import Path

import pytest
from sentbed_audit.mteb_results import is_mteb_result, model_of_path, mteb_rows

PATH = Path("results/org__model/abc123/STS12.json")


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
    assert first.data_revision == "d1"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (new_file(test={}), "`scores.test` is no list of subsets"),
        (new_file(test=[{"hf_subset": "en"}]), "is None, expected a number"),
        (new_file(test=[{"main_score": "high"}]), "is 'high', expected a number"),
        (new_file(test=[{"main_score": True}]), "expected a number"),
        ({**new_file(), "task_name": None}, "it has no `task_name`"),
        ({"mteb_dataset_name": "STS12", "test": {"map": 0.5}}, "since 1.11"),
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
    assert model_of_path(Path(path)) == names
