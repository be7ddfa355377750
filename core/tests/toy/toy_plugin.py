"""A small plugin that offers every kind of component, computed by NumPy: a bag of characters, trained by SGD.

It is a whole implementation of the protocols, so that core is tested without a tensor library.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import attrs
import numpy as np
from attrs.validators import ge, gt
from numpy.typing import NDArray
from sentbed import DataError, FilePath, ModelId, hookimpl
from sentbed.encode import pad
from sentbed.protocols import (
    BuildContext,
    Evaluation,
    Head,
    LossOutput,
    Scatter,
    Score,
    StepResult,
    TokenBatch,
    TokenIds,
    TokenStates,
)
from sentbed.table import TextTable

VOCABULARY = 64

RECIPE = """\
schema = 1

[run]
name = "toy-run"
seed = 7

[runtime]
use = "toy"

[encoder]
max_length = 16
backbone = { use = "characters", width = 4 }
pooler = { use = "average" }

[[stage]]
name = "pull"
data = { use = "words", rows = 11 }
loss = { use = "pull" }
optimizer = { use = "sgd", lr = 0.5 }
schedule = { use = "falling" }
batch_size = 4
epochs = 2

[[evaluate]]
use = "gap"
at = ["start", "end"]
"""
"""Eleven rows in batches of four: three steps an epoch, the last of three rows."""


# --- tokenizer, backbone, pooler ---------------------------------------------------------------------------


@attrs.define(eq=False)
class CharacterTokenizer:
    pad_id: int = 0
    mask_token: str | None = None
    seen: list[str] = attrs.field(factory=list)
    """Every text that was tokenised."""

    def encode(self, texts: Sequence[str], max_length: int) -> TokenIds:
        self.seen += texts
        rows = [[1, *(2 + ord(c) % (VOCABULARY - 2) for c in text)][:max_length] for text in texts]
        offsets = np.cumsum([0, *(len(row) for row in rows)]).astype(np.int64)
        return TokenIds(np.array([i for row in rows for i in row], np.int32), offsets)

    def truncate(self, texts: Sequence[str], max_length: int) -> list[str]:
        return [text[:max_length] for text in texts]


@attrs.define(eq=False)
class CharacterBackbone:
    embedding: NDArray[np.float32]
    max_length: int
    origin: Mapping[str, Any]
    tokenizer: CharacterTokenizer = attrs.field(factory=CharacterTokenizer)

    @property
    def width(self) -> int:
        return self.embedding.shape[1]

    def module(self, input_ids: NDArray[np.int64], mask: NDArray[np.int64] | None) -> TokenStates:
        return TokenStates(self.embedding[input_ids], mask)

    def inference(self, module: Any, dtype: Any) -> Any:
        return module

    def save(self, directory: Path) -> None:
        directory.mkdir()
        np.save(directory / "embedding.npy", self.embedding)


@attrs.frozen
class Characters:
    """One vector a character."""

    name: ClassVar[str] = "characters"

    width: int = attrs.field(default=4, validator=ge(1))
    """Width of a character's vector."""
    positions: int = 64
    init_seed: int = 0
    model: ModelId | None = None

    def build(self, context: BuildContext) -> CharacterBackbone:
        if context.saved is not None:
            embedding = np.load(context.saved / "embedding.npy")
        else:
            rng = np.random.default_rng(self.init_seed)
            embedding = rng.standard_normal((VOCABULARY, self.width)).astype(np.float32)
        return CharacterBackbone(embedding, self.positions, {"init": "random", "seed": self.init_seed})


@attrs.frozen
class Average:
    """The mean over the tokens."""

    name: ClassVar[str] = "average"

    def build(self, width: int) -> Any:
        def weights(mask: NDArray[np.int64]) -> NDArray[np.float64]:
            return mask / mask.sum(1, keepdims=True)

        return weights


# --- data, loss, optimiser, schedule -----------------------------------------------------------------------


@attrs.frozen(eq=False)
class AskedTable(TextTable):
    asked: list[list[int]] = attrs.field(factory=list)

    def rows(self, indices: Sequence[int]) -> dict[str, list[str]]:
        self.asked.append(list(indices))
        return super().rows(indices)


@attrs.frozen
class Words:
    """Pairs of a made-up word and the same 13 letters on."""

    name: ClassVar[str] = "words"

    rows: int = attrs.field(default=10, validator=ge(0))
    """How many."""
    asked: list[list[int]] = attrs.field(factory=list, eq=False, metadata={"skip": True})

    @property
    def columns(self) -> tuple[str, ...]:
        return ("anchor", "positive")

    def open(self) -> AskedTable:
        names = ["".join(chr(97 + (i * k) % 26) for k in range(1, 3 + i % 4)) for i in range(self.rows)]
        turned = ["".join(chr(97 + (ord(c) - 84) % 26) for c in name) for name in names]
        return AskedTable({"anchor": names, "positive": turned}, self.asked)


@attrs.frozen
class Lines:
    """The lines of a file, under the one name `anchor`."""

    name: ClassVar[str] = "lines"

    path: FilePath
    """The file."""

    @property
    def columns(self) -> tuple[str, ...]:
        return ("anchor",)

    def check(self) -> Iterator[str]:
        if not Path(self.path).exists():
            yield f"there is no file `{self.path}`; check the path"

    def open(self) -> TextTable:
        if not Path(self.path).exists():
            raise DataError("there is no such file", self.path)
        return TextTable({"anchor": Path(self.path).read_text(encoding="utf-8").splitlines()})


@attrs.frozen
class Pull:
    """Half the mean squared distance of a pair."""

    name: ClassVar[str] = "pull"
    needs: ClassVar[frozenset[str]] = frozenset({"anchor", "positive"})

    temperature: float = attrs.field(default=1.0, validator=gt(0))
    """What the distance is divided by."""
    nan_at: int | None = None
    """The step whose loss is not a number."""
    interrupt_at: int | None = None
    """The step at which Ctrl-C arrives."""

    def build(self, width: int) -> Any:
        calls = 0

        def loss(vectors: Mapping[str, NDArray[np.float64]]) -> tuple[LossOutput, NDArray[np.float64]]:
            nonlocal calls
            calls += 1
            if calls == self.interrupt_at:
                raise KeyboardInterrupt
            apart = vectors["anchor"] - vectors["positive"]
            value = 0.5 * (apart**2).sum(1).mean() / self.temperature
            if calls == self.nan_at:
                value = math.nan
            return LossOutput(value, {"pairs": len(apart)}), apart / (len(apart) * self.temperature)

        return loss


@attrs.frozen
class Sgd:
    """Gradient descent."""

    name: ClassVar[str] = "sgd"

    lr: float

    def build(self, parameters: Sequence[tuple[str, Any]]) -> Any:
        def update(gradients: Mapping[str, NDArray[np.float64]], rate: float) -> None:
            for name, value in parameters:
                np.subtract(value, rate * gradients[name], out=value, casting="same_kind")

        return update


@attrs.frozen
class Falling:
    """From 1 to 0 in a straight line."""

    name: ClassVar[str] = "falling"

    def factor(self, step: int, total_steps: int) -> float:
        return 1 - step / total_steps


# --- evaluator ---------------------------------------------------------------------------------------------


@attrs.frozen
class Gap:
    """How near the distance of two texts is to a target, from minus infinity to 0."""

    name: ClassVar[str] = "gap"

    left: str = "abc"
    right: str = "nop"
    target: float = 0.0
    development: bool = False

    def evaluate(self, encoder: Any) -> Evaluation:
        one, other = encoder.encode([self.left, self.right])
        distance = float(np.linalg.norm(one - other))
        value = -abs(distance - self.target)
        score = Score("gap", "distance", value, {"id": "gap", "target": self.target})
        return Evaluation((score,), value, (Scatter("gap", "target", "distance", [self.target], [distance]),))


# --- runtime -----------------------------------------------------------------------------------------------


@attrs.define(eq=False)
class Placed:
    backbone: CharacterBackbone
    weights: Any
    projection: NDArray[np.float32] | None
    normalize: bool
    batches: list[TokenBatch] = attrs.field(factory=list)
    """Every batch that was encoded."""

    @property
    def width(self) -> int:
        return self.backbone.width if self.projection is None else self.projection.shape[1]

    def counts(self, batch: TokenBatch) -> NDArray[np.float64]:
        mask = batch.attention_mask
        weights = self.weights(np.ones_like(batch.input_ids) if mask is None else mask)
        counts = np.zeros((len(weights), VOCABULARY))
        for row, ids in enumerate(batch.input_ids):
            np.add.at(counts[row], ids, weights[row])
        return counts

    def forward(self, counts: NDArray[np.float64]) -> NDArray[np.float64]:
        vectors = counts @ self.backbone.embedding
        return vectors if self.projection is None else vectors @ self.projection

    def encode(self, batch: TokenBatch) -> NDArray[np.float32]:
        self.batches.append(batch)
        vectors = self.forward(self.counts(batch))
        if self.normalize:
            vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors.astype(np.float32)

    def save(self, directory: Path) -> None:
        self.backbone.save(directory / "backbone")
        if self.projection is not None:
            np.save(directory / "projection.npy", self.projection)


@attrs.define(eq=False)
class SgdTrainer:
    encoder: Placed
    loss: Any
    update: Any
    rate: Any
    max_grad_norm: float
    step_number: int = 0

    def step(self, columns: Mapping[str, TokenIds]) -> StepResult:
        rows = np.arange(len(columns["anchor"]))
        counts = {name: self.encoder.counts(pad(ids, rows, 0)) for name, ids in columns.items()}
        output, apart = self.loss({name: self.encoder.forward(of) for name, of in counts.items()})
        difference = counts["anchor"] - counts["positive"]
        embedding, projection = self.encoder.backbone.embedding, self.encoder.projection
        if projection is None:
            gradients = {"embedding": difference.T @ apart}
        else:
            gradients = {
                "embedding": difference.T @ apart @ projection.T,
                "projection": (difference @ embedding).T @ apart,
            }
        norm = math.sqrt(sum(float((gradient**2).sum()) for gradient in gradients.values()))
        if 0 < self.max_grad_norm < norm:
            gradients = {name: g * (self.max_grad_norm / norm) for name, g in gradients.items()}
        rate = self.rate(self.step_number)
        self.update(gradients, rate)
        self.step_number += 1
        return StepResult(float(output.loss), rate, norm, dict(output.metrics))


@attrs.define(eq=False)
class Engine:
    token_budget: int
    rng: np.random.Generator = attrs.field(factory=lambda: np.random.default_rng(0))

    def describe(self) -> Mapping[str, Any]:
        return {"device": "toy", "precision": "fp64", "token_budget": self.token_budget}

    def seed(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def assemble(
        self, backbone: CharacterBackbone, pooler: Average, head: Head, saved: Path | None = None
    ) -> Placed:
        projection = None
        if head.projection is not None:
            projection = self.rng.standard_normal((backbone.width, head.projection)).astype(np.float32)
            if saved is not None:
                projection = np.load(saved / "projection.npy")
        return Placed(backbone, pooler.build(backbone.width), projection, head.normalize)

    def trainer(
        self,
        encoder: Placed,
        loss: Pull,
        optimizer: Sgd,
        schedule: Falling,
        total_steps: int,
        max_grad_norm: float,
    ) -> SgdTrainer:
        parameters = [("embedding", encoder.backbone.embedding)]
        if encoder.projection is not None:
            parameters.append(("projection", encoder.projection))
        return SgdTrainer(
            encoder,
            loss.build(encoder.width),
            optimizer.build(parameters),
            lambda step: optimizer.lr * schedule.factor(step, total_steps),
            max_grad_norm,
        )


@attrs.frozen
class Toy:
    """NumPy on the host."""

    name: ClassVar[str] = "toy"

    precision: Literal["fp32", "fp64"] = "fp32"
    token_budget: int = 64

    def build(self) -> Engine:
        return Engine(self.token_budget)


# --- hooks -------------------------------------------------------------------------------------------------


@hookimpl
def backbones() -> list[type[Any]]:
    return [Characters]


@hookimpl
def poolers() -> list[type[Any]]:
    return [Average]


@hookimpl
def losses() -> list[type[Any]]:
    return [Pull]


@hookimpl
def data_sources() -> list[type[Any]]:
    return [Words, Lines]


@hookimpl
def evaluators() -> list[type[Any]]:
    return [Gap]


@hookimpl
def runtimes() -> list[type[Any]]:
    return [Toy]


@hookimpl
def optimizers() -> list[type[Any]]:
    return [Sgd]


@hookimpl
def schedules() -> list[type[Any]]:
    return [Falling]


class Recorder:
    """A tracker that remembers which hook was called with what; `fail_on` makes it fail."""

    fail_on = ""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.events]

    def keep(self, event: str, **details: Any) -> None:
        self.events.append((event, details))
        if event == self.fail_on:
            raise ValueError(f"the recorder fails on {event}")

    @hookimpl
    def run_started(self, run: Any) -> None:
        self.keep("run_started", name=run.name)

    @hookimpl
    def evaluation_started(self, evaluator: str, encoder: str) -> None:
        self.keep("evaluation_started", evaluator=evaluator, encoder=encoder)

    @hookimpl
    def scores_ready(self, encoder: str, evaluation: Evaluation) -> None:
        self.keep("scores_ready", encoder=encoder, primary=evaluation.primary)

    @hookimpl
    def stage_started(self, stage: str, total_steps: int) -> None:
        self.keep("stage_started", stage=stage, total_steps=total_steps)

    @hookimpl
    def step_finished(self, step: int, result: StepResult) -> None:
        self.keep("step_finished", step=step, loss=result.loss)

    @hookimpl
    def validated(self, step: int, score: float, best: bool) -> None:
        self.keep("validated", step=step, score=score, best=best)

    @hookimpl
    def checkpoint_saved(self, step: int, path: Path) -> None:
        self.keep("checkpoint_saved", step=step, exists=(path / "encoder.toml").is_file())

    @hookimpl
    def stage_finished(self, steps: int, best_score: float | None, best_step: int) -> None:
        self.keep("stage_finished", steps=steps, best_score=best_score, best_step=best_step)

    @hookimpl
    def run_finished(self, report: Path) -> None:
        self.keep("run_finished", exists=report.is_file())

    @hookimpl
    def run_failed(self, error: BaseException) -> None:
        self.keep("run_failed", error=error)
