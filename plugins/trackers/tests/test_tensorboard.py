from __future__ import annotations

import math

import pytest
from sentbed.protocols import StepResult
from sentbed_trackers.tensorboard import TensorBoard

pytest.importorskip("tensorboard", reason="needs the extra `tensorboard`")


def read(directory):
    """What TensorBoard itself reads: every scalar, and the texts."""
    from tensorboard.backend.event_processing.plugin_event_accumulator import (
        STORE_EVERYTHING_SIZE_GUIDANCE,
        EventAccumulator,
    )
    from tensorboard.util.tensor_util import make_ndarray

    events = EventAccumulator(
        str(directory),
        size_guidance=STORE_EVERYTHING_SIZE_GUIDANCE,
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
                values = scalars.setdefault(tag, [])
                values.append((event.step, value))

    # Files of one second are in no order.
    for values in scalars.values():
        values.sort()
    return scalars, texts


def test_tensorboard_reads_everything_that_the_run_has_shown(
    follow, tmp_path, series, same
):
    run = follow(TensorBoard().build())
    run.start()
    run.scores("en@start", 40.0)
    for stage in ("nli", "align"):
        run.watch(stage, 0)
        run.steps(stage, 1, 3)
        run.looks(stage, 3)
    run.scores("en", 70.0)
    run.finish()

    scalars, texts = read(tmp_path / "run" / "tensorboard")
    same(scalars, series(3))
    (recipe,) = texts
    assert recipe.startswith("```toml\nschema = 1\n")


@pytest.mark.parametrize("stage", ["nli", "align"])
def test_a_run_that_is_killed_after_a_validation_and_resumed_shows_nothing_twice(
    stage, follow, tmp_path, series, same
):
    """The checkpoint is written after a step and before its validation, which happens again."""
    killed = follow(TensorBoard().build())
    killed.start()
    killed.scores("en@start", 40.0)
    killed.watch("nli", 0)
    killed.steps("nli", 1, 3)
    if stage == "align":
        killed.looks("nli", 3)
        killed.watch("align", 0)
        killed.steps("align", 1, 3)
    states = killed.states()
    killed.looks(stage, 3)
    killed.fail(KeyboardInterrupt())

    resumed = follow(TensorBoard().build())
    resumed.resume(states)
    resumed.looks(stage, 3)
    if stage == "nli":
        resumed.watch("align", 0)
        resumed.steps("align", 1, 3)
        resumed.looks("align", 3)
    resumed.scores("en", 70.0)
    resumed.finish()
    scalars, texts = read(tmp_path / "run" / "tensorboard")
    same(scalars, series(3))
    assert len(texts) == 1


def test_numbers_that_are_not_finite_are_shown_as_such(follow, tmp_path):
    run = follow(TensorBoard().build())
    run.start()
    result = StepResult(math.nan, 0.0, math.inf)
    run.hooks.step_finished(
        run=run.run,
        stage="nli",
        step=1,
        total_steps=1,
        result=result,
    )
    run.finish()
    scalars, _ = read(tmp_path / "run" / "tensorboard")
    _, loss = scalars["nli/loss"][0]
    assert math.isnan(loss)
    assert scalars["nli/grad_norm"] == [(1, math.inf)]
