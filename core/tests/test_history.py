from __future__ import annotations

import json
import math

import attrs
import numpy as np
import pytest
from sentbed._json import from_plain, plain
from sentbed._run.expected_numbers import expected_rows
from sentbed._run.history import History
from sentbed.protocols import (
    Evaluation,
    Expected,
    Run,
    Score,
    StepResult,
)


def rows_of(keys, *scores):
    return list(expected_rows(dict.fromkeys(keys, Expected(1.0, 0.1)), scores))


def score(
    value,
    metric="spearman",
    encoder="encoder",
    protocol="p",
):
    return Score(
        "STS12",
        metric,
        value,
        {"encoder": {}, "evaluator": {"id": protocol}},
        encoder,
        "sts",
    )


@pytest.mark.parametrize(
    ("key", "others", "value"),
    [
        ("STS12", [], 1.0),
        ("STS13", [], None),
        # The first metric is that of a key without a metric.
        ("STS12", [score(2.0, "pearson")], 1.0),
        ("STS12/pearson", [score(2.0, "pearson")], 2.0),
        # A key that several scores match must be longer.
        ("STS12", [score(2.0, encoder="en")], None),
        ("en/STS12", [score(2.0, encoder="en")], 2.0),
        ("STS12", [score(2.0, protocol="q")], None),
        ("STS12/spearman@q", [score(2.0, protocol="q")], 2.0),
        ("STS12", [attrs.evolve(score(2.0, "accuracy"), evaluator="other")], None),
        ("STS12", [score(2.0, encoder="encoder@start")], 1.0),
    ],
)
def test_an_expected_number_is_compared_with_the_score_that_its_key_names(
    key, others, value
):
    (row,) = rows_of([key], score(1.0), *others)
    assert row.found == value


def test_what_was_skipped_for_want_of_data_decides_nothing():
    incomplete = attrs.evolve(score(1.0), skipped=("STS15",))
    rows = rows_of(["STS12", "STS15", "STS15/spearman", "AVG", "STS16"], incomplete)
    deciding = []
    for row in rows:
        if row.decides:
            deciding.append(row.key)
    assert deciding == ["STS12", "STS16"]


# --- stages, and the way through a checkpoint --------------------------------------------------------------


@pytest.fixture
def info(recipe_of, tmp_path):
    return Run("my-run", tmp_path, recipe_of(), {})


def evaluation(value, note="", **protocol):
    parts = {"encoder": {}, "evaluator": {"id": "p", **protocol}}
    watched_score = Score(
        "dev",
        "spearman",
        value,
        parts,
        "en",
        "sts",
        direction="lower",
        note=note,
        axis="x",
    )
    return Evaluation((watched_score,), value)


def first_half(history, info):
    history.warned("the recipe has changed")
    history.scores_ready(Evaluation((score(1.0, encoder="en@start"),), 1.0))
    history.stage_started(info, "pull")
    history.observed(0, "en", evaluation(math.nan, note="constant similarity"))
    history.step_finished(1, StepResult(math.nan, 1e-4, 2.0, {"accuracy": 0.25}))
    history.step_finished(
        2, StepResult(0.1 + 0.2, 1e-5, math.inf, {"accuracy": 0.5, "temperature": 0.05})
    )
    history.validated(2, 80.125, True)


def second_half(history, info):
    # A stage that is resumed is started again.
    history.stage_started(info, "pull")
    history.step_finished(3, StepResult(0.5, 0.0, 1.0, {"temperature": 0.04}))
    history.observed(3, "en", evaluation(60.0))
    history.validated(3, 79.0, False)
    history.scores_ready(Evaluation((score(2.0, encoder="en"),), 2.0))


def shown(history, info):
    data = attrs.evolve(history.report_data(info, "finished", None, ""), seconds=0.0)
    # NaN is not equal to itself, its name is.
    return json.loads(json.dumps(attrs.asdict(data), default=list), parse_constant=str)


def test_a_stage_keeps_curves_metrics_and_what_was_watched(info):
    history = History()
    first_half(history, info)
    history.observed(2, "zh", evaluation(10.0))
    history.observed(2, "en", evaluation(55.0, data="other"))
    second_half(history, info)
    (stage,) = history.report_data(info, "finished", None, "").stages
    assert stage.steps == [1, 2, 3]
    assert stage.losses[1:] == [0.1 + 0.2, 0.5]
    np.testing.assert_array_equal(stage.metrics["accuracy"], [0.25, 0.5, math.nan])
    np.testing.assert_array_equal(stage.metrics["temperature"], [math.nan, 0.05, 0.04])
    assert (stage.validations, stage.best_step) == ([(2, 80.125), (3, 79.0)], 2)
    # What an evaluator remarks on one look starts no new series; other data does.
    assert [(w.encoder, w.evaluator, w.steps) for w in stage.watched] == [
        ("en", "sts", [0, 3]),
        ("zh", "sts", [2]),
        ("en", "sts", [2]),
    ]
    np.testing.assert_array_equal(stage.watched[0].values, [[math.nan], [60.0]])
    np.testing.assert_array_equal(stage.watched[0].primary, [math.nan, 60.0])


def through_a_state(history):
    """The history of a run that is resumed from a training state with this one."""
    so_far = attrs.evolve(history, seconds=history.total_seconds())
    return from_plain(json.loads(json.dumps(plain(so_far))), History)


def test_a_history_that_went_through_a_state_shows_what_an_uninterrupted_one_shows(
    info,
):
    whole = History()
    first_half(whole, info)
    expected_half = shown(whole, info)
    resumed = through_a_state(whole)
    assert shown(resumed, info) == expected_half

    second_half(whole, info)
    second_half(resumed, info)
    assert shown(resumed, info) == shown(whole, info)
    assert "NaN" in json.dumps(shown(whole, info))


def test_time_that_a_run_was_stopped_does_not_count():
    history = History(seconds=60.0)
    resumed = through_a_state(history)
    assert resumed.started == history.started
    assert 60 <= resumed.total_seconds() < 120
