"""Planes of two scores, such as alignment over uniformity, and the positions of encoders in these planes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import attrs
from sentbed.protocols import START, Direction, Score

from sentbed_report.degenerate_scores import degenerate_of

if TYPE_CHECKING:
    import pandas

_PLANE = ["stage", "protocol", "task", "evaluator"]
_LINE = [*_PLANE, "cell", "prompt", "seed", "encoder"]


@attrs.frozen
class PlaneScore:
    """A score, with the stage, cell, prompt, seed and step at which it was measured."""

    score: Score
    stage: str = ""
    cell: str = ""
    prompt: str = ""
    seed: int = 0
    step: int = 0
    watch: int = 0
    """Index of the stage's `watch` evaluation that measured the score."""


@attrs.frozen(eq=False)
class ScorePlane:
    """Two metrics of an evaluator that are drawn against each other, with the positions of encoders.

    An example is alignment over uniformity (Wang & Isola, 2020). All positions are under one protocol, so they
    can share the axes.
    """

    stage: str
    protocol: str
    task: str
    evaluator: str
    x: str
    y: str
    directions: tuple[Direction, Direction]
    points: pandas.DataFrame
    """One row per position, with the columns `cell`, `prompt`, `seed`, `encoder`, `step`, `x`, `y` and
    `degenerate`: whether either score says nothing about the encoder."""

    @property
    def title(self) -> str:
        """Heading with protocol, task and evaluator."""
        return ", ".join(filter(None, [self.protocol, self.task, self.evaluator]))

    @property
    def metrics(self) -> str:
        """Heading with both metrics."""
        return f"{self.y[:1].upper()}{self.y[1:]} and {self.x}"

    @property
    def better(self) -> str:
        """Sentence on which direction is better on each axis; empty if neither metric has a direction."""
        if len(set(self.directions)) == 1 and "none" not in self.directions:
            return f"{self.directions[0].capitalize()} is better on both axes."
        sentences = []
        for metric, direction in zip((self.x, self.y), self.directions, strict=True):
            if direction != "none":
                sentences.append(f"{direction.capitalize()} is better of {metric}.")
        return " ".join(sentences)


def base_name(encoder: str) -> str:
    """Return an encoder's name without the suffix `@start`, which stands for the encoder before training."""
    return encoder.removesuffix(START)


def encoder_order(encoders: Iterable[str]) -> tuple[str, ...]:
    """Return each encoder once, in the order of appearance, with `NAME@start` right before `NAME`."""
    names = list(dict.fromkeys(encoders))
    ordered = []
    for base in dict.fromkeys(map(base_name, names)):
        for name in (base + START, base):
            if name in names:
                ordered.append(name)
    return tuple(ordered)


def score_planes(scores: Iterable[PlaneScore]) -> list[ScorePlane]:
    """Return the planes in which scores with the axis `x` are paired with scores with the axis `y`.

    The two scores of a position have the same evaluator, protocol id, task, encoder and step. Positions with a
    score that is not finite are left out.
    """
    import numpy as np
    import pandas

    rows = []
    for placed in scores:
        score = placed.score
        if score.axis not in ("x", "y"):
            continue
        row = attrs.asdict(placed, recurse=False)
        row.update(
            protocol=score.protocol_id,
            encoder=score.encoder,
            evaluator=score.evaluator,
            task=score.task,
            axis=score.axis,
            metric=score.metric,
            direction=score.direction,
            value=score.value,
            degenerate=bool(degenerate_of(score)),
        )
        rows.append(row)
    if not rows:
        return []

    # `nth` numbers the scores of one encoder, axis and step: the nth score on x belongs to the nth score on y.
    frame = pandas.DataFrame(rows)
    keys = [*_LINE, "watch", "nth"]
    frame["nth"] = frame.groupby([*_LINE, "watch", "step", "axis"]).cumcount()
    x, y = frame[frame["axis"] == "x"], frame[frame["axis"] == "y"]
    pairs = x.merge(y, on=[*keys, "step"], suffixes=("_x", "_y"))
    pairs = pairs.rename(columns={"value_x": "x", "value_y": "y"})
    pairs["degenerate"] = pairs["degenerate_x"] | pairs["degenerate_y"]
    pairs = pairs[np.isfinite(pairs[["x", "y"]]).all(axis=1)]

    # Two pairs of scores of one encoder under one protocol id differ in settings, so each has its own plane.
    lines = pairs[keys].drop_duplicates()
    lines["plane"] = lines.groupby(_LINE).cumcount()
    planes = []
    for _, points in pairs.merge(lines).groupby([*_PLANE, "plane"], sort=False):
        first = points.iloc[0]
        planes.append(
            ScorePlane(
                stage=first["stage"],
                protocol=first["protocol"],
                task=first["task"],
                evaluator=first["evaluator"],
                x=first["metric_x"],
                y=first["metric_y"],
                directions=(first["direction_x"], first["direction_y"]),
                points=points,
            )
        )
    return planes
