from __future__ import annotations

import errno
import json
import logging
import math
import threading

import pytest
from sentbed import RunError
from sentbed.protocols import StepResult
from sentbed_trackers.tensorboard import TensorBoard

pytest.importorskip("tensorboard", reason="needs the extra `tensorboard`")


def read(directory):
    """What TensorBoard itself reads: every scalar, and the texts."""
    from tensorboard.backend.event_processing.event_accumulator import (
        STORE_EVERYTHING_SIZE_GUIDANCE,
        EventAccumulator,
    )
    from tensorboard.util.tensor_util import make_ndarray

    events = EventAccumulator(
        str(directory),
        size_guidance=STORE_EVERYTHING_SIZE_GUIDANCE,
        purge_orphaned_data=False,
    )
    events.Reload()
    scalars = {}
    texts = []
    for tag in events.Tags()["tensors"]:
        for event in events.Tensors(tag):
            value = make_ndarray(event.tensor_proto).item()
            if isinstance(value, bytes):
                texts.append(value.decode())
            else:
                scalars.setdefault(tag, []).append((event.step, value))
    return scalars, texts


def test_tensorboard_reads_everything_that_the_run_has_shown(
    follow, tmp_path, series, same
):
    run = follow(TensorBoard().build()).start().scores("en@start", 40.0)
    for stage in ("nli", "align"):
        run.watch(stage, 0).steps(stage, 1, 3).looks(stage, 3)
    run.scores("en", 70.0).finish()
    scalars, texts = read(tmp_path / "run" / "tensorboard")
    same(scalars, series(3))
    (recipe,) = texts
    assert recipe.startswith("```toml\nschema = 1\n")


def test_a_resumed_run_shows_nothing_twice(follow, tmp_path, series, same):
    killed = follow(TensorBoard().build()).start().scores("en@start", 40.0)
    killed.watch("nli", 0).steps("nli", 1, 3).looks("nli", 3).watch("align", 0).steps(
        "align", 1, 2
    )
    states = json.loads(json.dumps(killed.states()))
    killed.steps("align", 3, 3).states()  # written, then the process was killed
    again = follow(TensorBoard().build()).resume(states).steps("align", 3, 3)
    again.fail(KeyboardInterrupt())  # and once more, without another checkpoint
    last = follow(TensorBoard().build()).resume(states)
    last.steps("align", 3, 3).looks("align", 3).scores("en", 70.0).finish()
    scalars, texts = read(tmp_path / "run" / "tensorboard")
    same(scalars, series(3))
    assert len(texts) == 1
    killed.finish()


def test_a_run_without_a_checkpoint_begins_again(follow, tmp_path):
    killed = follow(TensorBoard().build())
    killed.start()
    killed.steps("nli", 1, 2)
    killed.fail(KeyboardInterrupt())

    resumed = follow(TensorBoard().build())
    resumed.resume({})
    resumed.steps("nli", 1, 1)
    resumed.finish()

    scalars, texts = read(tmp_path / "run" / "tensorboard")
    assert len(scalars["nli/loss"]) == 1
    assert len(texts) == 1


def test_a_directory_of_ones_own_gets_one_a_run_and_is_not_written_over(
    follow, tmp_path
):
    directory = str(tmp_path / "all")
    run = follow(TensorBoard(directory=directory).build()).start().steps("nli", 1, 1)
    (key,) = run.states()
    assert directory in key
    run.finish()
    scalars, _ = read(tmp_path / "all" / "run")
    assert "nli/loss" in scalars
    with pytest.raises(
        RunError, match="already holds the events of a run of this name"
    ):
        follow(TensorBoard(directory=directory).build()).start()


def test_a_run_that_is_resumed_without_a_checkpoint_leaves_the_events_of_others(
    follow, tmp_path
):
    directory = str(tmp_path / "all")
    build = TensorBoard(directory=directory).build
    killed = follow(build())
    killed.start()
    killed.steps("nli", 1, 2)
    killed.fail(KeyboardInterrupt())

    resumed = follow(build())
    resumed.resume({})
    resumed.steps("nli", 1, 1)
    resumed.finish()

    events = tmp_path / "all" / "run"
    scalars, _ = read(events)
    assert len(scalars["nli/loss"]) == 1

    # A run of the same name in another directory, whose checkpoint is from before it had this tracker.
    (tmp_path / "elsewhere").mkdir()
    other = follow(build(), "elsewhere/run")
    with pytest.raises(RunError, match="already holds the events of a run"):
        other.resume({})

    unchanged, _ = read(events)
    assert unchanged == scalars


def test_a_place_that_cannot_be_written_is_an_error_at_the_start(follow, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="cannot write events for TensorBoard"):
        follow(TensorBoard(directory=str(tmp_path / "file")).build()).start()


# TensorBoard's own thread reports it as well.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_full_disk_ends_the_events_and_not_the_run(
    follow,
    tmp_path,
    monkeypatch,
    caplog,
):
    from tensorboard.summary.writer.record_writer import RecordWriter

    others = set(threading.enumerate())
    run = follow(TensorBoard().build()).start().steps("nli", 1, 1)
    before = run.states()

    def full(self, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
        patch.setattr(RecordWriter, "write", full)
        run.steps("nli", 2, 50)
        assert run.states() == before
        run.finish()
        # What the thread reports is to be ignored here, and not found in a later test.
        for thread in set(threading.enumerate()) - others:
            thread.join(timeout=60)
    assert [record.message.partition(" (")[2] for record in caplog.records] == [
        "No space left on device); the run goes on without, its `log.jsonl` has everything"
    ]
    scalars, _ = read(tmp_path / "run" / "tensorboard")
    assert [step for step, _ in scalars["nli/loss"]] == [1]


def test_numbers_that_are_not_finite_are_shown_as_such(follow, tmp_path):
    run = follow(TensorBoard().build()).start()
    result = StepResult(math.nan, 0.0, math.inf)
    run.hooks.step_finished(
        run=run.run, stage="nli", step=1, total_steps=1, result=result
    )
    run.finish()
    scalars, _ = read(tmp_path / "run" / "tensorboard")
    assert math.isnan(scalars["nli/loss"][0][1])
    assert scalars["nli/grad_norm"] == [(1, math.inf)]


def test_a_tracker_that_never_started_has_no_state_and_can_be_told_of_a_failure(
    follow,
):
    run = follow(TensorBoard().build()).fail(ValueError("early"))
    assert run.states() == {}
