"""Studies on the command line: killed, shared between processes, spread over workers."""

from __future__ import annotations

import json
import random
import re
import signal
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path

import psutil
import pytest
import sentbed_processes
from run_logs import events
from sentbed_processes import kill, wait_until
from sentbed_report.study.read_study_directory import read_data
from sentbed_studies.runner import run_study
from sentbed_studies.study import read_study

CELLS = 12
RECIPE = """\
schema = 1
[run]
name = "ablation"
[runtime]
use = "cpu"
deterministic = true
[checkpoint]
every = 2
[encoder]
max_length = 16
backbone = { use = "bert", init = "random", size = "tiny", vocab_size = 512 }
pooler = { use = "mean" }
[[stage]]
name = "warm"
data = { use = "pairs", path = "pkg:sentbed_data/sample/triplets.csv", anchor = "sent0", positive = "sent1" }
loss = { use = "info-nce", temperature = 0.05 }
optimizer = { use = "adamw", lr = 1e-3 }
schedule = { use = "linear" }
batch_size = 16
steps = 4
[[stage]]
name = "main"
data = { use = "pairs", path = "pkg:sentbed_data/sample/triplets.csv", anchor = "sent0", positive = "sent1" }
loss = { use = "info-nce" }
optimizer = { use = "adamw", lr = 1e-3 }
schedule = { use = "linear" }
batch_size = 16
steps = 6
[[evaluate]]
use = "sts"
path = "pkg:sentbed_data/sample/sts-test.tsv"

[study]
seeds = [1, 2, 3]
baseline = { pooler = "mean", loss = "contrastive" }
[study.axes.pooler]
path = "encoder.pooler.use"
values = ["first", "mean"]
[study.axes.loss]
contrastive = { "stage.main.loss" = { use = "info-nce", temperature = 0.05 } }
classification = { "stage.main.loss" = { use = "classification" } }
"""


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    """The recipe's file."""
    path = tmp_path_factory.mktemp("study") / "ablation.toml"
    path.write_text(RECIPE)
    return path


def scores(directory):
    """Every score of every cell, to the last digit."""
    data = read_data(directory)
    assert data.finished == data.total
    return {
        (run.cell, run.seed): [s.value for s in run.scores]
        for cell in data.cells
        for run in cell.runs
    }


@pytest.fixture(scope="module")
def expected(recipe, tmp_path_factory):
    """The scores of one uninterrupted run in which nothing is shared."""
    directory = tmp_path_factory.mktemp("whole") / "study"
    study = read_study(recipe)
    result = run_study(study, directory, share=False)
    assert not result.failed
    assert not (directory / "shared").exists()
    cell_scores = scores(directory)
    # Cells that agree would hide one that was taken for another.
    assert len({tuple(values) for values in cell_scores.values()}) == CELLS
    return cell_scores


@pytest.fixture
def start(recipe, tmp_path, monkeypatch):
    """Start `sentbed study` in a process of its own."""
    monkeypatch.setenv("SENTBED_CACHE", str(tmp_path / "cache"))
    # No number of threads in the environment may decide a score.
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)

    def run(*arguments, recipe=recipe, out="study"):
        return sentbed_processes.start(
            "study", recipe, "--out", out, *arguments, directory=tmp_path
        )

    return run


def finish(process):
    """Wait for a study, and return what it prints on its cells."""
    output, errors = sentbed_processes.finish(process, 600)
    assert Path(output.splitlines()[-1]).name == "report.html"
    return errors.splitlines()


def runs(directory):
    # A run is prepared in a hidden directory.
    return sorted((directory / "runs").glob("[!.]*"))


def is_finished(run):
    manifest = run / "manifest.json"
    return (
        manifest.is_file() and json.loads(manifest.read_text())["status"] == "finished"
    )


def finished_cells(study):
    """Directories of the cells that are finished."""
    return [run for run in runs(study) if is_finished(run)]


def times_started(run):
    names = [event["event"] for event in events(run)]
    return Counter(name for name in names if name in ("run_started", "run_resumed"))


def has_finished(study, cells):
    return len(finished_cells(study)) >= cells


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
def test_a_study_killed_twice_ends_with_the_table_of_one_that_was_not(
    start, expected, tmp_path
):
    study, chance = tmp_path / "study", random.Random(0)
    before = {}
    for number in range(2):
        process = start()
        kill_after = len(before) + chance.randint(1, 3)
        wait_until(partial(has_finished, study, kill_after), process, 0.01)
        time.sleep(chance.uniform(0, 0.3))
        kill(process)
        assert all(
            (run / "log.jsonl").read_bytes() == log for run, log in before.items()
        )
        before = {
            run: (run / "log.jsonl").read_bytes() for run in finished_cells(study)
        }
        assert kill_after <= len(before) < CELLS, number
    lines = finish(start())
    assert sum("was finished" in line for line in lines if " of 12: " in line) == len(
        before
    )
    assert all((run / "log.jsonl").read_bytes() == log for run, log in before.items())
    assert scores(study) == expected


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such locks")
def test_two_processes_share_a_study_and_do_no_cell_twice(start, expected, tmp_path):
    processes = [start(), start()]
    did = [
        [re.sub(r" in .*", "", line) for line in finish(process)]
        for process in processes
    ]
    finished = [
        [line.split(": ")[1] for line in lines if line.endswith(": finished")]
        for lines in did
    ]
    cells = [{name for name in names if ", seed " in name} for names in finished]
    assert all(cells), "one of the two did nothing"
    assert not cells[0] & cells[1]
    assert len(cells[0] | cells[1]) == CELLS
    # Each cell goes on once from the stage that it shares, which was begun once.
    assert all(
        times_started(run) == {"run_started": 1, "run_resumed": 1}
        for run in runs(tmp_path / "study")
    )
    assert scores(tmp_path / "study") == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    ("executor", "name"), [("local", "spawn_main"), ("ray", "ray::_run_task")]
)
def test_the_cell_of_a_worker_that_was_killed_is_done_again(
    executor, name, start, expected, tmp_path
):
    if executor == "ray":
        pytest.importorskip("ray", reason="needs the package ray (the extra `ray`)")
    process = start(
        "--executor", executor, "--workers", "2", "--set", "study.seeds=[1, 2]"
    )
    study = tmp_path / "study"
    wait_until(lambda: has_finished(study, 2), process, 0.01)
    children = psutil.Process(process.pid).children(recursive=True)
    workers = [child for child in children if name in " ".join(child.cmdline())]
    # A process of Ray has another name between two tasks.
    assert workers
    workers[0].send_signal(signal.SIGKILL)
    lines = finish(process)
    if executor == "local":
        pattern = r"a worker .*: done again by a new one$"
        assert any(re.match(pattern, line) for line in lines), lines
    assert scores(study) == {
        cell: values for cell, values in expected.items() if cell[1] != 3
    }
