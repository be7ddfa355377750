"""What `test_distributed` runs in two processes: `several_processes.py OUT RUNTIME`.

`OUT` gets what every scenario returns, of an engine of the first process alone and of the one of both;
`RUNTIME` is the fields of `Cpu` as JSON. With the rank of a process behind it, that one fails.
"""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from pathlib import Path
from typing import ClassVar

import attrs
import numpy as np
import torch
from safetensors.torch import load_file
from sentbed import RunError
from sentbed.helpers import pad
from sentbed.protocols import Head, TokenStates, Training, Transform
from sentbed_hardware._common.random_generators import generator_states
from sentbed_hardware._torch.engine import TorchEngine
from sentbed_hardware.adafactor import Adafactor
from sentbed_hardware.adamw import AdamW
from sentbed_hardware.cpu import Cpu
from sentbed_hardware.engine_parts import calls_in_all_processes
from sentbed_hardware.learning_rate_schedules import Constant

# It runs as a program, without the paths of a test.
sys.path.insert(0, str(Path(__file__).parents[3] / "tests" / "support"))
from small_encoder import (
    BuiltDense,
    Classes,
    Contrast,
    Graded,
    HashTokenizer,
    MeanPooler,
    Momentum,
    Sgd,
)

WORDS = (
    "a house by the sea",
    "rain",
    "two birds sing in a tree today",
    "they play chess",
    "no",
    "so it goes on",
)
COLUMNS = ("anchor", "positive", "negative")


class Block(torch.nn.Module):
    def __init__(self, width, dropout):
        super().__init__()
        self.dense = torch.nn.Linear(width, width)
        self.norm = torch.nn.LayerNorm(width)
        self.dropout = torch.nn.Dropout(dropout)

    def forward(self, states):
        return states + self.dropout(torch.tanh(self.dense(self.norm(states))))


class Stack(torch.nn.Module):
    """Blocks over an embedding; 7 is a width, and 61 a number of words, that two processes share unevenly."""

    def __init__(self, width, dropout):
        super().__init__()
        self.words = torch.nn.Embedding(64, width)
        self.layers = torch.nn.ModuleList(Block(width, dropout) for _ in range(3))
        self.unused = torch.nn.Parameter(torch.ones(3))

    def forward(
        self,
        input_ids,
        attention_mask,
        hidden=None,
    ):
        states = self.words(input_ids)
        for layer in self.layers:
            states = layer(states)
        if hidden is not None:
            shown = (~hidden).long()
            attention_mask = shown if attention_mask is None else attention_mask * shown
        return TokenStates(states, attention_mask)


def assemble(
    engine,
    seed=0,
    dropout=0.0,
    pooler=None,
    head=None,
):
    torch.manual_seed(seed)
    built = BuiltDense(7, 0.0)
    built.module = Stack(7, dropout)
    engine.seed(seed)
    return engine.assemble(
        built, pooler or MeanPooler(), head or Head(projection=5, bias=True)
    )


def trainer_of(engine, encoders, loss, optimizer=None, **options):
    if not isinstance(encoders, dict):
        encoders = {"encoder": encoders}
    settings = {
        "schedule": Constant(),
        "total_steps": 100,
        "max_grad_norm": 0.0,
        "towers": dict.fromkeys(COLUMNS, next(iter(encoders))),
        **options,
    }
    engine.seed(1)
    training = Training(loss, optimizer or Sgd(lr=0.1), **settings)
    return engine.trainer(encoders, training)


def batch(rows, shift=0, columns=COLUMNS):
    """Rows of many lengths, no two columns alike."""
    tokens = {}
    for place, name in enumerate(columns):
        texts = []
        for row in range(rows):
            words = WORDS[(row + place + shift) % len(WORDS)]
            texts.append(f"{words} {'so ' * (row % 4)}{row}")
        tokens[name] = HashTokenizer().encode(texts, 32)

    return tokens


def gradients(engine):
    """Gradients of batches with more and fewer rows than processes, whole and in parts, for several losses."""

    def of(loss, columns, **options):
        return trainer_of(engine, assemble(engine), loss, **options).gradients(columns)

    results = {}
    for micro_batch in (None, 1, 2):
        for rows in (7, 2, 1):
            results[f"{rows} rows, {micro_batch}"] = of(
                Contrast(learned=True), batch(rows), micro_batch=micro_batch
            )

    pair = {"zh": assemble(engine, 0), "en": assemble(engine, 1)}
    towers = {"anchor": "zh", "positive": "en", "negative": "zh"}
    of_pair = trainer_of(engine, pair, Contrast(), towers=towers)
    results["two towers"] = of_pair.gradients(batch(5))

    labelled = batch(5, columns=("anchor", "positive"))
    labelled["label"] = np.array([0, 1, 2, 1, 0])
    results["classes"] = of(Classes(), labelled)
    graded = batch(5, columns=("anchor", "positive"))
    graded["score"] = np.array([0.1, 0.9, 0.5, 1.0, 0.0], np.float32)
    for micro_batch in (None, 1):
        results[f"numbers, {micro_batch}"] = of(
            Graded(), graded, micro_batch=micro_batch
        )

    return results


def taken(trainer, numbers):
    """Take steps, one for each number of a batch; return their results."""
    results = []
    for number in numbers:
        columns = batch(7, number)
        result = trainer.step(columns)
        results.append(attrs.asdict(result))

    return results


def steps(engine, out):
    """Losses, norms and weights after steps of every kind."""
    adafactor = Adafactor(lr=1e-2, scale_parameter=True)
    decaying = Adafactor(lr=1e-2, weight_decay=0.1)
    kinds = {
        "adamw": (
            Contrast(learned=True),
            AdamW(lr=1e-2, weight_decay=0.1),
            {},
        ),
        "adafactor": (
            Contrast(learned=True),
            adafactor,
            {"micro_batch": 2},
        ),
        "memory": (
            Contrast(memory=9),
            AdamW(lr=1e-2),
            {"max_grad_norm": 0.3},
        ),
        "average": (
            Momentum(memory=9),
            decaying,
            {"max_grad_norm": 0.3},
        ),
        "average in parts": (
            Momentum(memory=9),
            AdamW(lr=1e-2),
            {"micro_batch": 1},
        ),
    }
    results = {}
    for name, (loss, optimizer, options) in kinds.items():
        encoder = assemble(engine)
        trainer = trainer_of(engine, encoder, loss, optimizer, **options)
        results_of_steps = taken(trainer, range(5))
        directory = out / name
        trainer.save(directory / "state")
        encoder.save(directory / "encoder")
        backbone = directory / "encoder" / "backbone"
        results[name] = {
            "steps": results_of_steps,
            "weights": load_file(backbone / "model.safetensors"),
            "head": load_file(directory / "encoder" / "modules.safetensors"),
            "state": torch.load(directory / "state" / "state.pt")["tensors"],
            "vectors": encoder.encode(padded(5)),
            "one vector": encoder.encode(padded(1)),
            "states": engine.processes.results(states_of, trainer),
        }

    return results


@attrs.frozen
class Half(Transform):
    """To three dimensions."""

    name: ClassVar[str] = "half"

    def output_width(self, width):
        return 3

    def fit(self, vectors, backbone):
        draw = np.random.default_rng(0)
        width = vectors.shape[1]
        return draw.standard_normal(width), draw.standard_normal((width, 3))


def transformed(engine, out):
    """Vectors before and after a transform is fitted, and what is saved of it."""
    head = Head(projection=5, bias=True, normalize=True, transform=Half())
    encoder = assemble(engine, head=head)
    bare = encoder.transformed()
    inputs = bare.encode(padded(5))
    fitted = bare.transformed(Half().fit(inputs, None), {"texts": 5})
    fitted.save(out / "encoder")
    return {
        "before": encoder.encode(padded(5)),
        "inputs": inputs,
        "after": fitted.encode(padded(5)),
        "saved": load_file(out / "encoder" / "modules.safetensors"),
        "widths": [encoder.width, bare.width, fitted.width],
    }


def padded(rows):
    tokens = batch(rows)["anchor"]
    return pad(tokens, torch.arange(rows).numpy(), 3)


def with_fields(tokens):
    """Hide every second token but the last of each text."""
    hidden = np.arange(len(tokens.ids)) % 2 == 0
    hidden[tokens.offsets[1:] - 1] = False
    return attrs.evolve(tokens, hidden=hidden)


def fields(engine):
    """Vectors and gradients of texts with hidden tokens."""
    columns = {}
    for name, tokens in batch(5).items():
        columns[name] = with_fields(tokens)

    encoder = assemble(engine)

    loss = Contrast(learned=True)
    whole = trainer_of(engine, encoder, loss)
    in_parts = trainer_of(engine, encoder, loss, micro_batch=1)
    return {
        "plain": encoder.encode(padded(5)),
        "vectors": encoder.encode(pad(columns["anchor"], np.arange(5), 3)),
        "gradients": whole.gradients(columns),
        "in parts": in_parts.gradients(columns),
    }


def states_of(trainer):
    """The state of the loss in this process."""
    return dict(trainer.loss_state or {})


def draws_of(trainer):
    return generator_states(), trainer.loss_generators


def two_losses(trainer):
    """Return the losses of one batch with the dropout of two steps."""
    columns = batch(6)
    first, _ = trainer.gradients(columns)
    second, _ = trainer.gradients(columns)

    return [first, second]


def dropout(engine):
    trainer = trainer_of(engine, assemble(engine, dropout=0.4), Contrast())
    before = engine.processes.results(draws_of, trainer)
    losses = two_losses(trainer)

    other = trainer_of(engine, assemble(engine, dropout=0.4), Contrast())
    return {
        "before": before,
        "after": engine.processes.results(draws_of, other),
        "losses": losses,
        "again": two_losses(other),
    }


def resumed(engine, out):
    """Steps after a state was saved, and the same by a trainer that has loaded it."""
    results = {}
    for optimizer in (AdamW(lr=1e-2), Adafactor(lr=1e-2)):
        options = {"optimizer": optimizer, "micro_batch": 2, "max_grad_norm": 0.5}
        loss = Momentum(memory=9, learned=True)
        trainer = trainer_of(engine, assemble(engine, dropout=0.3), loss, **options)
        taken(trainer, range(3))
        trainer.save(out / optimizer.name)
        expected = taken(trainer, range(3, 6))

        other = trainer_of(engine, assemble(engine, 5, dropout=0.3), loss, **options)
        other.step(batch(7))
        other.load(out / optimizer.name)
        results[optimizer.name] = expected, taken(other, range(3, 6))

    return results


def fail(encoder, rank):
    """Fail in one process, where the other waits for it."""
    if encoder.processes.rank == rank:
        raise ValueError("this one does not work")
    numbers = torch.tensor([rank])
    encoder.processes.sum([numbers])
    return list(numbers.tolist())


def failing(engine, rank):
    """Print the error of a call that one process fails in, and that of the next call."""
    encoder = assemble(engine)
    try:
        engine.processes.together(fail, encoder, rank)
    except RunError as error:
        print(error)
    try:
        encoder.encode(padded(4))
    except RunError as error:
        print(error)
    return 0


def scenarios(engine, out):
    return {
        "facts": dict(engine.describe()),
        "budget": engine.token_budget,
        "gradients": gradients(engine),
        "steps": steps(engine, out / "steps"),
        "transformed": transformed(engine, out / "transformed"),
        "fields": fields(engine),
        "dropout": dropout(engine),
        "resumed": resumed(engine, out / "resumed"),
        "counters": dict(engine.counters()),
    }


def main(out, fields, fails=None):
    calls_in_all_processes.PATIENCE = timedelta(seconds=3)
    runtime = Cpu(threads=1, **fields)
    code = runtime.launch([sys.executable, __file__, *sys.argv[1:]])
    if code is not None:
        return code
    if runtime.serve():
        return 0
    both = runtime.build()
    if fails is not None:
        return failing(both, int(fails))
    alone = TorchEngine(torch.device("cpu"), torch.float32, {"precision": "fp32"})
    results = {
        "one": scenarios(alone, out / "one"),
        "two": scenarios(both, out / "two"),
    }
    torch.save(results, out / "results.pt")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), json.loads(sys.argv[2]), *sys.argv[3:]))
