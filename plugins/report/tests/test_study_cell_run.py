from __future__ import annotations

from pathlib import Path

import pytest
from sentbed import RunError
from sentbed_common import item_score
from sentbed_report.study.read_cell_run import read_run


def test_a_finished_run_has_scores_with_items_and_its_record(run_of, tmp_path):
    run = read_run(run_of("a"), "cell", 7, tmp_path / "study")
    assert (run.cell, run.seed, run.status, run.seconds) == (
        "cell",
        7,
        "finished",
        2.5,
    )
    assert run.directory == Path("../a")
    (score,) = run.scores
    assert item_score(score.items) == score.value
    assert run.record["name"] == "a"


def test_a_run_that_is_at_work_or_was_not_begun_has_no_record(run_of, tmp_path):
    path = run_of("a", status="running")
    (path / "report.json").write_text("{")
    run = read_run(path, "cell", 1, tmp_path)
    assert (run.status, run.record) == ("running", {})
    run = read_run(tmp_path / "none", "cell", 1, tmp_path)
    assert (run.status, run.directory) == ("waiting", None)


@pytest.mark.parametrize("content", [None, "{", "[]", '{"scores": [1]}'])
def test_a_report_of_a_finished_run_that_cannot_be_read_is_named(
    run_of, tmp_path, content
):
    path = run_of("a")
    if content is None:
        (path / "report.json").unlink()
    else:
        (path / "report.json").write_text(content)
    with pytest.raises(
        RunError, match=r"report\.json` cannot be read: .*; start the run again"
    ):
        read_run(path, "cell", 1, tmp_path)
