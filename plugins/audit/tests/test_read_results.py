"""Results in folders, archives and files of all formats."""

from __future__ import annotations

import io
import json
import os
import tarfile
import zipfile
from pathlib import Path

import pytest
from result_folders import TASKS, write_folder, write_mteb_file
from sentbed.errors import DataError
from sentbed_audit.read_results import read_results


def test_a_folder_and_its_archives_have_the_same_scores(tmp_path: Path) -> None:
    write_folder(tmp_path / "results")
    with tarfile.open(tmp_path / "results.tar.xz", "w:xz") as archive:
        archive.add(tmp_path / "results", "results")
    with zipfile.ZipFile(tmp_path / "results.zip", "w") as packed:
        for file in (tmp_path / "results").rglob("*.json"):
            packed.write(file, file.relative_to(tmp_path))
    columns = ["model", "revision", "task", "score"]
    expected = read_results([tmp_path / "results"]).scores[columns].sort_values(columns).to_numpy().tolist()
    assert len(expected) == 4 * len(TASKS)
    for name in ("results.tar.xz", "results.zip"):
        scores = read_results([tmp_path / name]).scores[columns].sort_values(columns)
        assert scores.to_numpy().tolist() == expected


def test_what_is_no_result_is_passed_over_and_what_is_damaged_is_named(tmp_path: Path) -> None:
    write_mteb_file(tmp_path, "org/model", "A", 0.5)
    (tmp_path / "model_meta.json").write_text('{"name": "org/model"}')
    (tmp_path / "notes.txt").write_text("nothing")
    (tmp_path / "other.csv").write_text("x,y\n1,2\n")
    (tmp_path / "broken.json").write_text('{"task_name"')
    (tmp_path / "deep.json").write_text("[" * 100_000)
    results = read_results([tmp_path])
    assert (len(results.scores), results.files) == (1, 1)
    assert {Path(entry.file).name for entry in results.unreadable} == {"broken.json", "deep.json"}


def test_links_are_not_followed_and_pipes_are_not_opened(tmp_path: Path) -> None:
    write_mteb_file(tmp_path / "elsewhere", "org/model", "A", 0.5)
    write_mteb_file(tmp_path / "results", "org/model", "B", 0.5)
    (tmp_path / "results" / "link").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(tmp_path / "results" / "pipe.json")
    results = read_results([tmp_path / "results"])
    assert results.scores["task"].tolist() == ["B"]
    assert "pipe" in results.unreadable[0].reason


def test_a_member_of_an_archive_is_judged_by_its_size_before_it_is_read(tmp_path: Path) -> None:
    write_mteb_file(tmp_path, "org/model", "A", 0.5)
    member = tarfile.TarInfo("results/org__model/rev/B.json")
    member.size = 100 << 20
    with tarfile.open(tmp_path / "large.tar.gz", "w:gz") as archive:
        archive.addfile(member, io.BytesIO(bytes(member.size)))
    results = read_results([tmp_path])
    assert len(results.scores) == 1
    large = read_results([tmp_path / "org__model", tmp_path / "large.tar.gz"])
    assert "bytes" in large.unreadable[0].reason


def test_a_damaged_archive_keeps_what_was_read(tmp_path: Path) -> None:
    write_folder(tmp_path / "results")
    with tarfile.open(tmp_path / "whole.tar", "w") as archive:
        archive.add(tmp_path / "results", "results")
    content = (tmp_path / "whole.tar").read_bytes()
    (tmp_path / "half.tar").write_bytes(content[: len(content) // 2])
    results = read_results([tmp_path / "half.tar"])
    assert 0 < len(results.scores) < 4 * len(TASKS)
    assert "damaged" in results.unreadable[0].reason


def test_a_table_may_have_seeds(tmp_path: Path) -> None:
    (tmp_path / "scores.csv").write_text("Model,task,score,seed\na,T,0.5,1\na,T,0.7,2\n")
    scores = read_results([tmp_path / "scores.csv"]).scores
    assert scores[["model", "score", "seed"]].to_numpy().tolist() == [["a", 0.5, 1], ["a", 0.7, 2]]


def test_a_line_of_a_table_that_is_no_score_is_named(tmp_path: Path) -> None:
    write_mteb_file(tmp_path, "org/model", "A", 0.5)
    (tmp_path / "scores.csv").write_text("model,task,score\na,T,0.5\na,U,high\n")
    (entry,) = read_results([tmp_path]).unreadable
    assert entry.reason.startswith("line 3: ")


def test_lm_eval_has_a_task_for_each_metric(tmp_path: Path) -> None:
    content = {
        "results": {"arc": {"alias": "arc", "acc,none": 0.3, "acc_stderr,none": 0.01, "acc_norm,none": 0.4}},
        "versions": {"arc": 1.0},
        "model_name": "org/model",
        "lm_eval_version": "0.4.9",
    }
    (tmp_path / "results_1.json").write_text(json.dumps(content))
    scores = read_results([tmp_path]).scores
    assert scores["task"].tolist() == ["arc (acc,none)", "arc (acc_norm,none)"]
    assert scores["software"].unique().tolist() == ["lm-eval 0.4.9"]


@pytest.mark.parametrize("name", ["missing", "empty"])
def test_nothing_to_audit_is_an_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="name"):
        read_results([tmp_path / name])
