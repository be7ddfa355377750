"""Reports of runs for tests: an empty one, a full one, and one whose every text is an attack."""

from __future__ import annotations

import math

import attrs
from sentbed.protocols import (
    ExpectedRow,
    ReportData,
    Score,
    StageCurve,
    Watched,
)

EMPTY = ReportData(
    name="empty",
    status="finished",
    error=None,
    started="2026-03-04T14:05:33+00:00",
    seconds=3.0,
    recipe_toml="",
    manifest={},
)
ATTACK = "<script>alert('x')</script>|`*_$\\frac{"
HOSTILE_PROTOCOL = {
    "encoder": {ATTACK: ATTACK},
    "evaluator": {"id": ATTACK, ATTACK: ATTACK},
}


def score(
    task,
    value,
    encoder="encoder",
    metric="spearman",
    evaluator="sts",
    **entries,
):
    """Return a score whose evaluator's protocol has these entries."""
    protocol = {"encoder": {}, "evaluator": {"id": "senteval-sts", **entries}}
    return Score(task, metric, value, protocol, encoder, evaluator)


def whitened(measured):
    """Return the score of the same vectors after whitening."""
    encoder = {**measured.protocol["encoder"], "whitening": {"width": 256}}
    return attrs.evolve(measured, protocol={**measured.protocol, "encoder": encoder})


def geometry_score(
    task,
    metric,
    value,
    protocol="wang-isola",
    encoder="encoder",
):
    """Return a score on one of the axes of a plane."""
    parts = {"encoder": {}, "evaluator": {"id": protocol}}
    axes = {"alignment": "y", "uniformity": "x"}
    axis = axes[metric]
    return Score(
        task, metric, value, parts, encoder, "geometry", direction="lower", axis=axis
    )


def stage():
    """Return a stage of 40 steps whose best weights are those of step 20."""
    numbers = list(range(1, 41))
    return StageCurve(
        name="nli",
        steps=numbers,
        losses=[3 / step + 0.1 * (step % 3) for step in numbers],
        learning_rates=[1e-5 * (1 - step / 41) for step in numbers],
        validations=[(10, 70.0), (20, 80.5), (30, 79.0)],
        best_step=20,
        metric="STS-B dev",
    )


def watched_geometry(encoder, task, protocol, *places):
    """Return evaluations at (uniformity, alignment), one every 100 steps."""
    scores = tuple(
        geometry_score(task, metric, math.nan, protocol, encoder)
        for metric in ("alignment", "uniformity")
    )
    steps = [100 * place for place in range(len(places))]
    values = [[alignment, uniformity] for uniformity, alignment in places]
    return Watched(
        encoder, "geometry", scores, steps, [-sum(place) for place in places], values
    )


def full():
    """Return a report with every section but a search, before and after training."""
    scores = []
    for encoder, gain in (("encoder@start", 0.0), ("encoder", 10.0)):
        scores.append(
            score("STS12", 50.0 + gain, encoder, aggregation="all", data="STS12")
        )
        scores.append(
            score("STS-B", 60.0 + gain, encoder, aggregation="all", data="STS-B")
        )
    for encoder, gain in (("encoder@start", 0.0), ("encoder", -0.1)):
        scores.append(geometry_score("STS-B", "alignment", 0.3 + gain, encoder=encoder))
        scores.append(
            geometry_score("STS-B", "uniformity", -1.5 + gain, encoder=encoder)
        )
    return attrs.evolve(
        EMPTY,
        name="full",
        recipe_toml='name = "full"\n',
        manifest={"python": "3.11", "seed": 1},
        scores=tuple(scores),
        expected=(
            ExpectedRow("sts.STS-B.spearman", 70.1, 0.5, "table 5", 70.0),
            ExpectedRow("sts.STS12.spearman", 68.0, 0.5, "table 5", 60.0),
            ExpectedRow("sts.STS13.spearman", 68.0, 0.5, "table 5", None),
        ),
        stages=(stage(),),
    )


def hostile():
    """Return a report in which every text that a recipe, a plugin or a data file can bring is an attack."""
    curve = StageCurve(ATTACK, [1, 2], [1.0, 2.0], [0.1, 0.1], [(1, 2.0)], 1, ATTACK)
    watched_score = Score(ATTACK, ATTACK, 1.0, HOSTILE_PROTOCOL)
    watched = (
        watched_geometry(ATTACK, ATTACK, ATTACK, (1.0, 2.0), (3.0, 4.0)),
        Watched(ATTACK, ATTACK, (watched_score,), [0, 1], [1.0, 2.0], [[1.0], [2.0]]),
    )
    measured = Score(ATTACK, ATTACK, 1.0, HOSTILE_PROTOCOL, ATTACK, ATTACK, note=ATTACK)
    return ReportData(
        name=ATTACK,
        status="failed",
        error=ATTACK,
        started=ATTACK,
        seconds=1.0,
        recipe_toml=ATTACK,
        manifest={ATTACK: ATTACK},
        scores=(
            measured,
            attrs.evolve(measured, axis="y"),
            attrs.evolve(measured, axis="x"),
        ),
        expected=(ExpectedRow(ATTACK, 1.0, 0.1, ATTACK, 1.0),),
        stages=(attrs.evolve(curve, metrics={ATTACK: [1.0, 2.0]}, watched=watched),),
        warnings=(ATTACK,),
    )
