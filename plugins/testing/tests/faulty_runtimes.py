"""Runtimes with a fault each, and their contracts; `test_runtime_contract.py` runs them, and they fail."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import attrs
import numpy as np
import torch
from sentbed_hardware.cpu import Cpu
from sentbed_testing import RuntimeContract


def random_vectors(engine):
    """Give random vectors."""
    generator = np.random.default_rng()

    def encode_batch(placed, encode, batch):
        shape = (len(batch.input_ids), placed.width)
        return generator.standard_normal(shape).astype(np.float32)

    replace_encode(engine, encode_batch)


def ignored_precision(engine):
    """Encode with the weights of the first encoder, as if those of later ones were not in less precision."""
    assemble = engine.assemble
    encodes = []

    def assemble_and_replace(*arguments):
        placed = assemble(*arguments)
        encodes.append(placed.encode)
        placed.encode = encodes[0]
        return placed

    engine.assemble = assemble_and_replace


def padding(engine):
    """Read padding."""

    def encode_batch(placed, encode, batch):
        return encode(attrs.evolve(batch, attention_mask=None))

    replace_encode(engine, encode_batch)


def mixed_rows(engine):
    """Return the rows in another order."""

    def encode_batch(placed, encode, batch):
        return encode(batch)[::-1].copy()

    replace_encode(engine, encode_batch)


def stale_weights(engine):
    """Encode with the initial weights, also after training."""

    def encode_batch(placed, encode, batch):
        trained = copy.deepcopy(placed.module.state_dict())
        placed.module.load_state_dict(placed.initial)
        placed.weights_changed()
        vectors = encode(batch)
        placed.module.load_state_dict(trained)
        return vectors

    replace_encode(engine, encode_batch)


def replace_encode(engine, encode_batch):
    """Let the engine's encoders encode by `encode_batch(placed, encode, batch)`."""
    assemble = engine.assemble

    def assemble_and_replace(*arguments):
        placed = assemble(*arguments)
        placed.initial = copy.deepcopy(placed.module.state_dict())
        encode = placed.encode
        placed.encode = lambda batch: encode_batch(placed, encode, batch)
        return placed

    engine.assemble = assemble_and_replace


def lost_weight(engine):
    """Save another bias than that of the encoder."""
    assemble = engine.assemble

    def assemble_and_replace(*arguments):
        placed = assemble(*arguments)
        save = placed.save

        def save_other(directory):
            weight = next(placed.module.parameters())
            with torch.no_grad():
                weight += 1
                save(directory)
                weight -= 1

        placed.save = save_other
        return placed

    engine.assemble = assemble_and_replace


def no_steps(engine):
    """Take steps of no length."""

    def still(training):
        optimizer = attrs.evolve(training.optimizer, lr=1e-12)
        return attrs.evolve(training, optimizer=optimizer)

    trainer_of = engine.trainer
    engine.trainer = lambda encoders, training: trainer_of(encoders, still(training))


def forgotten_moments(engine):
    """Load a state without the optimiser's moments."""
    trainer_of = engine.trainer

    def trainer_that_forgets(encoders, training):
        trainer = trainer_of(encoders, training)
        load = trainer.load

        def load_part(directory):
            load(directory)
            trainer.optimizer.state.clear()

        trainer.load = load_part
        return trainer

    engine.trainer = trainer_that_forgets


def no_precision(engine):
    """Describe no precision."""
    engine.describe = lambda: {"device": "cpu"}


@attrs.frozen
class Faulty(Cpu):
    """The runtime `cpu` with a fault."""

    name: ClassVar[str] = "faulty"
    fault: Callable[[Any], None] = attrs.field(kw_only=True)

    def build(self):
        """Return the engine with the fault."""
        engine = super().build()
        self.fault(engine)
        return engine


FAULTS: Mapping[str, Callable[[Any], None]] = {
    "TestRandomVectors": random_vectors,
    "TestMixedRows": mixed_rows,
    "TestPadding": padding,
    "TestIgnoredPrecision": ignored_precision,
    "TestLostWeight": lost_weight,
    "TestStaleWeights": stale_weights,
    "TestNoSteps": no_steps,
    "TestForgottenMoments": forgotten_moments,
    "TestNoPrecision": no_precision,
}
"""Name of a contract -> the fault of its runtime."""

for name, fault in FAULTS.items():
    fields = {"component": Faulty(threads=1, fault=fault)}
    globals()[name] = type(name, (RuntimeContract,), fields)
