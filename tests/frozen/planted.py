"""A plugin for the rooms: an evaluator with drawn scores, and a signal that ends a run."""

from __future__ import annotations

import os
import signal
from hashlib import sha256
from typing import Any, ClassVar

import attrs
import numpy as np
import sentbed
from sentbed.protocols import (
    Evaluation,
    Evaluator,
    Items,
    Prepared,
    Score,
    Texts,
    Vectors,
)
from sentbed_common import item_score

REPLICATE: dict[str, Any] = {}
"""Seed and template of the run that is evaluated."""


@sentbed.hookimpl
def run_started(run):
    REPLICATE["seed"] = run.recipe.run.seed
    templates = []
    for encoder in run.recipe.encoders.values():
        templates.append(getattr(encoder.prompt, "template", None))
    REPLICATE["prompt"] = repr(templates)


@sentbed.hookimpl
def step_finished(stage, step):
    """Send this process the signal that the environment names, such as `SIGKILL queue 5`, after a step."""
    words = os.environ.get("PLANTED_KILL", "").split()
    if words[1:] == [stage, str(step)]:
        os.kill(os.getpid(), signal.Signals[words[0]])


@sentbed.hookimpl
def evaluators():
    return [Planted]


def draw(count, *names):
    """Return normal numbers that depend on the names alone, rounded so that every processor has the same."""
    digest = sha256(repr(names).encode()).digest()
    generator = np.random.default_rng(int.from_bytes(digest[:8], "big"))
    return generator.standard_normal(count).round(6)


@attrs.frozen
class Planted(Evaluator):
    """A score of `level + effect`, and what seeds, prompts and items add to it."""

    name: ClassVar[str] = "planted"

    task: str
    cell: str = ""
    effect: float = 0.0
    level: float = 50.0
    seeds: float = 0.0
    """Standard deviation over seeds of what the seed adds to this cell."""
    prompts: float = 0.0
    """Standard deviation over prompts of what the prompt adds to this cell."""
    items: int = 0
    """Number of items; 0 for a score without items."""
    statistic: str = "mean"
    split: str = "test"
    direction: str = "higher"

    def prepare(self):
        return Prepared(
            {"texts": Texts(["A tokenizer is trained on this sentence."])}, self._score
        )

    def _score(self, vectors: Vectors) -> Evaluation:
        seed, prompt = REPLICATE["seed"], REPLICATE["prompt"]
        items = None
        value = float(self.value(seed, prompt))
        if self.items:
            x, y = self.item_columns(seed, prompt)
            items = Items(self.statistic, x, y)
            value = item_score(items)
        protocol = {"id": "planted", "split": self.split}
        score = Score(
            self.task,
            self.statistic,
            value,
            protocol,
            items=items,
            direction=self.direction,
        )
        return Evaluation((score,), primary=value)

    def value(self, seed, prompt):
        """Return the score of a run, but for its items."""
        value = self.level + self.effect
        cell = (self.task, self.cell, float(self.effect))
        value += self.seeds * draw(1, *cell, seed)[0]
        value += self.prompts * draw(1, *cell, prompt)[0]
        return value

    def item_columns(self, seed, prompt):
        """Return items that are about as hard for every cell, with noise of this cell and seed."""
        value = self.value(seed, prompt)
        shared = draw(self.items, self.task)
        noise = draw(self.items, self.task, self.cell, float(self.effect), seed)
        if self.statistic == "mean":
            return (value + 20 * shared + 5 * noise) / 100, None
        return shared, shared + noise * (1 - value / 100)
