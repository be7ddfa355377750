"""Planes of two scores, such as alignment over uniformity, and the positions of encoders in them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import attrs
from sentbed.protocols import START, Direction, Score


@attrs.frozen
class Plane:
    """Two metrics that an evaluator has drawn against each other, as Wang & Isola (2020) alignment over
    uniformity."""

    x: str
    y: str
    directions: tuple[Direction, Direction]

    @classmethod
    def of(cls, x: Score, y: Score) -> Plane:
        """Return the plane of two scores."""
        return cls(x.metric, y.metric, (x.direction, y.direction))

    @property
    def title(self) -> str:
        """Heading that names both metrics."""
        return f"{self.y[:1].upper()}{self.y[1:]} and {self.x}"

    @property
    def over(self) -> str:
        """Heading for one metric over the other."""
        return f"{self.y[:1].upper()}{self.y[1:]} over {self.x}"

    @property
    def better(self) -> str:
        """Sentence on which direction is better; empty if neither is."""
        if len(set(self.directions)) == 1 and "none" not in self.directions:
            return f"{self.directions[0].capitalize()} is better on both axes."
        sentences = []
        for metric, direction in zip((self.x, self.y), self.directions, strict=True):
            if direction != "none":
                sentences.append(f"{direction.capitalize()} is better of {metric}.")
        return " ".join(sentences)


@attrs.frozen
class GeometryPoint:
    """Position of an encoder in a plane."""

    encoder: str
    x: float
    y: float


@attrs.frozen
class GeometryPanel:
    """Positions of encoders in a plane under one protocol, so that they can share axes."""

    plane: Plane
    evaluator: str
    protocol: str
    task: str
    points: tuple[GeometryPoint, ...]


def base_name(encoder: str) -> str:
    """Return the encoder's name without the suffix for before training."""
    return encoder.removesuffix(START)


def encoder_order(encoders: Iterable[str]) -> tuple[str, ...]:
    """Return each encoder once, in order of appearance, with `NAME@start` right before `NAME`."""
    found = tuple(dict.fromkeys(encoders))
    bases = tuple(dict.fromkeys(base_name(encoder) for encoder in found))
    return tuple(name for base in bases for name in (base + START, base) if name in found)


def geometry_panels(scores: Sequence[Score]) -> tuple[GeometryPanel, ...]:
    """Pair each encoder's scores on two axes, of the same evaluator, protocol id and task."""
    measured: dict[tuple[str, str, str], dict[str, dict[str, list[Score]]]] = {}
    for score in scores:
        if score.axis in ("x", "y") and math.isfinite(score.value):
            key = (score.evaluator, score.protocol_id, score.task)
            by_axis = measured.setdefault(key, {}).setdefault(score.encoder, {"x": [], "y": []})
            by_axis[score.axis].append(score)
    panels = []
    for (evaluator, protocol, task), encoders in measured.items():
        pairs = {name: tuple(zip(found["x"], found["y"], strict=False)) for name, found in encoders.items()}
        # Scored twice under one id with different settings: separate axes.
        for nth in range(max(map(len, pairs.values()))):
            placed = {name: pairs[name][nth] for name in encoder_order(pairs) if nth < len(pairs[name])}
            points = tuple(GeometryPoint(name, x.value, y.value) for name, (x, y) in placed.items())
            plane = Plane.of(*next(iter(placed.values())))
            panels.append(GeometryPanel(plane, evaluator, protocol, task, points))
    return tuple(panels)
