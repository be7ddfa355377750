"""The contract of a runtime: its engine encodes and trains a tiny BERT as the engine of `cpu` does."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, ClassVar, cast

import attrs
import numpy as np
import pytest
from numpy.typing import NDArray
from sentbed import Encoder
from sentbed.errors import RuntimeUnavailableError, SentbedError
from sentbed.protocols import (
    RUNTIME_OFFERS,
    EncoderRecipe,
    Engine,
    Head,
    Runtime,
    Trainer,
    Training,
    TrainingEngine,
)
from sentbed.tools import load_plugins, runtime_misfits

from sentbed_testing.component_contract import ComponentContract
from sentbed_testing.sentences import SENTENCES

SEED = 11
STEPS = 4
ROWS = 6
MAX_LENGTH = 20
COLUMNS = ("anchor", "positive")
LEAST_SHARE = 0.3
"""Least share of the change that a backbone's field makes to the vectors of `cpu`, along that change."""


def installed(kind: str, name: str) -> Any:
    """Return the class of an installed component; skip the test if there is none."""
    plugins = load_plugins()
    if name not in plugins.names(kind):
        pytest.skip(f"the {kind} `{name}` is not installed, with which it is compared")
    return plugins.load(kind, name)


class RuntimeContract(ComponentContract):
    """Tests of a runtime. A subclass sets `component`, and `tolerance` if it computes in less than fp32."""

    component: ClassVar[Runtime]
    tolerance: ClassVar[float] = 1e-4
    """Largest difference from `cpu`: of a vector's numbers relative to the largest of them, of a loss relative to
    the loss."""

    def test_offers(self, component: Runtime) -> None:
        """What it `offers` are words of `RUNTIME_OFFERS`."""
        assert component.offers <= RUNTIME_OFFERS.keys()

    @pytest.fixture
    def engine(self, component: Runtime) -> Engine:
        """The engine that is tested."""
        try:
            return component.build()
        except RuntimeUnavailableError as error:
            pytest.skip(str(error))

    @pytest.fixture
    def reference(self) -> Engine:
        """The engine of `cpu`."""
        engine: Engine = installed("runtime", "cpu")().build()
        return engine

    @pytest.fixture
    def recipe(self) -> EncoderRecipe:
        """A tiny BERT with random weights under the mean."""
        backbone = installed("backbone", "bert")(
            init="random", vocab_size=512, dropout=0.0
        )
        return EncoderRecipe(
            backbone, installed("pooler", "mean")(), Head(), MAX_LENGTH
        )

    @pytest.fixture
    def expected(self, recipe: EncoderRecipe, reference: Engine) -> Encoder:
        """The encoder on `cpu`."""
        reference.seed(SEED)
        return Encoder.build(recipe, reference, lambda: SENTENCES)

    @pytest.fixture
    def encoder(
        self,
        component: Runtime,
        recipe: EncoderRecipe,
        engine: Engine,
        expected: Encoder,
        tmp_path: Path,
    ) -> Encoder:
        """The encoder with the same weights on the engine that is tested."""
        for reason in runtime_misfits(component, recipe):
            pytest.skip(reason)
        expected.save(tmp_path / "initial")
        return Encoder.build(recipe, engine, saved=tmp_path / "initial")

    def assert_vectors(
        self, actual: NDArray[np.float32], expected: NDArray[np.float32]
    ) -> None:
        """Compare vectors, relative to the largest number in `expected`."""
        assert actual.shape == expected.shape
        assert actual.dtype == np.float32

        bound = self.tolerance * float(np.abs(expected).max())
        np.testing.assert_allclose(actual, expected, rtol=0, atol=bound)

    def test_engine_describes_itself(self, engine: Engine) -> None:
        """It has a `token_budget`, a `precision`, and counters, and JSON can hold what it says."""
        assert isinstance(engine, Engine)
        assert engine.token_budget >= 1

        description = json.loads(json.dumps(dict(engine.describe())))
        assert isinstance(description["precision"], str)

        for name, value in engine.counters().items():
            assert math.isfinite(value), name
            assert value >= 0, name

    def test_vectors(self, encoder: Encoder, expected: Encoder) -> None:
        """They are those of `cpu` with the same weights."""
        self.assert_vectors(encoder.encode(SENTENCES), expected.encode(SENTENCES))

    def test_order_and_batching_change_nothing(self, encoder: Encoder) -> None:
        """A vector does not depend on padding, on the order or on the number of the other texts."""
        vectors = encoder.encode(SENTENCES)
        self.assert_vectors(encoder.encode(SENTENCES[::-1])[::-1], vectors)

        alone = [encoder.encode([text]) for text in SENTENCES[:8]]
        self.assert_vectors(np.concatenate(alone), vectors[:8])

    def test_saves_and_loads(
        self, encoder: Encoder, reference: Engine, tmp_path: Path
    ) -> None:
        """What it saves gives the same vectors on the engine, to the bit, and on `cpu`."""
        vectors = encoder.encode(SENTENCES)

        encoder.save(tmp_path / "saved")
        loaded = Encoder.build(encoder.recipe, encoder.engine, saved=tmp_path / "saved")
        np.testing.assert_array_equal(loaded.encode(SENTENCES), vectors)
        assert loaded.placed.fingerprint() == encoder.placed.fingerprint()

        on_cpu = Encoder.build(encoder.recipe, reference, saved=tmp_path / "saved")
        self.assert_vectors(vectors, on_cpu.encode(SENTENCES))

    @pytest.mark.parametrize(
        ("field", "value"),
        [("dtype", "bf16"), ("quantization", "nf4")],
        ids=["dtype", "quantization"],
    )
    def test_heeds_the_precision_of_the_weights(
        self,
        component: Runtime,
        encoder: Encoder,
        expected: Encoder,
        field: str,
        value: str,
        tmp_path: Path,
    ) -> None:
        """A field of the backbone changes vectors as on `cpu`, or `misfits` refuses it."""
        expected.save(tmp_path / "whole")

        whole: Any = expected.recipe.backbone
        model = str(tmp_path / "whole" / "backbone")
        pretrained = attrs.evolve(
            whole, init="pretrained", model=model, **{field: value}
        )

        recipe = attrs.evolve(expected.recipe, backbone=pretrained)
        if any(runtime_misfits(component, recipe)):
            return

        try:
            vectors = Encoder.build(recipe, encoder.engine).encode(SENTENCES)
        except SentbedError:
            return

        before = expected.encode(SENTENCES)
        on_cpu = Encoder.build(recipe, expected.engine).encode(SENTENCES)

        change = on_cpu - before
        share = float(((vectors - before) * change).sum() / (change**2).sum())
        assert share > LEAST_SHARE, (
            f"{field} changes vectors by {share:.2g} as on `cpu`"
        )

    def test_trains(
        self,
        component: Runtime,
        encoder: Encoder,
        expected: Encoder,
        tmp_path: Path,
    ) -> None:
        """Losses of a few steps are those of `cpu`, and the new weights are used and saved."""
        skip_unless_it_trains(component)
        assert isinstance(encoder.engine, TrainingEngine)

        losses = take_steps(encoder, new_trainer(encoder), range(STEPS))
        expected_losses = take_steps(expected, new_trainer(expected), range(STEPS))
        assert losses == pytest.approx(expected_losses, rel=self.tolerance)

        encoder.save(tmp_path / "trained")
        loaded = Encoder.build(
            encoder.recipe, expected.engine, saved=tmp_path / "trained"
        )
        self.assert_vectors(encoder.encode(SENTENCES), loaded.encode(SENTENCES))

    def test_resumes(
        self,
        component: Runtime,
        recipe: EncoderRecipe,
        encoder: Encoder,
        tmp_path: Path,
    ) -> None:
        """A new trainer that loads a saved state takes the same steps."""
        skip_unless_it_trains(component)
        trainer = new_trainer(encoder)
        take_steps(encoder, trainer, range(STEPS))

        state = tmp_path / "state"
        state.mkdir()
        trainer.save(state)
        losses = take_steps(encoder, trainer, range(STEPS, 2 * STEPS))

        other = Encoder.build(recipe, encoder.engine, saved=tmp_path / "initial")
        resumed = new_trainer(other)
        resumed.load(state)

        resumed_losses = take_steps(other, resumed, range(STEPS, 2 * STEPS))
        assert resumed_losses == pytest.approx(losses, rel=self.tolerance)


def skip_unless_it_trains(runtime: Runtime) -> None:
    """Skip the test with the runtime's reason if its engine only encodes."""
    if runtime.untrainable is not None:
        pytest.skip(runtime.untrainable)


def new_trainer(encoder: Encoder) -> Trainer:
    """Return a trainer of one encoder."""
    training = Training(
        loss=installed("loss", "info-nce")(temperature=0.5),
        optimizer=installed("optimizer", "adamw")(lr=1e-3, eps=1e-6),
        schedule=installed("schedule", "constant")(),
        total_steps=2 * STEPS,
        towers=dict.fromkeys(COLUMNS, "encoder"),
    )

    engine = cast(TrainingEngine, encoder.engine)
    engine.seed(SEED)
    return engine.trainer({"encoder": encoder.placed}, training)


def take_steps(encoder: Encoder, trainer: Trainer, numbers: range) -> list[float]:
    """Take a step with each batch of these numbers, and return the losses."""
    losses = []
    for number in numbers:
        texts = SENTENCES[number * ROWS : (number + 1) * ROWS]
        columns = {}
        for name, side in zip(COLUMNS, (texts, texts[::-1]), strict=True):
            columns[name] = encoder.tokenizer().encode(side, MAX_LENGTH)

        losses.append(trainer.step(columns).loss)
    return losses
