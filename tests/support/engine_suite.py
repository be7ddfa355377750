"""What every engine does as the runtime `cpu` does: test classes, to which a subclass gives the runtime.

Both engines compute in fp32, and have encoders of equal weights; see `EnginePair`. Each part is in one case at
least; poolers meet every backbone only in `EveryPair`.
"""

from __future__ import annotations

import itertools
import json
import math
from typing import ClassVar

import attrs
import numpy as np
import pytest
import torch
from engine_pair import (
    ADAMW,
    BACKBONES,
    DESCENT,
    DESCENT_RATE,
    LOSSES,
    SEED,
    Case,
    EnginePair,
    Mix,
    batch,
    fitting_cases,
)
from sentbed import Encoder, ModelError
from sentbed.helpers import pad
from sentbed.protocols import Runtime
from sentbed.tools import runtime_misfits
from sentbed_hardware.adafactor import Adafactor
from sentbed_hardware.cpu import Cpu
from sentbed_testing import SENTENCES
from slow_parameters import slow_unless
from torch.testing import assert_close

NAMES = ("bert", "t5", "opt", "llama", "static")
PAIRS = fitting_cases(NAMES)
"""Every backbone with every pooler that fits it."""


def each_once(cases):
    """Return the cases whose backbone or pooler is in no earlier case."""
    parts = set()
    chosen = []
    for case in cases:
        parts_of_case = {case.backbone, case.pooler}
        if not parts_of_case <= parts:
            chosen.append(case)
        parts |= parts_of_case

    return chosen


ENCODERS = [
    *each_once(PAIRS),
    Case("opt-bidirectional"),
    Case("llama-bidirectional", "first"),
]
WITH_LAYERS = Case(head="layers")
ONE_OF_EACH = [Case(name) for name in NAMES]
PLAIN = {"mean", "decoder"}
DROPPING = [Case(name) for name in BACKBONES if name.endswith("-dropout")]
ADAFACTOR = Adafactor(lr=3e-4)


def with_losses(cases):
    """Return the cases with the losses in turn."""
    assert len(cases) >= len(LOSSES)

    losses = itertools.cycle(LOSSES)
    changed = []
    for case, loss in zip(cases, losses, strict=False):
        with_loss = attrs.evolve(case, loss=loss)
        changed.append(with_loss)

    return changed


def each(cases, quick=lambda case: False):
    """Parametrise a test over cases; those that are not `quick` are slow."""
    return pytest.mark.parametrize("case", slow_unless(quick, cases))


def has_plain_pooler(case):
    return case.pooler in PLAIN


def is_plain_bert(case):
    return case == Case()


def name_of(part):
    """Return the name of an optimiser, or the case as text."""
    return getattr(part, "name", str(part))


def assert_number(actual, expected, tolerance):
    """Compare numbers relative to `expected`, or to 1 if that is larger."""
    scale = max(1.0, abs(expected))
    error = abs(actual - expected)
    assert error <= tolerance * scale


def norm(arrays):
    """Return the L2 norm of all arrays, concatenated."""
    total = 0.0
    for value in arrays.values():
        squares = value.astype(np.float64) ** 2
        total += float(squares.sum())

    return math.sqrt(total)


def differences(actual, expected):
    subtracted = {}
    for name, value in expected.items():
        subtracted[name] = actual[name] - value

    return subtracted


def assert_arrays(actual, expected, tolerance, floor=1e-2):
    """Compare arrays by name, each relative to its L2 norm.

    The divisor is at least `floor` times the norm of all arrays, since smaller arrays are often only rounding
    errors, such as the gradients of the biases of attention keys, which do not change a softmax.
    """
    assert actual.keys() == expected.keys()

    least = floor * norm(expected)
    for name, difference in differences(actual, expected).items():
        own_norm = norm({name: expected[name]})
        scale = max(own_norm, least)
        error = norm({name: difference})
        assert error <= tolerance * scale, f"{name}: {error / scale:.3g} of its norm"


def without_gradient(loss_and_gradients):
    """Return the names of the parameters whose gradient is only rounding error."""
    _, gradients = loss_and_gradients
    least = 1e-5 * norm(gradients)

    names = set()
    for name, value in gradients.items():
        norm_of_gradient = norm({name: value})
        if norm_of_gradient <= least:
            names.add(name)

    return names


def without_parameters(weights, parameters):
    """Return the saved weights, except those of these parameters, whose names end in that of the weight."""
    kept = {}
    for key, value in weights.items():
        _, _, name = key.partition(":")
        if not any(parameter.endswith(f".{name}") for parameter in parameters):
            kept[key] = value

    return kept


def take_steps(case, encoder, trainer, numbers):
    """Take a step with each batch of these numbers, and return the results."""
    results = []
    for number in numbers:
        columns = batch(case, encoder, number)
        result = trainer.step(columns)
        results.append(result)

    return results


class EngineSuite:
    """What an engine does that encodes. A subclass sets `runtime`."""

    runtime: ClassVar[Runtime]
    vector_tolerance = 1e-5
    """Relative to the largest absolute value of the reference's vectors."""

    @pytest.fixture(scope="class")
    @classmethod
    def pair(cls, tmp_path_factory):
        engine = cls.runtime.build()
        reference = Cpu(threads=1).build()
        directory = tmp_path_factory.mktemp("engines")
        return EnginePair(engine, reference, directory)

    def skip_if_refused(self, case):
        for reason in runtime_misfits(self.runtime, case.recipe):
            pytest.skip(reason)

    def assert_vectors(self, actual, expected):
        """Compare vectors relative to the largest absolute value of `expected`."""
        assert actual.dtype == np.float32

        largest = float(np.abs(expected).max())
        bound = self.vector_tolerance * largest
        actual = torch.tensor(actual)
        expected = torch.tensor(expected)
        assert_close(actual, expected, rtol=0, atol=bound)

    @each([*ENCODERS, WITH_LAYERS], quick=has_plain_pooler)
    def test_vectors(self, pair, case):
        """They are the reference's, and depend on no other text: not on padding, order or number of rows."""
        self.skip_if_refused(case)
        encoder, reference = pair.encoders(case)
        tokenizer = reference.tokenizer()
        tokens = tokenizer.encode(SENTENCES, 20)
        pad_id = reference.backbone.tokenizer.pad_id

        def encode(rows, encoder=encoder):
            padded = pad(tokens, np.array(rows), pad_id)
            return encoder.placed.encode(padded)

        rows = [0, 1, 2, 3, 4, 5, 6, 7]
        expected = encode(rows, reference)
        vectors = encode(rows)
        self.assert_vectors(vectors, expected)

        reversed_vectors = encode(rows[::-1])
        in_order = reversed_vectors[::-1].copy()
        self.assert_vectors(in_order, expected)

        for row in rows[:3]:
            alone = encode([row])
            self.assert_vectors(alone, expected[[row]])

        longest = int(tokens.lengths.argmax())
        beside_longest = encode([0, longest])
        self.assert_vectors(beside_longest[:1], expected[:1])

        is_equally_long = tokens.lengths == tokens.lengths[0]
        equally_long = np.flatnonzero(is_equally_long)
        expected = encode(equally_long, reference)
        without_padding = encode(equally_long)
        self.assert_vectors(without_padding, expected)

        expected = reference.encode(SENTENCES)
        vectors = encoder.encode(SENTENCES)
        self.assert_vectors(vectors, expected)

    def test_a_saved_encoder(self, pair, tmp_path):
        """It gives the same vectors on either engine; to the bit on the one that has saved it."""
        case = WITH_LAYERS
        misfits = runtime_misfits(self.runtime, case.recipe)
        if any(misfits):
            case = Case()

        encoder = pair.encoder(case)
        vectors = encoder.encode(SENTENCES)
        saved = tmp_path / "encoder"
        encoder.save(saved)

        loaded = Encoder.build(case.recipe, pair.engine, saved=saved)
        vectors_of_loaded = loaded.encode(SENTENCES)
        np.testing.assert_array_equal(vectors_of_loaded, vectors)
        assert loaded.placed.fingerprint() == encoder.placed.fingerprint()

        protocol = json.dumps(encoder.protocol())
        assert json.dumps(loaded.protocol()) == protocol

        on_reference = Encoder.build(case.recipe, pair.reference, saved=saved)
        vectors_on_reference = on_reference.encode(SENTENCES)
        self.assert_vectors(vectors_on_reference, vectors)

    @pytest.mark.slow
    def test_a_fitted_transform(self, pair, tmp_path):
        """Transform, then cut, then norm, also after saving; the encoder without it does not change."""
        case = Case(head="transform")
        self.skip_if_refused(case)
        encoder, reference = pair.encoders(case)
        before = encoder.encode(SENTENCES)

        actual = vectors_of_transform(encoder, tmp_path / "encoder")
        expected = vectors_of_transform(reference, tmp_path / "reference")
        for name, vectors in expected.items():
            self.assert_vectors(actual[name], vectors)

        after = encoder.encode(SENTENCES)
        np.testing.assert_array_equal(after, before)
        assert encoder.placed.fitted_on is None


def vectors_of_transform(encoder, path):
    """Return the vectors before a transform, after it, and after it in an encoder that was saved and loaded."""
    untransformed = encoder.placed.transformed()
    without_transform = attrs.evolve(encoder, placed=untransformed)
    inputs = without_transform.encode(SENTENCES)

    fitted_on = {"texts": len(inputs)}
    fit = Mix().fit(inputs, encoder.backbone)
    placed = untransformed.transformed(fit, fitted_on)
    fitted = attrs.evolve(encoder, placed=placed)

    fitted.save(path)
    loaded = Encoder.build(encoder.recipe, encoder.engine, saved=path)
    assert loaded.placed.fitted_on == fitted_on

    return {
        "inputs": inputs,
        "fitted": fitted.encode(SENTENCES),
        "loaded": loaded.encode(SENTENCES),
    }


class EveryPair(EngineSuite):
    """The suite, and every backbone with every pooler."""

    @each([case for case in PAIRS if case not in ENCODERS])
    def test_vectors_of_every_pair(self, pair, case):
        self.test_vectors(pair, case)


class TrainingSuite(EngineSuite):
    """What an engine does that also trains."""

    loss_tolerance = 1e-5
    """Relative to the loss, or absolute if it is below 1."""
    gradient_tolerance = 1e-4
    """Relative to the norm of each parameter's gradient; see `assert_arrays`."""
    step_tolerance = 1e-4
    """Of the losses of ten steps, and of each weight after them."""
    movement_tolerance = 1e-3
    """Of all weights after ten steps, relative to the distance by which the steps moved them. They move so little
    that weights would agree to `step_tolerance` if nothing were learned."""
    state_tolerance = 0.0
    """Of losses and weights after resuming."""

    def assert_gradients(self, actual, expected):
        """Compare the results of two calls of `Trainer.gradients`."""
        actual_loss, actual_gradients = actual
        expected_loss, expected_gradients = expected
        assert_number(actual_loss, expected_loss, self.loss_tolerance)
        assert_arrays(actual_gradients, expected_gradients, self.gradient_tolerance)

    @each([*with_losses(ENCODERS), WITH_LAYERS], quick=has_plain_pooler)
    def test_gradients(self, pair, case):
        """They are the reference's, and computing them changes nothing."""
        self.skip_if_refused(case)
        encoder, reference = pair.encoders(case)
        sentences = SENTENCES[:4]
        before = encoder.encode(sentences)
        columns = batch(case, encoder)

        trainer = pair.trainer(case, encoder)
        gradients = trainer.gradients(columns)
        expected = pair.gradients(case, reference)
        self.assert_gradients(gradients, expected)

        repeated = trainer.gradients(columns)
        self.assert_gradients(repeated, gradients)

        after = encoder.encode(sentences)
        self.assert_vectors(after, before)

    @pytest.mark.slow
    def test_gradients_of_batches_smaller_than_the_first(self, pair):
        """The rows that fill a compiled shape do not count."""
        case = Case()
        encoder, reference = pair.encoders(case)
        trainer = pair.trainer(case, encoder)

        for rows in (6, 5, 3):
            columns = batch(case, encoder, rows=rows)
            gradients = trainer.gradients(columns)
            expected = pair.gradients(case, reference, rows)
            self.assert_gradients(gradients, expected)

    @pytest.mark.slow
    def test_gradients_of_two_encoders(self, pair):
        """Each has the gradient of the columns that it encodes."""
        case = Case()
        towers = {"anchor": "left", "positive": "right"}
        gradients = []
        for engine in (pair.engine, pair.reference):
            left = pair.encoder(case, engine)
            right = pair.encoder(case, engine)
            encoders = {"left": left, "right": right}
            trainer = pair.trainer(case, encoders, towers=towers)

            columns = batch(case, left)
            gradients.append(trainer.gradients(columns))

        actual, expected = gradients
        self.assert_gradients(actual, expected)

    @each(ONE_OF_EACH, quick=is_plain_bert)
    def test_micro_batches_have_the_gradient_of_the_batch(self, pair, case):
        """Gradient caching (Gao et al., 2021)."""
        encoder = pair.encoder(case)
        for rows in (6, 5):
            whole = pair.gradients(case, encoder, rows)
            cached = pair.gradients(case, encoder, rows, micro_batch=2)
            self.assert_gradients(cached, whole)

    @pytest.mark.slow
    @pytest.mark.parametrize("micro_batch", [None, 2])
    def test_the_loss_falls_along_its_gradient_under_dropout(self, pair, micro_batch):
        """A step of `r` times the gradient `g` lowers the loss of the same batch and seed by `r |g|^2`.

        It does not if the passes of a step have different dropout masks, as when gradient caching does not
        restore the states of the random generators.
        """
        case = Case("bert-dropout")
        encoder = pair.encoder(case)
        settings = {"max_grad_norm": 0.0, "micro_batch": micro_batch}
        before, gradients = pair.gradients(case, encoder, **settings)

        squared = norm(gradients) ** 2
        # So small that the loss changes linearly, and so large that the change exceeds rounding.
        rate = 3e-4 * before / squared
        lr = DESCENT.lr * rate / DESCENT_RATE
        optimizer = attrs.evolve(DESCENT, lr=lr)
        trainer = pair.trainer(case, encoder, optimizer=optimizer, **settings)
        columns = batch(case, encoder)
        trainer.step(columns)

        after, _ = pair.gradients(case, encoder, **settings)
        expected_fall = rate * squared
        fall = before - after
        assert fall / expected_fall == pytest.approx(1, abs=0.03)

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("case", "optimizer"),
        [
            (Case(), ADAMW),
            (Case(), ADAFACTOR),
            (Case("llama", loss="momentum"), ADAMW),
            (Case("static", loss="info-nce-options"), ADAFACTOR),
            (Case(loss="queue"), ADAMW),
            (Case(loss="momentum"), ADAFACTOR),
            (Case(loss="sum"), ADAMW),
        ],
        ids=name_of,
    )
    def test_ten_steps(self, pair, case, optimizer, tmp_path):
        """Losses, metrics, norms, rates and weights are the reference's, and encoding uses the new weights.

        An optimiser divides a gradient by its size: one that is only rounding error makes steps of full length in
        a random direction, which change no vector. Such weights are not compared. No case has ReLU, whose
        derivative jumps at 0: among a million inputs, rounding decides the sign of one, and so a gradient.
        """
        encoder, reference = pair.encoders(case)
        start = pair.weights(reference)
        first_gradients = pair.gradients(case, reference)

        # This fills a cache of weights for encoding, which the first step must drop.
        encoder.encode(SENTENCES[:1])
        trainer = pair.trainer(case, encoder, optimizer=optimizer)
        results = take_steps(case, encoder, trainer, range(10))

        trainer = pair.trainer(case, reference, optimizer=optimizer)
        expected_results = take_steps(case, reference, trainer, range(10))

        for result, expected in zip(results, expected_results, strict=True):
            self.assert_step(result, expected)

        last_gradients = pair.gradients(case, reference)
        excluded = without_gradient(first_gradients)
        excluded &= without_gradient(last_gradients)

        weights = without_parameters(pair.weights(encoder), excluded)
        expected = without_parameters(pair.weights(reference), excluded)
        # Biases start at zero and are still small.
        assert_arrays(weights, expected, self.step_tolerance, floor=1e-4)

        movement = norm(differences(start, expected))
        error = norm(differences(weights, expected))
        assert error <= self.movement_tolerance * movement

        saved = tmp_path / "trained"
        encoder.save(saved)
        loaded = Encoder.build(case.recipe, pair.engine, saved=saved)

        sentences = SENTENCES[:8]
        vectors = encoder.encode(sentences)
        vectors_of_loaded = loaded.encode(sentences)
        self.assert_vectors(vectors, vectors_of_loaded)

    def assert_step(self, result, expected):
        """Compare results. Rounding of the weights changes the norm ten times as much as the loss."""
        tolerance = self.step_tolerance
        assert_number(result.loss, expected.loss, tolerance)
        assert_number(result.grad_norm, expected.grad_norm, 10 * tolerance)

        learning_rate = pytest.approx(expected.learning_rate, rel=1e-6)
        assert result.learning_rate == learning_rate

        # An engine may count what it has compiled among the metrics.
        for name, value in expected.metrics.items():
            assert_number(result.metrics[name], value, tolerance)

    @pytest.mark.slow
    @pytest.mark.parametrize(("limit", "clipped"), [(0.25, 0.25), (4.0, 1.0), (0, 1.0)])
    def test_gradients_are_clipped_once_over_all_parameters(self, pair, limit, clipped):
        """`limit` and `clipped` are shares of the gradient's norm; a limit of 0 does not clip."""
        case = Case()
        encoder = pair.encoder(case)
        start = pair.weights(encoder)
        _, gradients = pair.gradients(case, encoder)
        grad_norm = norm(gradients)

        settings = {"optimizer": DESCENT, "max_grad_norm": limit * grad_norm}
        trainer = pair.trainer(case, encoder, **settings)
        (result,) = take_steps(case, encoder, trainer, [0])
        assert result.grad_norm == pytest.approx(grad_norm, rel=1e-3)

        end = pair.weights(encoder)
        movement = norm(differences(end, start))
        expected = DESCENT_RATE * clipped * grad_norm
        assert movement == pytest.approx(expected, rel=1e-3)

    @pytest.mark.slow
    def test_the_moving_average_is_swapped_with_the_weights(self, pair):
        case = Case()
        encoder = pair.encoder(case)
        trainer = pair.trainer(case, encoder, optimizer=DESCENT, ema=0.5)

        averages = pair.weights(encoder)
        for number in range(2):
            take_steps(case, encoder, trainer, [number])
            weights = pair.weights(encoder)
            for name, average in averages.items():
                averages[name] = (average + weights[name]) / 2

        before = encoder.encode(SENTENCES)
        trainer.swap_average()
        weights = pair.weights(encoder)
        assert_arrays(weights, averages, 1e-5, floor=1e-4)

        change = encoder.encode(SENTENCES) - before
        assert np.abs(change).max() > 1e-4

        trainer.swap_average()
        after = encoder.encode(SENTENCES)
        self.assert_vectors(after, before)

    @each(DROPPING, quick=lambda case: case.backbone == "bert-dropout")
    def test_dropout_differs_in_each_step_and_is_not_in_encode(self, pair, case):
        encoder = pair.encoder(case)
        sentences = SENTENCES[:4]
        before = encoder.encode(sentences)

        optimizer = attrs.evolve(ADAMW, lr=1e-12)
        trainer = pair.trainer(case, encoder, optimizer=optimizer)
        first, second = take_steps(case, encoder, trainer, [0, 0])
        assert first.loss != second.loss

        after = encoder.encode(sentences)
        self.assert_vectors(after, before)

    @pytest.mark.slow
    def test_dropout_follows_the_seed(self, pair):
        case = Case("bert-dropout")
        encoder = pair.encoder(case)
        columns = batch(case, encoder)

        def losses(seed):
            trainer = pair.trainer(case, encoder, seed=seed)
            first, _ = trainer.gradients(columns)
            second, _ = trainer.gradients(columns)
            return first, second

        first, second = losses(SEED)
        assert first != second
        assert losses(SEED) == (first, second)
        assert losses(SEED + 1) != (first, second)

    @pytest.mark.parametrize(
        ("case", "optimizer"),
        [
            (Case("bert-dropout"), ADAMW),
            *(
                pytest.param(case, optimizer, marks=pytest.mark.slow)
                for case, optimizer in [
                    (Case(loss="info-nce-options"), ADAFACTOR),
                    (Case(loss="queue"), ADAMW),
                    (Case(loss="momentum"), ADAFACTOR),
                    (Case(loss="sum"), ADAMW),
                    (Case(loss="nli-softmax"), ADAFACTOR),
                ]
            ),
        ],
        ids=name_of,
    )
    def test_a_resumed_trainer_takes_the_same_steps(
        self, pair, case, optimizer, tmp_path
    ):
        """Also if it starts from another seed; the state of an encoder of another width is refused."""
        settings = {"optimizer": optimizer, "ema": 0.5}
        tolerance = self.state_tolerance
        encoder = pair.encoder(case)
        trainer = pair.trainer(case, encoder, **settings)

        take_steps(case, encoder, trainer, range(3))
        trainer.save(tmp_path)
        results = take_steps(case, encoder, trainer, range(3, 6))

        resumed_encoder = pair.encoder(case)
        resumed = pair.trainer(case, resumed_encoder, SEED + 1, **settings)
        resumed.load(tmp_path)
        resumed_results = take_steps(case, resumed_encoder, resumed, range(3, 6))

        for result, expected in zip(resumed_results, results, strict=True):
            assert_number(result.loss, expected.loss, tolerance)

        for _ in ("weights", "averages"):
            weights = pair.weights(encoder)
            resumed_weights = pair.weights(resumed_encoder)
            assert_arrays(resumed_weights, weights, tolerance)
            trainer.swap_average()
            resumed.swap_average()

        wider = attrs.evolve(case, head="wider")
        wider_encoder = pair.encoder(wider)
        other = pair.trainer(wider, wider_encoder, **settings)
        with pytest.raises(ModelError):
            other.load(tmp_path)

    @pytest.mark.slow
    def test_a_step_whose_loss_is_not_finite_changes_nothing(self, pair):
        """Neither weights, memory nor optimiser: the next step is that of a trainer without it."""
        case = Case(loss="queue")
        encoder = pair.encoder(case)
        trainer = pair.trainer(case, encoder)
        take_steps(case, encoder, trainer, [0])
        before = pair.weights(encoder)

        infinite_batch = batch(case, encoder, 2)
        infinite_batch["positive"][0, 0] = math.inf
        result = trainer.step(infinite_batch)
        assert not math.isfinite(result.loss) or not math.isfinite(result.grad_norm)

        after = pair.weights(encoder)
        assert_arrays(after, before, 0.0)

        clean_encoder = pair.encoder(case)
        clean = pair.trainer(case, clean_encoder)
        take_steps(case, clean_encoder, clean, [0])

        next_batch = batch(case, encoder, 1)
        gradients = trainer.gradients(next_batch)
        expected_gradients = clean.gradients(next_batch)
        self.assert_gradients(gradients, expected_gradients)

        trainer.step(next_batch)
        clean.step(next_batch)
        weights = pair.weights(encoder)
        expected_weights = pair.weights(clean_encoder)
        assert_arrays(weights, expected_weights, 1e-6)
