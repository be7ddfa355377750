"""What `test_distributed` runs in two processes: `several_processes.py OUT RUNTIME`.

`OUT` gets what every scenario returns, of an engine of the first process alone and of the one of both;
`RUNTIME` is the fields of `Cpu` as JSON. With the rank of a process behind it, that one fails.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import ClassVar

import attrs
import numpy as np
import torch
from safetensors.torch import load_file
from sentbed import RunError
from sentbed.helpers import pad
from sentbed.protocols import Head, TokenStates, Training, Transform
from sentbed_hardware._common.random_generators import draws
from sentbed_hardware._torch.engine import TorchEngine
from sentbed_hardware.adafactor import Adafactor
from sentbed_hardware.adamw import AdamW
from sentbed_hardware.cpu import Cpu
from sentbed_hardware.engine_parts import calls_in_all_processes
from sentbed_hardware.learning_rate_schedules import Constant
from torch.distributed.tensor import DTensor

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
        readings=None,
    ):
        states = self.words(input_ids)
        for layer in self.layers:
            states = layer(states)
        if readings is not None:
            states = states * (1 + readings[:, None, None])
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
    return engine.trainer(
        encoders, Training(loss, optimizer or Sgd(lr=0.1), **settings)
    )


def batch(rows, shift=0):
    """Rows of many lengths, no two columns alike."""
    texts = {
        name: [
            f"{WORDS[(row + place + shift) % 6]} {'so ' * (row % 4)}{row}"
            for row in range(rows)
        ]
        for place, name in enumerate(COLUMNS)
    }
    return {name: HashTokenizer().encode(some, 32) for name, some in texts.items()}


def gradients(engine):
    """Of an odd batch, of one with fewer rows than processes in most passes, and of both in small parts."""
    found = {}
    for rows in (7, 2, 1):
        for micro_batch in (None, 1, 2):
            encoder = assemble(engine)
            trainer = trainer_of(
                engine, encoder, Contrast(learned=True), micro_batch=micro_batch
            )
            found[f"{rows} rows, {micro_batch}"] = trainer.gradients(batch(rows))
    pair = {"zh": assemble(engine, 0), "en": assemble(engine, 1)}
    towers = {"anchor": "zh", "positive": "en", "negative": "zh"}
    found["two towers"] = trainer_of(engine, pair, Contrast(), towers=towers).gradients(
        batch(5)
    )
    labelled = {**batch(5), "label": torch.tensor([0, 1, 2, 1, 0]).numpy()}
    del labelled["negative"]
    found["classes"] = trainer_of(engine, assemble(engine), Classes()).gradients(
        labelled
    )
    graded = {**batch(5), "score": np.array([0.1, 0.9, 0.5, 1.0, 0.0], np.float32)}
    del graded["negative"]
    for micro_batch in (None, 1):
        trainer = trainer_of(
            engine, assemble(engine), Graded(), micro_batch=micro_batch
        )
        found[f"numbers, {micro_batch}"] = trainer.gradients(graded)
    for how in ("mean", "concatenate"):
        for micro_batch in (None, 1):
            options = {"micro_batch": micro_batch, "ensembles": {"encoder": (2, how)}}
            trainer = trainer_of(
                engine, assemble(engine), Contrast(learned=True), **options
            )
            found[f"{how} over two prompts, {micro_batch}"] = trainer.gradients(
                batch(6)
            )
    return found


def steps(engine, out):
    """Losses, norms and weights after steps of every kind."""
    found = {}
    kinds = {
        "adamw": (Contrast(learned=True), AdamW(lr=1e-2, weight_decay=0.1), {}),
        "adafactor": (
            Contrast(learned=True),
            Adafactor(lr=1e-2, scale_parameter=True),
            {"micro_batch": 2},
        ),
        "memory": (Contrast(memory=9), AdamW(lr=1e-2), {"max_grad_norm": 0.3}),
        "average": (
            Momentum(memory=9),
            Adafactor(lr=1e-2, weight_decay=0.1),
            {"max_grad_norm": 0.3},
        ),
        "average in parts": (Momentum(memory=9), AdamW(lr=1e-2), {"micro_batch": 1}),
    }
    for name, (loss, optimizer, options) in kinds.items():
        encoder = assemble(engine)
        trainer = trainer_of(engine, encoder, loss, optimizer, **options)
        taken = [attrs.asdict(trainer.step(batch(7, step))) for step in range(5)]
        directory = out / name
        trainer.save(directory / "state")
        encoder.save(directory / "encoder")
        found[name] = {
            "steps": taken,
            "weights": load_file(
                directory / "encoder" / "backbone" / "model.safetensors"
            ),
            "head": load_file(directory / "encoder" / "modules.safetensors"),
            "state": load_file(directory / "state" / "state.safetensors"),
            "vectors": encoder.encode(padded(5)),
            "one vector": encoder.encode(padded(1)),
            "states": engine.processes.results(states_of, trainer),
        }
    return found


@attrs.frozen
class Half(Transform):
    """To three dimensions."""

    name: ClassVar[str] = "half"

    def output_width(self, width):
        return 3

    def fit(self, vectors, backbone):
        rng = np.random.default_rng(0)
        return rng.standard_normal(vectors.shape[1]), rng.standard_normal(
            (vectors.shape[1], 3)
        )


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
    """Hide every second token but the last of each text, and let texts choose layers in turn."""
    hidden = np.arange(len(tokens.ids)) % 2 == 0
    hidden[tokens.offsets[1:] - 1] = False
    readings = np.arange(len(tokens), dtype=np.int32) % 3
    return attrs.evolve(tokens, hidden=hidden, readings=readings)


def fields(engine):
    """Vectors and gradients of texts with hidden tokens and layers of their own."""
    columns = {name: with_fields(tokens) for name, tokens in batch(5).items()}
    encoder = assemble(engine)
    return {
        "plain": encoder.encode(padded(5)),
        "vectors": encoder.encode(pad(columns["anchor"], np.arange(5), 3)),
        "gradients": trainer_of(engine, encoder, Contrast(learned=True)).gradients(
            columns
        ),
        "in parts": trainer_of(
            engine, encoder, Contrast(learned=True), micro_batch=1
        ).gradients(columns),
    }


def states_of(trainer):
    """The state of the loss in this process."""
    return dict(trainer.state or {})


def draws_of(trainer):
    return draws(), trainer.common


def dropout(engine):
    trainer = trainer_of(engine, assemble(engine, dropout=0.4), Contrast())
    before = engine.processes.results(draws_of, trainer)
    losses = [trainer.gradients(batch(6))[0] for _ in range(2)]
    again = trainer_of(engine, assemble(engine, dropout=0.4), Contrast())
    return {
        "before": before,
        "after": engine.processes.results(draws_of, again),
        "losses": losses,
        "again": [again.gradients(batch(6))[0] for _ in range(2)],
    }


def resumed(engine, out):
    """Steps after a state was saved, and the same by a trainer that has loaded it."""
    found = {}
    for name, optimizer in (
        ("adamw", AdamW(lr=1e-2)),
        ("adafactor", Adafactor(lr=1e-2)),
    ):
        options = {"optimizer": optimizer, "micro_batch": 2, "max_grad_norm": 0.5}
        loss = Momentum(memory=9, learned=True)
        trainer = trainer_of(engine, assemble(engine, dropout=0.3), loss, **options)
        for step in range(3):
            trainer.step(batch(7, step))
        trainer.save(out / name)
        there = [attrs.asdict(trainer.step(batch(7, step))) for step in range(3, 6)]
        other = trainer_of(engine, assemble(engine, 5, dropout=0.3), loss, **options)
        other.step(batch(7))
        other.load(out / name)
        found[name] = (
            there,
            [attrs.asdict(other.step(batch(7, step))) for step in range(3, 6)],
        )
    return found


def from_another(engine, state):
    """Steps after a state that another number of processes has saved, and what is said of that."""
    said = []
    engine.report_to(said.append)
    trainer = trainer_of(
        engine,
        assemble(engine, 5),
        Contrast(memory=9),
        AdamW(lr=1e-2),
        max_grad_norm=0.3,
    )
    trainer.load(state)
    return [attrs.asdict(trainer.step(batch(7, step))) for step in range(2)], said


def refused(engine):
    """What fails in every process alike, and that the engine goes on."""
    encoder = assemble(engine)
    with_nothing = Training(
        Contrast(), Sgd(), Constant(), 1, dict.fromkeys(COLUMNS, "encoder")
    )
    engine.processes.together(freeze, encoder)
    try:
        engine.trainer({"encoder": encoder}, with_nothing)
    except RunError as error:
        return str(error), encoder.encode(padded(3))
    return None


def freeze(encoder):
    encoder.module.requires_grad_(False)


def set_local(engine, local):
    engine.processes.local_gradient = local


def fail(encoder, rank):
    """Fail in one process, where the other waits for it."""
    if encoder.processes.rank == rank:
        raise ValueError("this one does not work")
    numbers = torch.tensor([rank])
    encoder.processes.sum([numbers])
    return list(numbers.tolist())


def failing(engine, rank):
    """Print what becomes of a call that one process fails in, and whether the first can still encode."""
    encoder = assemble(engine)
    expected = encoder.encode(padded(4))
    try:
        engine.processes.together(fail, encoder, rank)
    except (RunError, ValueError) as error:
        print(f"raised: {error}")
    try:
        print("then:", bool((abs(encoder.encode(padded(4)) - expected) < 1e-5).all()))
    except RunError as error:
        print(f"then: {error}")
    return 0


def broken(engine):
    """What is said of the weights before and after the last row of the embedding, of one process, breaks."""
    encoder = assemble(engine)
    before = encoder.broken_weight()
    engine.processes.together(break_last_row, encoder)
    return [before, encoder.broken_weight()]


def break_last_row(encoder):
    processes = encoder.processes
    (weight,) = (
        weight
        for name, weight in encoder.module.named_parameters()
        if name.endswith("words.weight")
    )
    if not isinstance(weight, DTensor):
        weight.data[-1] = torch.nan
    elif processes.rank == processes.world - 1:
        weight.to_local().data[-1] = torch.nan


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
        "refused": refused(engine),
        "broken": broken(engine),
        "counters": dict(engine.counters()),
    }


def main(out, fields, fails=None):
    calls_in_all_processes.PATIENCE = 3.0
    runtime = Cpu(threads=1, **fields)
    code = runtime.launch([sys.executable, __file__, *sys.argv[1:]])
    if code is not None:
        return code
    try:
        if runtime.serve():
            return 0
    except RunError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    both = runtime.build()
    if fails is not None:
        return failing(both, int(fails))
    alone = TorchEngine(
        torch.device("cpu"), torch.float32, False, {"precision": "fp32"}
    )
    found = {
        "one": scenarios(alone, out / "one"),
        "two": scenarios(both, out / "two"),
    }
    states = {
        "one": out / "one" / "steps" / "memory" / "state",
        "two": out / "two" / "steps" / "memory" / "state",
    }
    found["from another"] = {
        f"{there} to {here}": from_another(engine, states[there])
        for here, engine in (("one", alone), ("two", both))
        for there in states
    }
    both.processes.together(set_local, both, True)
    found["local"] = gradients(both)
    torch.save(found, out / "found.pt")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), json.loads(sys.argv[2]), *sys.argv[3:]))
