"""Cells that a sampler chooses, and studies that run them."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading

import attrs
import pytest
from click.testing import CliRunner
from sentbed._cli.main import main
from sentbed.errors import PluginError, RecipeError, RunError
from sentbed_report.study.deciding_score import Decide, deciding_scores, mean_of
from sentbed_report.study.read_study_directory import read_data
from sentbed_studies.random_sampler import Random
from sentbed_studies.runner import run_study
from sentbed_studies.sampled_cells import cells_for_sampler, sampled
from sentbed_studies.study import read_study
from sentbed_studies.study_reports import write_reports
from sentbed_studies.study_status import status_of
from toy_plugin import TOWERS, Nearby

AXES = """
[study]
seeds = [1, 2]
baseline = { lr = "0.5", noise = "0.0" }
decide = { tasks = ["across"] }
[study.axes.lr]
path = "stage.tune.optimizer.lr"
values = [1.0, 0.5, 0.25, 0.125]
[study.axes.noise]
path = "stage.pairs.loss.noise"
values = [0.0, 0.5]
[study.sampler]
use = "nearby"
cells = 5
batch = 2
"""

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("installed_toy", "quick")]


@pytest.fixture
def study(put):
    """Eight cells, of which five are run, with two seeds; they share their first stage in fours."""
    return read_study(put("study.toml", TOWERS + AXES))


@pytest.fixture(scope="module")
def lines_of_whole():
    """Lines of progress of the study in `whole`."""
    return []


@pytest.fixture
def whole(study, copied, lines_of_whole):
    """Directory of a study that was not interrupted."""
    return copied(lambda kept: run_study(study, kept, say=lines_of_whole.append))


def sampling(study):
    assert study.table.sampler is not None
    return study.table.sampler


def chosen(directory):
    data = read_data(directory)
    assert data.sampled is not None
    return data.sampled.names


def run_directories(directory):
    data = read_data(directory)
    return {
        (run.cell, run.seed)
        for cell in data.cells
        for run in cell.runs
        if run.status == "finished"
    }


# --- the choice --------------------------------------------------------------------------------------------


def test_the_baseline_is_first_and_each_batch_follows_from_the_scores_before(
    study,
):
    scores = {name: float(place) for place, name in enumerate(study.names)}
    batches = list(sampled(study, sampling(study), scores.__getitem__))
    # Nothing is known at first: the last cell; then those next to the best one.
    assert batches == [
        ("0.5, 0.0", "0.125, 0.5"),
        ("0.125, 0.0", "0.25, 0.5"),
        ("0.25, 0.0",),
    ]


def test_a_cell_without_a_score_is_not_chosen_again(study):
    every = attrs.evolve(sampling(study), cells=8)
    names = [name for batch in sampled(study, every, lambda _: None) for name in batch]
    assert sorted(names) == sorted(study.names)


def test_a_sampler_sees_numbers_where_labels_have_them(study):
    assert cells_for_sampler(study)[:2] == [
        {"lr": 1.0, "noise": 0.0},
        {"lr": 1.0, "noise": 0.5},
    ]


def test_one_that_reads_no_scores_chooses_all_at_once(study):
    rule = attrs.evolve(sampling(study), sampler=Random(), cells=5)
    (batch,) = sampled(study, rule, lambda _: pytest.fail("no score is needed"))
    assert batch[0] == study.baseline
    assert len({*batch}) == 5


@pytest.mark.parametrize("returned", [[2], [2, 2], [2, 99], [0, 2], [-1, 2]])
def test_what_a_sampler_must_not_return_is_said(returned, study, monkeypatch):
    study = attrs.evolve(study, baseline=study.names[0])
    rule = attrs.evolve(sampling(study), batch=3)
    monkeypatch.setattr(Nearby, "choose", lambda *_: returned)
    with pytest.raises(
        PluginError,
        match=r"`choose` of the cell sampler `nearby` .* expected 2 of the indices",
    ):
        next(sampled(study, rule, lambda _: None))


# --- studies -----------------------------------------------------------------------------------------------


def test_a_study_runs_the_sampled_cells_with_all_seeds(study, whole, lines_of_whole):
    data = read_data(whole)
    assert data.sampled is not None
    assert str(data.sampled) == "5 of 8 cells were sampled by nearby, seed 0"
    assert (len(data.cells), data.finished, data.total) == (5, 10, 10)
    assert {cell.name for cell in data.cells} == {*data.sampled.names}
    assert run_directories(whole) == {
        (name, seed) for name in data.sampled.names for seed in (1, 2)
    }
    assert "10 of 10: " in lines_of_whole[-1]
    # The choice is the one that these scores lead to.
    scores = {
        cell.name: mean_of(deciding_scores(cell.runs[0].scores, Decide()))
        for cell in data.cells
    }
    batches = list(sampled(study, sampling(study), scores.__getitem__))
    assert tuple(name for batch in batches for name in batch) == data.sampled.names
    # No shared stages wait for cells that are never run.
    assert [*whole.glob("shared/*")] == []


@pytest.mark.slow
def test_the_order_in_which_runs_finish_changes_nothing(study, whole, directory):
    class Shuffled:
        def run(self, start, tasks, on_death=None):
            function = start(None)
            for task in random.Random(3).sample(list(tasks), len(tasks)):
                yield task, function(task)

    run_study(study, directory, executor=Shuffled())
    assert chosen(directory) == chosen(whole)


def test_an_interrupted_study_goes_on_with_the_same_cells(
    study, whole, directory, fail
):
    begun = []

    def stops(job):
        begun.append(str(job))
        return KeyboardInterrupt() if len(begun) % 5 == 0 else None

    fail(stops)
    for _ in range(20):
        try:
            run_study(study, directory)
            break
        except KeyboardInterrupt:
            # What was chosen is known, also while the study does not run.
            before = chosen(directory)
            assert before == chosen(whole)[: len(before)] != ()
    assert len(begun) > 6
    assert chosen(directory) == chosen(whole)
    assert run_directories(directory) == run_directories(whole)


KILLED = """
import sys
from toy_plugin import quicken
import pytest
quicken(pytest.MonkeyPatch())
from sentbed_studies import study_jobs
from sentbed_studies.runner import run_study
from sentbed_studies.study import read_study
work, begun = study_jobs._run, []
def kills(*arguments):
    begun.append(1)
    if len(begun) == int(sys.argv[3]):
        import os, signal
        os.kill(os.getpid(), signal.SIGKILL)
    work(*arguments)
study_jobs._run = kills
run_study(read_study(sys.argv[1]), sys.argv[2])
"""


@pytest.mark.slow
def test_a_killed_study_goes_on_with_the_same_cells(
    study, whole, put, installed_toy, directory
):
    recipe = put("study.toml", TOWERS + AXES)
    path = os.pathsep.join([str(installed_toy), *sys.path])
    command = [sys.executable, "-c", KILLED, str(recipe), str(directory), "5"]
    killed = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": path},
        check=False,
        capture_output=True,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    before = run_directories(directory)
    assert 0 < len(before) < 5
    run_study(study, directory)
    assert chosen(directory) == chosen(whole)
    assert before < run_directories(directory) == run_directories(whole)


@pytest.mark.slow
def test_two_processes_at_once_choose_the_same_cells(study, whole, directory):
    failed = []

    def work():
        try:
            run_study(study, directory)
        except BaseException as error:  # noqa: BLE001 - reported by the test
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert chosen(directory) == chosen(whole)
    assert run_directories(directory) == run_directories(whole)


def test_a_cell_that_fails_has_no_score_and_the_others_go_on(study, directory, fail):
    fail(
        lambda job: (
            RunError("the disk is full") if str(job).startswith("0.125, 0.5") else None
        )
    )
    result = run_study(study, directory, keep_going=True)
    assert [str(failure.job) for failure in result.failed] == [
        "0.125, 0.5, seed 1",
        "0.125, 0.5, seed 2",
    ]
    assert len(chosen(directory)) == 5


@pytest.mark.slow
def test_cells_that_were_run_before_stay_in_the_tables(study, directory):
    whole = attrs.evolve(study, table=attrs.evolve(study.table, sampler=None))
    run_study(whole, directory, only=[{"lr": "1.0"}])
    assert read_data(directory).sampled is None
    run_study(study, directory)
    data = read_data(directory)
    assert data.sampled is not None
    assert len(data.sampled.names) == 5
    assert {cell.name for cell in data.cells} == {
        *data.sampled.names,
        "1.0, 0.0",
        "1.0, 0.5",
    }


@pytest.mark.slow
def test_another_sampler_begins_anew(study, whole):
    other = attrs.evolve(sampling(study), sampler=Random(), seed=5, cells=3)
    run_study(
        attrs.evolve(study, table=attrs.evolve(study.table, sampler=other)), whole
    )
    data = read_data(whole)
    assert str(data.sampled) == "3 of 8 cells were sampled by random, seed 5"


@pytest.mark.parametrize("tasks", [("other",), ("across", "other")])
def test_a_finished_run_without_a_deciding_score_ends_the_study(
    tasks, study, directory
):
    table = attrs.evolve(study.table, decide=Decide(tasks))
    with pytest.raises(
        RunError,
        match=r"no score of other to choose further cells by; let `\[study.decide\]`",
    ):
        run_study(attrs.evolve(study, table=table), directory)


# --- the command and the report ----------------------------------------------------------------------------


def command(*words):
    done = CliRunner().invoke(main, ["study", *map(str, words)])
    assert done.exit_code == 0, done.output
    return done.output


def test_the_plan_says_how_many_cells_are_run_of_how_many(study, put, directory):
    output = command(
        put("study.toml", TOWERS + AXES), "--dry-run", "--out", directory
    ).splitlines()
    assert output[0] == "study towers: 5 of 8 cells x 2 seeds = 10 runs, 0 finished"
    assert (
        output[1] == "  cells: sampled by nearby, seed 0, 2 cells at a time with seed 1"
    )
    assert (
        "  shared: the shared stages pairs, trained once for at most 4 runs" in output
    )


def test_the_status_has_the_time_of_the_cells_that_are_not_chosen_yet(whole):
    data = read_data(whole)
    runs = tuple(attrs.evolve(run, seconds=10.0) for run in data.cells[0].runs)
    assert data.sampled is not None
    one_cell_data = attrs.evolve(
        data,
        cells=(attrs.evolve(data.cells[0], runs=runs),),
        sampled=attrs.evolve(data.sampled, names=(data.cells[0].name,)),
    )
    assert (
        "left: about 1 min 20 s, with one run at a time"
        in [*status_of(one_cell_data).lines()][-1]
    )


def test_the_status_and_the_report_say_which_cells_were_sampled(whole):
    output = command("status", whole).splitlines()
    assert output[:2] == [
        "study towers: 10 runs: 10 finished",
        "  5 of 8 cells were sampled by nearby, seed 0",
    ]
    assert not any("waiting" in line for line in output)
    status = json.loads(command("status", whole, "--json"))
    assert status["total"] == 10
    assert status["sampled"]["names"] == [*chosen(whole)]
    page = write_reports(whole)
    results = json.loads((whole / "results.json").read_bytes())
    assert results["sampled"] == status["sampled"]
    for text in (page.read_text(), page.with_suffix(".md").read_text()):
        assert "5 of 8 cells were sampled by nearby, seed 0." in text


def test_a_study_that_has_just_begun_has_its_first_batch(study, directory, fail):
    fail(lambda _: KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        run_study(study, directory)
    assert chosen(directory) == ("0.5, 0.0", "0.125, 0.5")
    output = command("status", directory).splitlines()
    assert output[0].startswith("study towers: 10 runs: ")
    assert output[0].endswith(", 6 of cells that are not chosen yet")
    assert json.loads(command("status", directory, "--json"))["total"] == 10
    assert write_reports(directory).is_file()


# --- what is refused ---------------------------------------------------------------------------------------


def problems(put, text):
    with pytest.raises(RecipeError) as refused:
        read_study(put("wrong.toml", TOWERS + text))
    return [str(problem) for problem in refused.value.problems]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "cells = 5",
            "cells = 9",
            "to choose 9 cells, and the study has 8; lower `cells`, or take",
        ),
        ("cells = 5", "", "the required key `cells` is missing"),
        (
            '"nearby"',
            '"nearbye"',
            "there is no sampler `nearbye`. Did you mean `nearby`?",
        ),
        ("batch = 2", "startup = 2", "unknown key `startup`"),
    ],
)
def test_a_sampler_that_cannot_work_is_refused(put, old, new, message):
    assert old in AXES
    (problem,) = problems(put, AXES.replace(old, new))
    assert message in problem
    assert "study.sampler" in problem


def test_a_sampler_that_reads_no_scores_needs_none_that_decide(put):
    none = AXES.replace('tasks = ["across"]', 'evaluator = "gap"')
    assert "no cell is evaluated by `gap`" in problems(put, none)[0]
    at_random = AXES.replace('decide = { tasks = ["across"] }\n', "").replace(
        '"nearby"', '"random"'
    )
    on_test = TOWERS.replace("[[evaluate]]", "[[evaluate]]\ndevelopment = false")
    assert read_study(put("study.toml", on_test + at_random)).names


def test_cells_are_chosen_by_the_sampler_or_by_only(study, put, tmp_path):
    done = CliRunner().invoke(
        main,
        ["study", str(put("s.toml", TOWERS + AXES)), "--only", "lr=0.5", "--dry-run"],
    )
    assert done.exit_code == 2
    assert (
        "`--only` names cells, and `[study.sampler]` chooses them; take one of the two out"
        in done.output
    )
