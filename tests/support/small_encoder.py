"""A small encoder that can be computed by hand: hashed words, an embedding, one dense layer."""

from __future__ import annotations

import json
import math
from typing import Any, ClassVar
from weakref import WeakKeyDictionary
from zlib import crc32

import attrs
import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from sentbed.protocols import (
    Backbone,
    BuildContext,
    BuiltBackbone,
    Head,
    Loss,
    LossOutput,
    Optimizer,
    Pooler,
    TokenBatch,
    TokenIds,
    Tokenizer,
    TokenStates,
    Training,
)
from sentbed_hardware._torch.engine import TorchEngine
from sentbed_hardware._torch.placed_encoder import TorchEncoder
from sentbed_hardware.learning_rate_schedules import Constant
from torch.nn import functional

ANCHORS = (
    "a small house by the sea",
    "rain",
    "two birds sing in a tree today",
    "they play chess",
)
HEAD = Head(projection=6, bias=True)
WORDS = 64
PAD = 3


class HashTokenizer(Tokenizer):
    """One id a word; id 4 opens every text, id 3 pads."""

    pad_id = PAD

    def encode(self, texts, max_length):
        rows = [
            [4, *(5 + crc32(word.encode()) % (WORDS - 5) for word in text.split())]
            for text in texts
        ]
        rows = [row[:max_length] for row in rows]
        offsets = np.cumsum([0, *map(len, rows)]).astype(np.int64)
        return TokenIds(np.array([i for row in rows for i in row], np.int32), offsets)


class DenseStates(torch.nn.Module):
    """States = tanh(dense(dropout(embedding)))."""

    def __init__(self, width, dropout):
        super().__init__()
        self.words = torch.nn.Embedding(WORDS, width)
        self.dropout = torch.nn.Dropout(dropout)
        self.dense = torch.nn.Linear(width, width)

    def forward(self, input_ids, attention_mask):
        return TokenStates(
            torch.tanh(self.dense(self.dropout(self.words(input_ids)))), attention_mask
        )


class BuiltDense(BuiltBackbone):
    def __init__(self, width, dropout):
        self.tokenizer = HashTokenizer()
        self.module = DenseStates(width, dropout)
        self.width = width
        self.max_length = 128
        self.origin = {"init": "random"}

    def save(self, directory):
        directory.mkdir(parents=True)
        save_file(self.module.state_dict(), directory / "model.safetensors")
        (directory / "config.json").write_text(json.dumps({"width": self.width}))


@attrs.frozen
class Dense(Backbone):
    name: ClassVar[str] = "dense"
    width: int = 8
    dropout: float = 0.0

    def build(self, context):
        built = BuiltDense(self.width, self.dropout)
        if context.saved is not None:
            built.module.load_state_dict(load_file(context.saved / "model.safetensors"))
        return built


class MeanModule(torch.nn.Module):
    def forward(self, states):
        hidden = states.last_hidden_state
        if states.attention_mask is None:
            return hidden.mean(dim=1)
        mask = states.attention_mask[:, :, None].to(hidden.dtype)
        return (hidden * mask).sum(dim=1) / mask.sum(dim=1)


@attrs.frozen
class MeanPooler(Pooler):
    name: ClassVar[str] = "toy-mean"

    def build(self, width):
        return MeanModule()


class FirstDenseModule(torch.nn.Module):
    """The first state behind a dense layer of another width."""

    def __init__(self, width, out):
        super().__init__()
        self.dense = torch.nn.Linear(width, out)

    def forward(self, states):
        return self.dense(states.last_hidden_state[:, 0])


@attrs.frozen
class FirstDensePooler(Pooler):
    name: ClassVar[str] = "toy-first-dense"
    out: int = 5

    def build(self, width):
        return FirstDenseModule(width, self.out)

    def output_width(self, width):
        return self.out


class TrainedDenseModule(torch.nn.Module):
    """The mean, in training behind a dense layer of another width."""

    def __init__(self, width, out):
        super().__init__()
        self.mean = MeanModule()
        self.dense = torch.nn.Linear(width, out)

    def forward(self, states):
        mean = self.mean(states)
        return self.dense(mean) if self.training else mean


@attrs.frozen
class TrainedDensePooler(Pooler):
    name: ClassVar[str] = "toy-trained-dense"
    out: int = 5

    def build(self, width):
        return TrainedDenseModule(width, self.out)

    def trained_width(self, width):
        return self.out


class NormModule(torch.nn.Module):
    """The mean under batch normalisation, which keeps statistics in buffers."""

    def __init__(self, width):
        super().__init__()
        self.mean = MeanModule()
        self.norm = torch.nn.BatchNorm1d(width)

    def forward(self, states):
        return self.norm(self.mean(states))


@attrs.frozen
class NormPooler(Pooler):
    name: ClassVar[str] = "toy-norm"

    def build(self, width):
        return NormModule(width)


class ContrastModule(torch.nn.Module):
    """In-batch softmax over cosines; the temperature is a weight where it is learned."""

    def __init__(self, parameters):
        super().__init__()
        start = torch.tensor(math.log(parameters.temperature))
        self.log_temperature = torch.nn.Parameter(start, parameters.learned)
        if parameters.lr is not None:
            self.learning_rates = {"log_temperature": parameters.lr}
        self.seen = []

    def forward(self, inputs, memory=None):
        self.seen.append({name: value.detach() for name, value in inputs.items()})
        columns = [
            functional.normalize(value, dim=-1)
            for value in inputs.values()
            if value.ndim == 2
        ]
        anchor, *others = columns
        candidates = torch.cat(others if memory is None else [*others, memory])
        logits = anchor @ candidates.T / self.log_temperature.exp()
        target = torch.arange(len(anchor), device=anchor.device)
        right = (logits.argmax(dim=1) == target).float().mean()
        return LossOutput(
            functional.cross_entropy(logits, target), {"accuracy": right.detach()}
        )


class MemoryModule(ContrastModule):
    """The same, with the last `size` positives as further negatives; empty places are zero vectors."""

    def __init__(self, parameters, width):
        super().__init__(parameters)
        self.shape = (parameters.memory, width)

    def initial_state(self):
        return {"memory": torch.zeros(self.shape), "steps": torch.tensor(0)}

    def forward(self, inputs, state=None):
        output = super().forward(inputs, state["memory"])
        positive = functional.normalize(inputs["positive"].detach(), dim=-1)
        memory = torch.cat([positive, state["memory"]])[: self.shape[0]]
        return LossOutput(
            output.loss, output.metrics, {"memory": memory, "steps": state["steps"] + 1}
        )


@attrs.frozen
class Contrast(Loss):
    name: ClassVar[str] = "toy-contrast"
    temperature: float = 0.2
    learned: bool = False
    memory: int = 0
    lr: float | None = None

    columns = frozenset({"anchor", "positive"})

    @property
    def needs(self):
        return frozenset({"state"}) if self.memory else frozenset()

    def build(self, width):
        return MemoryModule(self, width) if self.memory else ContrastModule(self)


@attrs.frozen
class Momentum(Contrast):
    name: ClassVar[str] = "toy-momentum"
    momentum: float = 0.9
    keys: frozenset[str] = frozenset({"positive"})


class ClassesModule(torch.nn.Module):
    """Softmax over three classes of the difference of two vectors."""

    def __init__(self, width):
        super().__init__()
        self.classifier = torch.nn.Linear(width, 3)

    def forward(self, inputs):
        logits = self.classifier(inputs["anchor"] - inputs["positive"])
        return LossOutput(
            functional.cross_entropy(logits, inputs["label"]), {"classes": 3.0}
        )


@attrs.frozen
class Classes(Loss):
    name: ClassVar[str] = "toy-classes"
    columns = frozenset({"anchor", "positive", "label"})

    def build(self, width):
        return ClassesModule(width)


class GradedModule(torch.nn.Module):
    """The mean squared difference of a pair's cosine and its score."""

    def forward(self, inputs):
        score = inputs["score"]
        cosine = functional.cosine_similarity(inputs["anchor"], inputs["positive"])
        return LossOutput((cosine - score).square().mean(), {"score": score.mean()})


@attrs.frozen
class Graded(Loss):
    name: ClassVar[str] = "toy-graded"
    columns = frozenset({"anchor", "positive", "score"})
    takes = frozenset()
    numbers = frozenset({"score"})

    def build(self, width):
        return GradedModule()


@attrs.frozen
class Sgd(Optimizer):
    """Plain descent, whose update shows the gradient."""

    name: ClassVar[str] = "toy-sgd"
    lr: float = 0.1

    def build(self, parameters):
        return torch.optim.SGD([parameter for _, parameter in parameters], lr=self.lr)


class RecordedDescent(torch.optim.SGD):
    """Plain descent that keeps the gradients of each step."""

    def __init__(self, parameters, lr):
        super().__init__([parameter for _, parameter in parameters], lr=lr)
        self.named = parameters
        self.gradients = []

    def step(self, closure=None):
        self.gradients.append(
            {
                name: p.grad if p.grad is None else p.grad.clone()
                for name, p in self.named
            }
        )
        super().step()


@attrs.frozen
class Recorder(Optimizer):
    name: ClassVar[str] = "toy-recorder"
    lr: float = 0.1

    def build(self, parameters):
        return RecordedDescent(parameters, self.lr)


ENGINES: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
"""The engine of each encoder that a test has assembled."""


def assemble_on(engine, backbone, pooler, head):
    """An encoder on an engine, which `Toys.train` then trains it on."""
    encoder = engine.assemble(backbone, pooler, head)
    ENGINES[encoder] = engine
    return encoder


@attrs.frozen
class Toys:
    """The parts above, for a test to put together."""

    backbone: ClassVar = Dense
    mean: ClassVar = MeanPooler
    first_dense: ClassVar = FirstDensePooler
    trained_dense: ClassVar = TrainedDensePooler
    norm: ClassVar = NormPooler
    loss: ClassVar = Contrast
    momentum: ClassVar = Momentum
    classes: ClassVar = Classes
    graded: ClassVar = Graded
    sgd: ClassVar = Sgd
    recorder: ClassVar = Recorder
    pad_id: ClassVar = PAD

    @staticmethod
    def tokens(*texts):
        return HashTokenizer().encode(texts, 32)

    @staticmethod
    def padded(tokens):
        """One batch, filled row by row."""
        lengths = tokens.lengths.tolist()
        ids = np.full((len(lengths), max(lengths)), PAD, np.int64)
        mask = np.zeros_like(ids)
        for row, (start, length) in enumerate(
            zip(tokens.offsets.tolist(), lengths, strict=False)
        ):
            ids[row, :length] = tokens.ids[start : start + length]
            mask[row, :length] = 1
        return TokenBatch(ids, None if mask.all() else mask)

    @staticmethod
    def train(encoders, loss, optimizer, **options):
        """A trainer of one encoder on all columns, or of several on those that `towers` gives them."""
        if isinstance(encoders, TorchEncoder):
            encoders = {"encoder": encoders}
        columns = ("anchor", "positive", "negative")
        settings = {
            "schedule": Constant(),
            "total_steps": 100,
            "max_grad_norm": 0.0,
            "towers": dict.fromkeys(columns, next(iter(encoders))),
            **options,
        }
        first = next(iter(encoders.values()))
        engine = ENGINES.get(first)
        if engine is None:
            place = first.placement
            engine = TorchEngine(place.device, place.dtype, {})
        return engine.trainer(encoders, Training(loss, optimizer, **settings))

    @staticmethod
    def weights_of(encoder):
        return {
            name: value.detach().clone()
            for name, value in encoder.module.state_dict().items()
        }

    def forward(
        self,
        module,
        placement,
        columns,
    ):
        """Each column through the encoder on its own."""
        return {
            name: module(*placement.tensors(self.padded(tokens)))
            for name, tokens in columns.items()
        }

    def batch(self, *texts):
        return self.padded(self.tokens(*texts))


@pytest.fixture
def toys():
    return Toys()


@pytest.fixture(autouse=True)
def _same_torch_afterwards():
    """Threads, determinism and the generator belong to the whole process."""
    threads, deterministic = (
        torch.get_num_threads(),
        torch.are_deterministic_algorithms_enabled(),
    )
    torch.manual_seed(0)
    yield
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(deterministic)


@pytest.fixture
def engine_of():
    """An engine of any precision, whatever this processor is fast at."""

    def engine(dtype=torch.float32):
        return TorchEngine(torch.device("cpu"), dtype, {})

    return engine


@pytest.fixture
def engine(engine_of):
    return engine_of()


@pytest.fixture
def assemble(toys, engine):
    """An encoder whose weights are drawn from `seed`."""

    def make(
        head=HEAD,
        pooler=None,
        dropout=0.0,
        on=None,
        seed=0,
    ):
        torch.manual_seed(seed)
        backbone = toys.backbone(dropout=dropout).build(BuildContext(tuple))
        return assemble_on(on or engine, backbone, pooler or toys.mean(), head)

    return make


@pytest.fixture
def columns(toys):
    """Four rows of three columns."""
    return {
        "anchor": toys.tokens(*ANCHORS),
        "positive": toys.tokens(
            "the house near water",
            "it rains all day long",
            "birds",
            "a game of chess is played here now",
        ),
        "negative": toys.tokens("cars", "no rain fell", "fish swim", "nobody plays"),
    }


@pytest.fixture
def room_for(monkeypatch):
    """Let a device have room for so many tokens a pass; returns the tokens of every pass that was tried."""

    def limit(tokens):
        tried = []
        whole = DenseStates.forward

        def forward(self, input_ids, attention_mask):
            tried.append(input_ids.numel())
            if input_ids.numel() > tokens:
                raise torch.OutOfMemoryError(
                    "CUDA out of memory. Tried to allocate 7.00 GiB."
                )
            return whole(self, input_ids, attention_mask)

        monkeypatch.setattr(DenseStates, "forward", forward)
        return tried

    return limit
