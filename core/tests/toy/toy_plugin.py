"""A small plugin that offers every kind of component, computed by NumPy: a bag of characters, trained by SGD.

It is a whole implementation of the protocols, so that core is tested without a tensor library.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Literal

import attrs
import numpy as np
from attrs.validators import and_, ge, gt, lt
from numpy.typing import NDArray
from sentbed import (
    DataError,
    Encoder,
    FilePath,
    ModelError,
    ModelId,
    hookimpl,
    protocols,
)
from sentbed._encoder.batching import pad
from sentbed.protocols import (
    Backbone,
    BuiltBackbone,
    DataSource,
    DrivesEncoder,
    Evaluation,
    Evaluator,
    Exporter,
    Importer,
    Items,
    Loss,
    LossOutput,
    Optimizer,
    PlacedEncoder,
    Pooler,
    Prepared,
    Prompt,
    RecipeTable,
    ReportSection,
    ResolvedPrompt,
    Runtime,
    Schedule,
    Score,
    StepResult,
    TableTraits,
    Template,
    Texts,
    TokenBatch,
    TokenIds,
    Tokenizer,
    TokenStates,
    Tracker,
    Trainer,
    Training,
    Transform,
)
from toy_dataset import ToyDataset

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

TOWERS = """\
schema = 1

[run]
name = "towers"
seed = 7

[runtime]
use = "toy"

[encoders.en]
max_length = 16
backbone = { use = "characters", width = 4, init_seed = 1 }
pooler = { use = "average" }

[encoders.zh]
max_length = 16
backbone = { use = "characters", width = 4, init_seed = 2 }
pooler = { use = "average" }

[[stage]]
name = "pairs"
train = "zh"
freeze = "en"
columns = { anchor = "en", positive = "zh" }
data = { use = "words", rows = 11 }
loss = { use = "pull" }
optimizer = { use = "sgd", lr = 0.5 }
schedule = { use = "falling" }
batch_size = 4
epochs = 2

[[stage]]
name = "tune"
train = "zh"
data = { use = "words", rows = 7 }
loss = { use = "pull" }
optimizer = { use = "sgd", lr = 0.5 }
schedule = { use = "falling" }
batch_size = 4
epochs = 2

[[evaluate]]
use = "across"
encoder = "zh"
second = "en"
at = ["start", "end"]
"""
"""Two encoders: `zh` is trained beside the frozen `en` for six steps, then alone for four."""


def quicken(patch):
    """Let runs leave out pages and git, which take time; `patch` is pytest's `monkeypatch`."""

    def write(directory, data, **_):
        (directory / "report.html").touch()
        return directory / "report.html"

    if find_spec("sentbed_report") is not None:
        patch.setattr("sentbed_report.write_report.write_report", write)
    patch.setattr("sentbed._run.manifest._git", lambda _: None)


# --- tokenizer, backbone, pooler ---------------------------------------------------------------------------


@attrs.define(eq=False)
class CharacterTokenizer(Tokenizer):
    pad_id: int = 0
    mask_token: str | None = None
    seen: list[str] = attrs.field(factory=list)
    """Every text that was tokenised."""
    fingerprint: str = "characters"

    def encode(self, texts, max_length):
        self.seen += texts
        ids = []
        offsets = [0]
        for text in texts:
            ids.append(1)
            for character in text[: max_length - 1]:
                ids.append(2 + ord(character) % (VOCABULARY - 2))
            offsets.append(len(ids))
        return TokenIds(np.array(ids, np.int32), np.array(offsets, np.int64))

    def truncate(self, texts, max_length):
        return [text[:max_length] for text in texts]


@attrs.define(eq=False)
class CharacterBackbone(BuiltBackbone):
    embedding: NDArray[np.float32]
    max_length: int
    origin: Mapping[str, Any]
    tokenizer: CharacterTokenizer = attrs.field(factory=CharacterTokenizer)

    @property
    def width(self):
        return self.embedding.shape[1]

    def module(self, input_ids, mask):
        return TokenStates(self.embedding[input_ids], mask)

    def inference(self, module, dtype):
        return module

    def save(self, directory):
        directory.mkdir()
        np.save(directory / "embedding.npy", self.embedding)


@attrs.frozen
class Characters(Backbone):
    """One vector a character."""

    name: ClassVar[str] = "characters"

    width: int = attrs.field(default=4, validator=ge(1))
    """Width of a character's vector."""
    positions: int = 64
    init_seed: int = 0
    model: ModelId | None = None

    def build(self, context):
        if context.saved is not None:
            embedding = np.load(context.saved / "embedding.npy")
        else:
            rng = np.random.default_rng(self.init_seed)
            embedding = rng.standard_normal((VOCABULARY, self.width)).astype(np.float32)
        return CharacterBackbone(
            embedding, self.positions, {"init": "random", "seed": self.init_seed}
        )


@attrs.frozen
class Average(Pooler):
    """The mean over the tokens."""

    name: ClassVar[str] = "average"

    def build(self, width):
        def weights(mask):
            return mask / mask.sum(1, keepdims=True)

        return weights


@attrs.frozen
class Centre(Transform):
    """Subtracts the mean vector of some texts and leaves out the last dimensions."""

    name: ClassVar[str] = "centre"

    data: DataSource
    """The texts."""
    dimensions: int = attrs.field(default=3, validator=ge(1))
    """How many are left."""

    def misfits(self, encoder):
        if (width := encoder.backbone.width) < self.dimensions:
            yield f"{self.dimensions} of {width} dimensions cannot be left; lower `dimensions`"

    def output_width(self, width):
        return self.dimensions

    def texts(self, width):
        texts = list(self.data.open().texts())
        if len(texts) < 2:
            raise DataError("the centre of one text is the text; give more")
        return texts

    def fit(self, vectors, backbone):
        return vectors.mean(axis=0), np.eye(vectors.shape[1])[:, : self.dimensions]


# --- data, loss, optimiser, schedule -----------------------------------------------------------------------


@attrs.frozen
class Words(DataSource):
    """Pairs of a made-up word and the same 13 letters on."""

    name: ClassVar[str] = "words"

    rows: int = attrs.field(default=10, validator=ge(0))
    """How many."""

    @property
    def columns(self):
        return ("anchor", "positive")

    def open(self):
        names = []
        turned = []
        for row in range(self.rows):
            name = ""
            turned_name = ""
            for factor in range(1, 3 + row % 4):
                letter = row * factor % 26
                name += chr(97 + letter)
                turned_name += chr(97 + (letter + 13) % 26)
            names.append(name)
            turned.append(turned_name)
        return ToyDataset({"anchor": names, "positive": turned})


@attrs.frozen
class Lines(DataSource):
    """The lines of a file, under the one name `anchor`."""

    name: ClassVar[str] = "lines"

    path: FilePath
    """The file."""

    @property
    def columns(self):
        return ("anchor",)

    def check(self):
        if not Path(self.path).exists():
            yield f"there is no file `{self.path}`; check the path"

    def open(self):
        if not Path(self.path).exists():
            raise DataError("there is no such file", self.path)
        return ToyDataset(
            {"anchor": Path(self.path).read_text(encoding="utf-8").splitlines()}
        )


@attrs.frozen
class Table(DataSource):
    """A tab-separated file; its first line names the columns."""

    name: ClassVar[str] = "table"

    path: FilePath
    """The file."""
    columns: tuple[str, ...] = ("anchor", "positive")
    """What the first line says."""
    number_columns: tuple[str, ...] = attrs.field(
        default=(), metadata={"key": "numbers"}
    )
    """What of it are numbers."""

    @property
    def numbers(self):
        return frozenset(self.number_columns)

    def open(self):
        text = Path(self.path).read_text(encoding="utf-8")
        rows = [line.split("\t") for line in text.splitlines()]
        data = {}
        for name, *values in zip(*rows, strict=True):
            data[name] = values
            if name in self.number_columns:
                data[name] = list(map(float, values))
        return ToyDataset(data)


@attrs.frozen
class Pull(Loss):
    """Half the mean squared distance of a pair."""

    name: ClassVar[str] = "pull"
    columns = frozenset({"anchor", "positive"})
    needs = frozenset({"state"})

    temperature: float = attrs.field(default=1.0, validator=gt(0))
    """What the distance is divided by."""
    nan_at: int | None = None
    """The step whose loss is not a number."""
    interrupt_at: int | None = None
    """The step at which Ctrl-C arrives."""
    noise: float = 0.0
    """Standard deviation of what the trainer adds to every vector."""
    memory: float = 0.0
    """How much of the mean distance of earlier steps counts as well."""

    def build(self, width):
        return Pulling(self, width)


@attrs.define(eq=False)
class Pulling:
    loss: Pull
    width: int
    calls: int = 0

    def initial_state(self):
        return {"mean": np.zeros(self.width)}

    def __call__(self, vectors, state):
        self.calls += 1
        if self.calls == self.loss.interrupt_at:
            raise KeyboardInterrupt
        apart = (
            vectors["anchor"] - vectors["positive"] + self.loss.memory * state["mean"]
        )
        value = 0.5 * (apart**2).sum(1).mean() / self.loss.temperature
        if self.calls == self.loss.nan_at:
            value = math.nan
        gradient = apart / (len(apart) * self.loss.temperature)
        output = LossOutput(
            value, {"pairs": len(apart)}, {"mean": (apart.mean(0) + state["mean"]) / 2}
        )
        return output, {"anchor": gradient, "positive": -gradient}


@attrs.frozen
class Sort(Loss):
    """Pulls pairs of the first class together and pushes all others apart."""

    name: ClassVar[str] = "sort"

    classes: tuple[str, ...] = ("same", "other")
    """What the column `label` may hold."""

    columns = frozenset({"anchor", "positive", "label"})
    takes = frozenset()

    def build(self, width):
        def loss(inputs):
            sign = np.where(inputs["label"] == 0, 1, -1)[:, None]
            apart = inputs["anchor"] - inputs["positive"]
            gradient = sign * apart / len(apart)
            output = LossOutput(
                0.5 * (sign * apart**2).sum(1).mean(), {"same": int((sign > 0).sum())}
            )
            return output, {"anchor": gradient, "positive": -gradient}

        return loss


@attrs.frozen
class Grade(Loss):
    """Half the mean squared distance of a pair, times its score."""

    name: ClassVar[str] = "grade"
    columns = frozenset({"anchor", "positive", "score"})
    takes = frozenset()
    numbers = frozenset({"score"})

    def build(self, width):
        def loss(inputs):
            score = inputs["score"]
            assert (score.dtype, score.ndim) == (np.float32, 1)
            apart = inputs["anchor"] - inputs["positive"]
            gradient = score[:, None] * apart / len(apart)
            output = LossOutput(
                0.5 * (score[:, None] * apart**2).sum(1).mean(), {"mean": score.mean()}
            )
            return output, {"anchor": gradient, "positive": -gradient}

        return loss


@attrs.frozen
class Chase(Loss):
    """Pulls each anchor to where a moving average of its tower puts the positive."""

    name: ClassVar[str] = "chase"

    momentum: float = attrs.field(default=0.5, validator=and_(ge(0), lt(1)))
    """How much of the average a step keeps."""
    averaged: tuple[str, ...] = attrs.field(
        default=("positive",), metadata={"key": "keys"}
    )
    """The columns that the average encodes."""
    most: int = 100
    """The largest batch."""

    columns = frozenset({"anchor", "positive"})
    takes = frozenset()

    @property
    def keys(self):
        return frozenset(self.averaged)

    def build(self, width):
        def loss(vectors):
            apart = vectors["anchor"] - vectors["positive"]
            return LossOutput(0.5 * (apart**2).sum(1).mean()), {
                "anchor": apart / len(apart)
            }

        return loss

    def misfits(self, place):
        if place.batch_size > self.most:
            yield f"a batch of {place.batch_size} is more than {self.most}; make it smaller"
        if "anchor" in place.fixed:
            yield "the anchor is fixed; train its encoder"


@attrs.frozen
class Sgd(Optimizer):
    """Gradient descent."""

    name: ClassVar[str] = "sgd"

    lr: float
    momentum: float = 0.0
    """How much of the last step is taken again."""

    def build(self, parameters):
        return Descent(
            self.momentum,
            parameters,
            {name: np.zeros_like(value) for name, value in parameters},
        )


@attrs.define(eq=False)
class Descent:
    momentum: float
    parameters: Sequence[tuple[str, Any]]
    velocity: dict[str, NDArray[np.float32]]

    def __call__(self, gradients, rate):
        for name, value in self.parameters:
            step = self.momentum * self.velocity[name] + gradients[name]
            self.velocity[name][:] = step
            np.subtract(value, rate * step, out=value, casting="same_kind")


@attrs.frozen
class Falling(Schedule):
    """From 1 to 0 in a straight line."""

    name: ClassVar[str] = "falling"

    def factor(self, step, total_steps):
        return 1 - step / total_steps


# --- evaluator ---------------------------------------------------------------------------------------------


@attrs.frozen
class Gap(Evaluator):
    """How near the distance of two texts is to a target, from minus infinity to 0."""

    name: ClassVar[str] = "gap"

    left: str = "abc"
    right: str = "nop"
    target: float = 0.0
    development: bool = False

    def prepare(self):
        return Prepared({"both": Texts([self.left, self.right])}, self._score)

    def _score(self, vectors):
        left, right = vectors["both"]
        distance = float(np.linalg.norm(left - right))
        value = -abs(distance - self.target)
        score = Score("gap", "distance", value, {"id": "gap", "target": self.target})
        return Evaluation((score,), value)


def gap_of(encoder):
    """Return the score of `gap` with its defaults."""
    return Gap().prepare().evaluate(encoder).primary


def assert_same_vectors(encoder, other, texts=("abc",)):
    """Check that two encoders give the same vectors, to the bit."""
    texts = list(texts)
    np.testing.assert_array_equal(encoder.encode(texts), other.encode(texts))


@attrs.frozen
class Across(Evaluator):
    """As `gap`; the second text is encoded by the second encoder."""

    name: ClassVar[str] = "across"

    left: str = "abc"
    right: str = "nop"
    development: bool = True

    two_sided = True

    def prepare(self):
        return Prepared(
            {"left": Texts([self.left]), "right": Texts(second=[self.right])},
            self._score,
        )

    def _score(self, vectors):
        value = -float(np.linalg.norm(vectors["left"] - vectors["right"]))
        protocol = {"id": "across", "split": "dev" if self.development else "test"}
        return Evaluation((Score("across", "distance", value, protocol),), value)


@attrs.frozen
class Nearness(Evaluator):
    """How near words are to the next one, on average; has items, and another metric."""

    name: ClassVar[str] = "nearness"

    words: int = 12
    task: str = "near"

    def prepare(self):
        words = ["abc"[: i % 4] + chr(97 + i) for i in range(self.words + 1)]
        return Prepared({"words": Texts(words)}, self._score)

    def _score(self, vectors_by_name):
        vectors = vectors_by_name["words"].astype(float)
        near = -np.linalg.norm(vectors[1:] - vectors[:-1], axis=1)
        protocol = {"id": "nearness", "words": self.words, "columns": ("a", "b")}
        mean = Score(
            self.task,
            "distance",
            float(near.mean()),
            protocol,
            items=Items("mean", near, scale=1.0),
        )
        worst = Score(self.task, "worst", float(near.min()), protocol)
        return Evaluation((mean, worst), mean.value)


@attrs.frozen
class Lottery(Evaluator):
    """A number that the engine's generator draws."""

    name: ClassVar[str] = "lottery"
    development = True

    def prepare(self):
        return DrivesEncoder(self._draw)

    def _draw(self, encoder):
        value = float(encoder.encoder.engine.rng.random())
        return Evaluation((Score("lottery", "luck", value, {"id": "lottery"}),), value)


# --- runtime -----------------------------------------------------------------------------------------------


@attrs.define(eq=False)
class Placed(PlacedEncoder):
    backbone: CharacterBackbone
    weights: Any
    projection: NDArray[np.float32] | None
    normalize: bool
    batches: list[TokenBatch] = attrs.field(factory=list)
    """Every batch that was encoded."""
    fit: tuple[Any, Any] | None = None
    fitted_on: Mapping[str, Any] | None = None
    bare: bool = False

    @property
    def width(self):
        if self.fit is None:
            return self.trained_width
        return self.fit[1].shape[1]

    @property
    def trained_width(self):
        if self.projection is None:
            return self.backbone.width
        return self.projection.shape[1]

    def counts(self, batch):
        mask = batch.attention_mask
        if mask is None:
            mask = np.ones_like(batch.input_ids)
        weights = self.weights(mask)
        counts = np.zeros((len(weights), VOCABULARY))
        for row, ids in enumerate(batch.input_ids):
            np.add.at(counts[row], ids, weights[row])
        return counts

    def forward(self, counts):
        vectors = counts @ self.backbone.embedding
        if self.projection is None:
            return vectors
        return vectors @ self.projection

    def encode(self, batch):
        self.batches.append(batch)
        vectors = self.forward(self.counts(batch))
        if self.fit is not None:
            vectors = (vectors - self.fit[0]) @ self.fit[1]
        if self.normalize and not self.bare:
            vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors.astype(np.float32)

    def fingerprint(self):
        digest = hashlib.sha256()
        for array in (self.backbone.embedding, self.projection, *(self.fit or ())):
            digest.update(b"|")
            if array is not None:
                digest.update(array.tobytes())
        return digest.hexdigest()

    def save(self, directory):
        self.backbone.save(directory / "backbone")
        if self.projection is not None:
            np.save(directory / "projection.npy", self.projection)
        if self.fit is not None:
            mean, matrix = self.fit
            np.savez(
                directory / "fit.npz",
                mean=mean,
                matrix=matrix,
                on=json.dumps(dict(self.fitted_on or {})),
            )

    def transformed(self, fit=None, on=None):
        return attrs.evolve(self, fit=fit, fitted_on=on, bare=fit is None)


@attrs.define(eq=False)
class SgdTrainer(Trainer):
    encoders: Mapping[str, Placed]
    training: Training
    loss: Any
    update: Descent
    rate: Any
    rng: np.random.Generator
    state: Mapping[str, Any]
    """The loss's own."""
    averages: dict[str, Any]
    """Weights of the moving average, where the loss has one."""
    ema: dict[str, Any]
    """Weights of the moving average that the stage evaluates, where it has one."""
    step_number: int = 0

    def swap_average(self):
        for name, value in self.update.parameters:
            weights = value.copy()
            value[:] = self.ema[name]
            self.ema[name][:] = weights

    def step(self, columns):
        output, gradients = self.backward(columns)
        squares = 0.0
        for gradient in gradients.values():
            squares += float((gradient**2).sum())
        norm = math.sqrt(squares)
        if 0 < self.training.max_grad_norm < norm:
            scale = self.training.max_grad_norm / norm
            gradients = {name: value * scale for name, value in gradients.items()}
        rate = self.rate(self.step_number)
        self.step_number += 1
        if math.isfinite(norm) and math.isfinite(output.loss):
            self.state = output.state or {}
            self.update(gradients, rate)
            self.move(self.averages, self.training.loss.momentum)
            self.move(self.ema, self.training.ema)
        return StepResult(float(output.loss), rate, norm, dict(output.metrics))

    def move(self, averages, decay):
        """Move averages towards the weights."""
        weights = dict(self.update.parameters)
        for name, average in averages.items():
            average[:] = decay * average + (1 - decay) * weights[name]

    def gradients(self, columns):
        output, gradients = self.backward(columns)
        for name, value in gradients.items():
            gradients[name] = value.astype(np.float32)
        return float(output.loss), gradients

    def backward(self, columns):
        vectors, counts = {}, {}
        for name, column in columns.items():
            vectors[name] = column
            if isinstance(column, TokenIds):
                placed = self.placed(name)
                counts[name] = placed.counts(pad(column, np.arange(len(column)), 0))
                vectors[name] = placed.forward(counts[name])
                noise = getattr(self.training.loss, "noise", 0)
                vectors[name] += noise * self.rng.standard_normal(vectors[name].shape)
        states = [self.state] if self.state else []
        output, slopes = self.loss(vectors, *states)
        gradients = {}
        for name, value in self.update.parameters:
            gradients[name] = np.zeros_like(value)
        for column, slope in slopes.items():
            if column not in counts:
                continue
            tower = self.training.towers[column]
            of = counts[column]
            embedding = self.encoders[tower].backbone.embedding
            projection = self.encoders[tower].projection
            # What is not finite is for `step` to see.
            with np.errstate(invalid="ignore"):
                tower_gradients = {"embedding": of.T @ slope}
                if projection is not None:
                    tower_gradients = {
                        "embedding": of.T @ slope @ projection.T,
                        "projection": (of @ embedding).T @ slope,
                    }
            for name, gradient in tower_gradients.items():
                gradients[f"{tower}.{name}"] = gradients[f"{tower}.{name}"] + gradient
        return output, gradients

    def placed(self, column):
        """What encodes a column: its tower, or the average of it."""
        tower = self.training.towers[column]
        placed = self.encoders[tower]
        if column not in self.training.loss.keys:
            return placed
        backbone = attrs.evolve(
            placed.backbone, embedding=self.averages[f"{tower}.embedding"]
        )
        return attrs.evolve(
            placed,
            backbone=backbone,
            projection=self.averages.get(f"{tower}.projection"),
            batches=[],
        )

    def arrays(self):
        """Everything that changes from step to step, by name."""
        arrays = {}
        for name, value in self.update.parameters:
            arrays[f"weights {name}"] = value
        for name, value in self.update.velocity.items():
            arrays[f"velocity {name}"] = value
        for name, value in self.averages.items():
            arrays[f"average {name}"] = value
        for name, value in self.ema.items():
            arrays[f"ema {name}"] = value
        return arrays

    def save(self, directory):
        with (directory / "arrays.npz").open("wb") as stream:
            np.savez(stream, **self.arrays())
        state = {
            "step": self.step_number,
            "rng": self.rng.bit_generator.state,
            "loss": {name: value.tolist() for name, value in self.state.items()},
        }
        (directory / "trainer.json").write_text(json.dumps(state))

    def load(self, directory):
        with np.load(directory / "arrays.npz") as arrays:
            if set(arrays) != set(self.arrays()):
                raise ModelError("the state is that of another trainer; start again")
            for name, value in self.arrays().items():
                value[:] = arrays[name]
        state = json.loads((directory / "trainer.json").read_text())
        self.step_number, self.rng.bit_generator.state = state["step"], state["rng"]
        self.state = {name: np.array(value) for name, value in state["loss"].items()}


@attrs.define(eq=False)
class Engine(protocols.TrainingEngine):
    token_budget: int
    rng: np.random.Generator = attrs.field(factory=lambda: np.random.default_rng(0))

    def describe(self):
        return {"device": "toy", "precision": "fp64", "token_budget": self.token_budget}

    def seed(self, seed):
        self.rng = np.random.default_rng(seed)

    def assemble(
        self,
        backbone,
        pooler,
        head,
        saved=None,
    ):
        projection = None
        if head.projection is not None:
            projection = self.rng.standard_normal(
                (backbone.width, head.projection)
            ).astype(np.float32)
            if saved is not None:
                projection = np.load(saved / "projection.npy")
        placed = Placed(
            backbone, pooler.build(backbone.width), projection, head.normalize
        )
        if saved is not None and (saved / "fit.npz").exists():
            fit = np.load(saved / "fit.npz")
            placed = placed.transformed(
                (fit["mean"], fit["matrix"]), json.loads(str(fit["on"]))
            )
        return placed

    def trainer(self, encoders, training):
        parameters = []
        for tower, encoder in encoders.items():
            parameters.append((f"{tower}.embedding", encoder.backbone.embedding))
            if encoder.projection is not None:
                parameters.append((f"{tower}.projection", encoder.projection))
        optimizer, schedule = training.optimizer, training.schedule
        loss = training.loss.build(next(iter(encoders.values())).width)
        averaged = parameters if training.loss.momentum is not None else ()
        state = {}
        if "state" in training.loss.needs:
            state = loss.initial_state()
        ema = {}
        if training.ema is not None:
            ema = {name: value.copy() for name, value in parameters}
        return SgdTrainer(
            encoders,
            training,
            loss,
            optimizer.build(parameters),
            lambda step: optimizer.lr * schedule.factor(step, training.total_steps),
            self.rng,
            state,
            {name: value.copy() for name, value in averaged},
            ema,
        )


@attrs.frozen
class Toy(Runtime):
    """NumPy on the host."""

    name: ClassVar[str] = "toy"

    precision: Literal["fp32", "fp64"] = "fp32"
    token_budget: int = 64

    def build(self):
        return Engine(self.token_budget)


# --- tracker -----------------------------------------------------------------------------------------------


@attrs.frozen
class Notes(Tracker):
    """Writes how many steps it has seen to a file in the run directory."""

    name: ClassVar[str] = "notes"

    file: str = "notes.txt"
    """The name of the file."""

    def build(self):
        return NoteTaker(self.file)


@attrs.frozen
class ToNumbers(Exporter):
    """The mean vector of some texts, a number a line."""

    name: ClassVar[str] = "numbers"

    digits: int = 3
    """Digits behind the point."""

    def write(self, encoder, directory):
        """Write `numbers.txt`; a second encoder beside it cannot be expressed."""
        if encoder.recipe.max_length == 13:
            raise ModelError(
                "texts of 13 tokens cannot be expressed; set `max_length` to 12"
            )
        mean = encoder.encode(["abc", "bcd"]).mean(axis=0)
        lines = [f"{number:.{self.digits}f}" for number in mean]
        (directory / "numbers.txt").write_text("\n".join(lines) + "\n")
        return [f"{self.digits} digits are left"]


@attrs.frozen
class FromNumbers(Importer):
    """An encoder as wide as a file has lines."""

    name: ClassVar[str] = "numbers"

    max_length: int = 8
    """Tokens a sentence."""

    def read(self, source):
        """Build an encoder of that width."""
        width = len((source / "numbers.txt").read_text().splitlines())
        return Encoder.of(
            {
                "max_length": self.max_length,
                "backbone": {"use": "characters", "width": width},
                "pooler": {"use": "average"},
            },
            Toy(),
        )


@attrs.define(eq=False)
class NoteTaker:
    file: str
    steps: int = 0

    @hookimpl
    def run_resumed(self, states):
        self.steps = states.get(self.file, {"steps": 0})["steps"]

    @hookimpl
    def tracker_state(self):
        return self.file, {"steps": self.steps}

    @hookimpl
    def step_finished(self, run):
        self.steps += 1
        (run.directory / self.file).write_text(str(self.steps))


# --- what is no component ----------------------------------------------------------------------------------


@attrs.frozen
class Dice(RecipeTable):
    """`[dice]`: a table that decides no score."""

    traits: ClassVar[TableTraits] = TableTraits(decides=False)

    sides: int = attrs.field(default=6, validator=ge(2))
    """Of each die."""
    loaded: str | None = None
    """The encoder that always wins."""

    def problems(self, recipe, plugins, check_files):
        if self.loaded is not None and self.loaded not in recipe.encoders:
            yield ("loaded",), f"there is no encoder `{self.loaded}`; name one"


@attrs.frozen
class Races(RecipeTable):
    """`[races]`: a table that is for another command than `run`."""

    traits: ClassVar[TableTraits] = TableTraits(
        no_run="the recipe has `[races]`; use `sentbed greet`"
    )

    laps: int = 1


@attrs.frozen
class Shared(protocols.Similarity):
    """The products of all pairs of vectors."""

    name: ClassVar[str] = "shared"

    def similarity(self, first, second):
        return first @ second.T


@attrs.frozen
class Quoted(Prompt):
    """The text between quotation marks."""

    name: ClassVar[str] = "quoted"

    capitals: bool = False
    """Whether the text is written in capital letters."""

    def resolve(self, default=None):
        if self.capitals:
            return ResolvedPrompt(Template('"', '"'), "capitals", str.upper)
        return ResolvedPrompt(Template('"', '"'))


# --- hooks -------------------------------------------------------------------------------------------------


@hookimpl
def backbones():
    return [Characters]


@hookimpl
def poolers():
    return [Average]


@hookimpl
def prompts():
    return [Quoted]


@hookimpl
def similarities():
    return [Shared]


@hookimpl
def transforms():
    return [Centre]


@hookimpl
def losses():
    return [Pull, Sort, Grade, Chase]


@hookimpl
def data_sources():
    return [Words, Lines, Table]


@hookimpl
def evaluators():
    return [Gap, Across, Nearness, Lottery]


@hookimpl
def runtimes():
    return [Toy]


@hookimpl
def optimizers():
    return [Sgd]


@hookimpl
def schedules():
    return [Falling]


@hookimpl
def trackers():
    return [Notes]


@hookimpl
def exporters():
    return [ToNumbers]


@hookimpl
def importers():
    return [FromNumbers]


@hookimpl
def recipe_tables():
    return {"dice": Dice, "races": Races}


@hookimpl
def report_sections(run, data):
    if (dice := run.recipe.table(Dice)) is None:
        return []
    return [
        ReportSection(
            "dice",
            "Dice",
            ("sides", "status"),
            ((dice.sides, data.status),),
            "They are fair.",
        )
    ]


class Recorder:
    """A tracker that remembers which hook was called with what; `fail_on` makes it fail."""

    fail_on = ""

    def __init__(self):
        self.events = []

    @property
    def names(self):
        return [name for name, _ in self.events]

    def keep(self, event, **details):
        self.events.append((event, details))
        if event == self.fail_on:
            raise ValueError(f"the recorder fails on {event}")

    @hookimpl
    def run_started(self, run):
        self.keep("run_started", name=run.name)

    @hookimpl
    def run_resumed(self, run, states):
        self.keep("run_resumed", name=run.name, state=states.get("recorder"))

    @hookimpl
    def evaluation_started(self, evaluator, encoder):
        self.keep("evaluation_started", evaluator=evaluator, encoder=encoder)

    @hookimpl
    def scores_ready(self, encoder, evaluation):
        self.keep("scores_ready", encoder=encoder, primary=evaluation.primary)

    @hookimpl
    def stage_started(self, stage, total_steps):
        self.keep("stage_started", stage=stage, total_steps=total_steps)

    @hookimpl
    def step_finished(self, step, result):
        self.keep("step_finished", step=step, loss=result.loss)

    @hookimpl
    def validated(self, step, score, best):
        self.keep("validated", step=step, score=score, best=best)

    @hookimpl
    def observed(self, stage, step, encoder, evaluation):
        self.keep(
            "observed",
            stage=stage,
            step=step,
            encoder=encoder,
            primary=evaluation.primary,
        )

    @hookimpl
    def checkpoint_saved(self, step, path):
        self.keep(
            "checkpoint_saved",
            step=step,
            exists=(path / "encoder" / "encoder.toml").is_file(),
        )

    @hookimpl
    def tracker_state(self):
        return "recorder", {"events": len(self.events)}

    @hookimpl
    def warned(self, message):
        self.keep("warned", message=message)

    @hookimpl
    def stage_finished(self, steps, best_score, best_step):
        self.keep(
            "stage_finished", steps=steps, best_score=best_score, best_step=best_step
        )

    @hookimpl
    def run_finished(self, report):
        self.keep("run_finished", exists=report.is_file())

    @hookimpl
    def run_failed(self, error):
        self.keep("run_failed", error=error)
