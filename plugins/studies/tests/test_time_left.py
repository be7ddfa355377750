from __future__ import annotations

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sentbed._registry.registry import load_plugins
from sentbed_report.run_cost import RecordedCost, RunCost
from sentbed_studies import study_plan
from sentbed_studies.added_evaluations import keys_json
from sentbed_studies.cell_keys import CellKeys
from sentbed_studies.confirmation import Confirmation
from sentbed_studies.runner import run_study
from sentbed_studies.shared_work_plan import plan_work
from sentbed_studies.study import read_study
from sentbed_studies.study_plan import StudyPlan, workers_for
from sentbed_studies.time_left import RUN, START, TimeLeft, time_left
from sentbed_workbench.plan_records import Plan, StagePlan
from sentbed_workbench.planned_device import Device
from sentbed_workbench.resource_plan import Planner
from toy_plugin import TOWERS, Toy, quicken

A, B, C, D = map(Path, "abcd")
TEN = (10.0, 10.0)

AT_END = TOWERS.replace('at = ["start", "end"]', 'at = ["end"]')
AXES = """
[study]
seeds = [1, 2]
[study.axes.lr]
path = "stage.tune.optimizer.lr"
values = [0.5, 0.25]
"""


# --- arithmetic --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("workers", "seconds"),
    [
        (1, (START + 9, START + 12)),
        (2, (START + 4.5, START + 6)),
        # More workers than runs have nothing to do.
        (9, (START + 3, START + 4)),
    ],
)
def test_what_is_planned_is_shared_by_the_workers_and_begins_with_their_start(
    workers, seconds
):
    left = TimeLeft({A: (1.0, 2.0), B: (3.0, 4.0), C: (5.0, 6.0)}, workers=workers)
    assert left.seconds() == seconds


def test_another_thread_may_show_the_time_left_while_runs_end():
    runs = [Path(str(number)) for number in range(300)]
    left = TimeLeft(dict.fromkeys(runs, TEN), workers=2)
    ended = threading.Event()

    def show():
        while not ended.is_set():
            left.in_words()

    with ThreadPoolExecutor() as pool:
        shown = pool.submit(show)
        for run in runs:
            left.finished(run, 1.0)
            time.sleep(1e-4)
        ended.set()
        shown.result()


def test_a_run_of_a_sample_that_finishes_or_is_stopped_is_one_less():
    runs = [Path(str(number)) for number in range(8)]
    left = TimeLeft(dict.fromkeys(runs, TEN), pending={}, unchosen=[TEN] * 4)
    assert left.seconds() == (START + 40.0, START + 40.0)
    left.finished(runs[0], 10.0)
    left.finished(runs[1], 10.0)
    assert left.seconds() == pytest.approx((20.0, 20.0))
    for run in (runs[2], runs[0], Path("of another study")):
        left.ended(run)
    assert left.seconds() == pytest.approx(TEN)
    left.ended(runs[3])
    assert left.seconds() == (0.0, 0.0)


def test_shared_stages_are_no_run_of_a_sample():
    left = TimeLeft({A: TEN, B: TEN, C: TEN}, pending={A: TEN}, unchosen=[TEN])
    left.finished(A, 10.0 + START)
    assert left.seconds() == TEN


def test_finished_runs_scale_the_plan_of_the_others():
    left = TimeLeft({A: (1.0, 3.0), B: (2.0, 4.0), C: TEN, D: (20.0, 20.0)})
    # The first run of a worker loads its libraries.
    left.finished(A, 6 + START)
    assert left.seconds() == pytest.approx((99.0, 99.0))
    # From the second run on, the first one says nothing more.
    left.finished(B, 9.0)
    assert left.of(C) == pytest.approx((30.0, 30.0))
    assert left.in_words() == "1 min 30 s"
    left.workers = 2
    assert left.seconds() == pytest.approx((45.0, 45.0))


@pytest.mark.parametrize(
    ("took", "each"), [(START + 8, 8), (START + 1, 3), (4, 3), (2, 2)]
)
def test_a_first_run_that_started_faster_does_not_make_the_others_shorter_than_planned(
    took, each
):
    left = TimeLeft({A: (3.0, 3.0), B: (3.0, 3.0)})
    left.finished(A, took)
    assert left.seconds() == pytest.approx((each, each))


@given(
    plans=st.lists(
        st.tuples(st.floats(0.01, 1e4), st.floats(1, 3)), min_size=1, max_size=8
    ),
    took=st.lists(st.floats(0.01, 1e5), max_size=8),
    workers=st.integers(1, 4),
    fresh=st.integers(0, 4),
)
def test_what_is_left_is_never_more_than_all_runs(plans, took, workers, fresh):
    runs = {}
    low = high = 0.0
    for number, (least, spread) in enumerate(plans):
        runs[Path(str(number))] = (least, least * spread)
        low += least
        high += least * spread
    mean = (low / len(runs), high / len(runs))
    whole = (low + fresh * mean[0], high + fresh * mean[1])
    left = TimeLeft(runs, workers=workers, whole=whole, fresh=[mean] * fresh)
    for run, seconds in zip(list(runs), took, strict=False):
        left.finished(run, seconds)
    rest, of_all = left.seconds(), left.of_all()
    assert rest is not None
    assert of_all is not None
    assert rest[0] <= of_all[0] * (1 + 1e-9)
    assert rest[1] <= of_all[1] * (1 + 1e-9)


def test_runs_with_fresh_seeds_come_after_the_others():
    left = TimeLeft({A: (1.0, 2.0), B: (3.0, 4.0)}, fresh=[(2.0, 3.0)] * 3)
    assert left.seconds() == (START + 4 + 3 * 2, START + 6 + 3 * 3)
    # Three workers have two runs, then three.
    left.workers = 3
    assert left.seconds() == (START + 4 / 2 + 2, START + 6 / 2 + 3)
    left.fresh = [None]
    assert left.seconds() is None


@pytest.mark.parametrize("cells", [{A: TEN, B: TEN}, {B: TEN}], ids=["all", "a sample"])
def test_finished_runs_correct_those_with_fresh_seeds(
    cells,
):
    left = TimeLeft({A: TEN, B: TEN}, pending=cells, unchosen=[TEN], fresh=[TEN] * 2)
    left.finished(B, START + 30.0)
    left.chosen([C, D])
    assert left.seconds() == pytest.approx((60.0, 60.0))
    left.finished(C, 30.0)
    assert left.seconds() == pytest.approx((30.0, 30.0))
    left.finished(D, 30.0)
    assert left.seconds() == (0.0, 0.0)


def test_a_run_without_a_plan_takes_as_long_as_the_finished_ones():
    left = TimeLeft({A: None, B: None, C: TEN}, unchosen=[None])
    assert (left.seconds(), left.in_words()) == (None, None)
    left.finished(A, 7.0)
    assert left.seconds() == (21.0, 21.0)


def test_a_run_that_failed_or_was_done_elsewhere_is_not_left_and_corrects_nothing():
    left = TimeLeft({A: (1.0, 1.0), B: TEN})
    left.ended(A)
    assert left.seconds() == (START + 10, START + 10)
    left.ended(B)
    assert (left.seconds(), left.in_words()) == ((0.0, 0.0), None)


# --- of a study --------------------------------------------------------------------------------------------


@pytest.fixture
def work(put, installed_toy, monkeypatch):
    """Plan the work of four runs of two stages, of which the first is shared by pairs."""
    quicken(monkeypatch)

    def make(text=AT_END + AXES, share=True):
        study = read_study(put("study.toml", text))
        return plan_work(study.cells, CellKeys(load_plugins()), share)

    return make


class Known(Planner):
    """Ten to twenty seconds a stage of ten steps, one to two an evaluation."""

    def plan(self, recipe):
        stages = [
            StagePlan(s.name, steps=10, seconds=(10.0, 20.0)) for s in recipe.stage
        ]
        return Plan(Device("cpu"), {}, tuple(stages), {"weights": 10**9})

    def evaluation(self, recipe, entry, name):
        return 1.0, 2.0


def planned(work, directory):
    return sorted(time_left(work, directory, Known()).planned.values())


def test_a_shared_stage_counts_once_and_evaluations_count(work, tmp_path):
    assert planned(work(share=False), tmp_path) == [(RUN + 21, RUN + 42)] * 4
    # Two prefixes of a stage each, and the second stage with the evaluation of four runs.
    assert planned(work(), tmp_path) == [
        *[(RUN + 10, RUN + 20)] * 2,
        *[(RUN + 11, RUN + 22)] * 4,
    ]


def test_the_same_encoder_is_evaluated_once_before_training(work, tmp_path):
    # Weights are random: each seed has others.
    seconds = planned(work(TOWERS + AXES, False), tmp_path)
    assert seconds == [(RUN + 21, RUN + 42)] * 2 + [(RUN + 22, RUN + 44)] * 2


def test_each_validation_counts(work, tmp_path):
    line = 'validate = { every = 3, with = { use = "gap", development = true } }\nbatch_size'
    text = (AT_END + AXES).replace("batch_size", line)
    # Of ten steps: before the first one, and after 3, 6, 9 and 10.
    assert (
        planned(work(text, False), tmp_path)
        == [(RUN + 2 * (10 + 5) + 1, RUN + 2 * (20 + 10) + 2)] * 4
    )


def finish(task, directory, record=None, evaluated=True):
    """Write what a finished run leaves, with its evaluations if `evaluated`."""
    run = directory / task.directory
    run.mkdir(parents=True)
    (run / "manifest.json").write_text(json.dumps({"status": "finished"}))
    (run / "keys.json").write_text(
        keys_json(task.content, task.evaluations if evaluated else ())
    )
    if record is not None:
        (run / "report.json").write_text(json.dumps(record))
    return run


def test_what_has_finished_before_corrects_the_plan(work, tmp_path):
    four = work(share=False)
    finish(four.tasks[0], tmp_path, {"seconds": 65.0})
    left = time_left(four, tmp_path, Known())
    assert left.took == {four.tasks[0].directory: 65.0}
    assert left.seconds() == pytest.approx((195.0, 195.0))


def test_shared_stages_are_not_counted_again_in_the_runs_that_go_on_from_them(
    work, tmp_path
):
    four = work()
    section = RecordedCost(
        RunCost(seconds=20.0), {"pairs-1": RunCost(seconds=45.0)}
    ).section()
    record = {"seconds": 65.0, "sections": {"run-cost": attrs.asdict(section)}}
    finish(four.tasks[0], tmp_path, record)
    assert time_left(four, tmp_path, Known()).took == {four.tasks[0].directory: 20.0}


def test_every_line_on_a_run_says_what_is_left(put, work, tmp_path):
    study = read_study(put("study.toml", AT_END + AXES))
    lines = []
    four = work(share=False)
    left = time_left(four, tmp_path / "out", Known())
    run_study(study, tmp_path / "out", work=four, say=lines.append, left=left)
    assert ["left" in line for line in lines] == [True, True, True, False]
    assert all(line.endswith(" left") and "; about " in line for line in lines[:3])
    # Runs of the toy take no time, and are planned to take half a minute.
    assert left.seconds() == (0.0, 0.0)


@pytest.mark.parametrize(
    ("threads", "line"),
    [
        (
            1,
            "6 of 8 cores stay idle; `--set study.threads=4` lets cells use them, under keys of their own",
        ),
        (3, None),
        (4, None),
        (None, None),
    ],
)
def test_the_plan_says_which_cores_stay_idle(
    threads,
    line,
    put,
    work,
    tmp_path,
    monkeypatch,
):
    study = read_study(put("study.toml", AT_END + AXES))
    four = with_threads(work(share=False), [threads])
    monkeypatch.setattr(study_plan, "usable_cores", lambda: 8)
    monkeypatch.setattr(study_plan, "core_quota", lambda: None)
    plan = StudyPlan(
        study, tmp_path, four, four, TimeLeft({A: (100.0, 100.0)}, workers=2)
    )
    idle = [text.strip() for text in plan.lines() if "idle" in text]
    assert idle == ([] if line is None else [line])


def with_threads(work, threads):
    """Return the work with runtimes that have so many threads, in turn; the toy's has none."""

    @attrs.frozen
    class Threaded(Toy):
        threads: int | None = None

    bundles = []
    for number, (task,) in enumerate(work.bundles):
        runtime = Threaded(threads=threads[number % len(threads)])
        cell = attrs.evolve(
            task.cell, recipe=attrs.evolve(task.cell.recipe, runtime=runtime)
        )
        bundles.append((attrs.evolve(task, cell=cell),))
    return attrs.evolve(work, bundles=tuple(bundles))


@pytest.mark.parametrize(
    ("threads", "cores", "gigabytes", "seconds", "workers"),
    [
        ([1], 8, 100, 1000, 4),
        ([1], 3, 100, 1000, 3),
        ([1, 4], 8, 100, 1000, 2),
        ([1], 8, 5, 1000, 2),
        ([1], 8, 1, 1000, 1),
        ([1], 8, 100, 10, 1),
        ([None], 8, 100, 1000, 1),
        ([1, None], 8, 100, 1000, 1),
    ],
    ids=[
        "a bundle each",
        "cores",
        "threads",
        "memory",
        "one in any case",
        "short",
        "all cores",
        "some",
    ],
)
def test_workers_are_what_cores_and_memory_are_enough_for(
    threads,
    cores,
    gigabytes,
    seconds,
    workers,
    work,
    tmp_path,
    monkeypatch,
):
    four = with_threads(work(share=False), threads)
    monkeypatch.setattr(study_plan, "usable_cores", lambda: cores)
    monkeypatch.setattr(study_plan, "core_quota", lambda: None)
    monkeypatch.setattr(study_plan, "memory_limit", lambda: gigabytes * 10**9)
    left = TimeLeft({A: (seconds, seconds)}, memory=2 * 10**9)
    assert workers_for(four, left) == workers
    left.memory = None
    assert workers_for(four, left) == 1


def test_the_plan_says_what_sharing_saves(put, work, tmp_path):
    shared, alone = (
        time_left(work(share=share), tmp_path, Known()) for share in (True, False)
    )
    # Eight stages and four evaluations alone; of the first stages, two instead of four.
    assert (
        shared.alone == alone.alone == alone.whole == (4 * (RUN + 21), 4 * (RUN + 42))
    )
    assert shared.whole == (6 * (RUN + 10) + 4, 6 * (RUN + 20) + 8)
    assert shared.of_all_in_words() == (
        "1 min 16 s to 2 min 20 s; 1 min 34 s to 2 min 58 s without sharing, which saves 21 %"
    )
    assert alone.of_all_in_words() == "1 min 34 s to 2 min 58 s"
    assert TimeLeft({A: None}).of_all_in_words() is None
    study = read_study(put("study.toml", AT_END + AXES))
    lines = list(StudyPlan(study, tmp_path, work(), work(), shared).lines())
    assert "  all runs, one after the other: 1 min 16 s" in "\n".join(lines)


@pytest.mark.parametrize("share", [True, False])
def test_runs_with_fresh_seeds_take_as_long_as_the_mean_cell_that_shares_nothing(
    share, work, tmp_path
):
    four, each = work(share=share), (RUN + 21, RUN + 42)
    before = time_left(four, tmp_path, Known()).whole
    left = time_left(four, tmp_path, Known(), confirmation=Confirmation(1))
    assert left.fresh == [each]
    assert before is not None
    assert left.whole == (before[0] + each[0], before[1] + each[1])
    chosen_left = time_left(
        four, tmp_path, Known(), confirmation=Confirmation(1, four, four.tasks[:1])
    )
    assert (chosen_left.pending, chosen_left.fresh) == (
        {four.tasks[0].directory: each},
        [],
    )


def test_of_a_sample_each_run_that_is_left_takes_as_long_as_the_mean_of_all(
    work, tmp_path
):
    each = (RUN + 21, RUN + 42)
    left = time_left(work(share=False), tmp_path, Known(), number_of_runs=1)
    assert (left.whole, left.alone, left.unchosen) == (each, each, [each])
    shared = time_left(work(), tmp_path, Known(), number_of_runs=2)
    # Half of two prefixes of a stage, and two cells of a stage and an evaluation.
    low, high = RUN + 10 + 2 * (RUN + 11), RUN + 20 + 2 * (RUN + 22)
    assert shared.whole == (low, high)
    assert shared.seconds() == (START + low, START + high)


def test_a_sample_whose_runs_have_finished_has_none_left(work, tmp_path):
    four = work(share=False)
    for task in four.tasks[:3]:
        finish(task, tmp_path, {"seconds": 12.0})
    assert time_left(four, tmp_path, Known(), number_of_runs=3).seconds() == (0.0, 0.0)


def test_the_whole_counts_what_has_finished_too(work, tmp_path):
    four = work()
    before = time_left(four, tmp_path, Known())
    for prefix in four.prefixes:
        (tmp_path / prefix.directory).mkdir(parents=True)
        (tmp_path / prefix.directory / "manifest.json").write_text(
            json.dumps({"status": "finished"})
        )
    finish(four.tasks[0], tmp_path)
    after = time_left(four, tmp_path, Known())
    assert (after.whole, after.alone) == (before.whole, before.alone)
    assert len(after.planned) == len(before.planned) - len(four.prefixes)


def test_of_a_finished_run_that_lacks_evaluations_only_these_take_time(work, tmp_path):
    four = work(share=False)
    before = planned(four, tmp_path)
    runs = [finish(task, tmp_path, evaluated=False) for task in four.tasks]
    # Without an encoder, it takes its whole time again.
    assert planned(four, tmp_path) == before
    for run in runs:
        (run / "encoder").mkdir()
    assert planned(four, tmp_path) == [(RUN + 1, RUN + 2)] * 4
