"""A runtime that gives vectors of the toy plugin, or does what an engine should not, when it is told to."""

from __future__ import annotations

import os
import signal
import time
from typing import ClassVar, Literal, TypeAlias

import attrs
import numpy as np
import toy_plugin
from sentbed.errors import RunError
from sentbed.protocols import (
    Evaluation,
    Evaluator,
    Items,
    Prepared,
    Score,
    Texts,
)

Fault: TypeAlias = Literal[
    "none",
    "raises",
    "crashes",
    "exits",
    "hangs",
    "wrong",
    "wrong later",
    "longer",
    "not finite",
    "narrow",
    "slightly wrong",
]

WORDS = ["abc"[: i % 4] + chr(97 + i) for i in range(20)]


@attrs.frozen
class Planted(toy_plugin.Toy):
    """NumPy on the host, with a fault."""

    name: ClassVar[str] = "planted"
    untrainable = "the runtime `planted` only encodes; use `toy`"

    fault: Fault = "none"
    seconds: float = 0.0
    """What a batch takes besides."""

    def build(self):
        """Return the engine."""
        return PlantedEngine(self.token_budget, fault=self.fault, seconds=self.seconds)


@attrs.define(eq=False)
class PlantedEngine(toy_plugin.Engine):
    """Makes encoders with a fault."""

    fault: Fault = "none"
    seconds: float = 0.0

    def assemble(self, backbone, pooler, head, saved=None):
        """Return the toy plugin's encoder with the fault."""
        placed = super().assemble(backbone, pooler, head, saved)
        return PlantedEncoder(
            placed.backbone,
            placed.weights,
            placed.projection,
            placed.normalize,
            engine=self,
        )


@attrs.define(eq=False)
class PlantedEncoder(toy_plugin.Placed):
    """Encodes with a fault."""

    engine: PlantedEngine = attrs.field(kw_only=True)

    @property
    def width(self):
        """Dimension of a vector."""
        if self.engine.fault == "narrow":
            return super().width - 1
        return super().width

    def encode(self, batch):
        """Return the vectors of a batch, right or wrong, or none."""
        first = not self.batches
        vectors = super().encode(batch)
        time.sleep(self.engine.seconds)
        match self.engine.fault:
            case "raises":
                raise RunError("the kernel has no such shape; take another")
            case "crashes":
                os.kill(os.getpid(), signal.SIGSEGV)
            case "exits":
                print("the library prints this")
                os._exit(3)
            case "hangs":
                time.sleep(1000)
            case "wrong":
                vectors = vectors[::-1].copy()
            case "wrong later":
                if not first:
                    vectors = -vectors
            case "longer":
                vectors = vectors * 2
            case "not finite":
                vectors = vectors * np.float32("nan")
            case "narrow":
                vectors = vectors[:, :-1]
            case "slightly wrong":
                noise = np.random.default_rng(1).standard_normal(vectors.shape)
                vectors = vectors * (1 + 0.01 * noise).astype(np.float32)
        return vectors


@attrs.frozen
class Order(Evaluator):
    """Pearson's correlation of the first number of each word's vector with the word's place."""

    name: ClassVar[str] = "order"

    def prepare(self):
        """Return the words."""
        return Prepared({"words": Texts(WORDS)}, self._score)

    def _score(self, vectors):
        first = vectors["words"][:, 0].astype(np.float64)
        places = np.arange(len(WORDS), dtype=np.float64)
        value = 100 * float(np.corrcoef(places, first)[0, 1])
        items = Items("pearson", places, first)
        score = Score("order", "pearson", value, {"id": "order"}, items=items)
        return Evaluation((score,), value)
