"""Checks of an engine's training steps: weights, losses, moving averages and clipping."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import attrs
from sentbed import Encoder
from sentbed.protocols import Engine, Optimizer, StepResult

from sentbed_testing.comparisons import (
    Arrays,
    Comparison,
    differences,
    norm,
    parameters_without_gradient,
    relative_difference,
    without_parameters,
)
from sentbed_testing.engine_cases import Case
from sentbed_testing.engine_pair import TOWER, EnginePair, batch
from sentbed_testing.sentences import SENTENCES

if TYPE_CHECKING:
    from numpy.typing import NDArray

LEAST_WEIGHT_SCALE = 1e-4
"""Smallest divisor of the difference of two weight tensors; see `comparisons.LEAST_SCALE`.

It is small, since biases start at zero and are still small after a few steps.
"""


def check_steps(
    pair: EnginePair,
    case: Case,
    optimizer: Optimizer | None = None,
    steps: int = 10,
    tolerance: float = 1e-4,
    movement: float = 1e-3,
) -> None:
    """After `steps` steps, weights, losses, gradient norms and learning rates equal the reference's.

    Weights are compared in two ways. Each tensor must agree to `tolerance`, relative to its L2 norm. All weights
    together must agree to `movement`, relative to the distance by which training moved them: after small steps,
    the first comparison would pass even if nothing had been learned.

    The optimisers divide a gradient by its size. A gradient that is only rounding error (see
    `comparisons.ROUNDING_SHARE`) therefore makes steps of full length in a random direction. A parameter with
    such a gradient changes no vector. It is not compared if the reference's gradient of it is only rounding error
    both before and after training. The encoder has no ReLU; see `EnginePair.fresh_and_smooth`.
    """
    compare = Comparison(f"steps of {(optimizer or pair.optimizer).name}", case.id)
    start = pair.weights(pair.fresh_and_smooth(case, pair.reference))
    reference = _train(pair, case, pair.reference, optimizer, steps)
    trained = _train(pair, case, pair.engine, optimizer, steps)
    for number, (result, expected) in enumerate(
        zip(trained.results, reference.results, strict=True), 1
    ):
        _compare_step(compare, number, result, expected, tolerance)

    weights = without_parameters(trained.weights, reference.without_gradient)
    expected_weights = without_parameters(reference.weights, reference.without_gradient)
    what = f"after {steps} steps weights differ from the reference's"
    compare.same_arrays(
        what, weights, expected_weights, tolerance, least_scale=LEAST_WEIGHT_SCALE
    )

    moved = norm(differences(start, expected_weights))
    error = norm(differences(weights, expected_weights))
    share = error / moved if moved else math.inf
    what = f"in {steps} steps weights went elsewhere than the reference's"
    advice = "compare the optimiser's fields, its clipping, its decay and the schedule"
    compare.at_most(what, share, movement, advice)

    path = pair.directory / "trained"
    trained.encoder.save(path)
    loaded = Encoder.build(case.recipe, pair.engine, saved=path)
    texts = SENTENCES[:8]
    compare.same_vectors(
        "after training, `encode` differs from the saved weights",
        trained.encoder.encode(texts),
        loaded.encode(texts),
        1e-5,
        "if `encode` caches weights, drop the cache in every step",
    )


def _compare_step(
    compare: Comparison,
    number: int,
    result: StepResult,
    expected: StepResult,
    tolerance: float,
) -> None:
    """Compare loss, gradient norm and learning rate of a step."""
    what = f"of step {number} differs from the reference's"
    compare.same_number(f"`loss` {what}", result.loss, expected.loss, tolerance)
    # Rounding of the weights changes the norm of the gradient ten times as much as the loss.
    compare.same_number(
        f"`grad_norm` {what}", result.grad_norm, expected.grad_norm, 10 * tolerance
    )
    rate, expected_rate = result.learning_rate, expected.learning_rate
    advice = f"found {rate!r}, expected {expected_rate!r}"
    difference = abs(rate / expected_rate - 1)
    compare.at_most(f"`learning_rate` {what}", difference, tolerance, advice)


def check_momentum_and_queue(
    pair: EnginePair,
    case: Case,
    steps: int = 6,
    tolerance: float = 1e-4,
) -> None:
    """Losses and metrics of a loss with a memory or a moving average equal the reference's in every step."""
    compare = Comparison("momentum-and-queue", case.id)
    reference = _train(pair, case, pair.reference, None, steps)
    trained = _train(pair, case, pair.engine, None, steps)
    advice = "keep `LossOutput.state`, and update the average"
    for number, (result, expected) in enumerate(
        zip(trained.results, reference.results, strict=True), 1
    ):
        values = {"loss": result.loss, **result.metrics}
        expected_values = {"loss": expected.loss, **expected.metrics}
        for name, expected_value in expected_values.items():
            what = f"`{name}` of step {number} differs from the reference's"
            value = values.get(name, math.nan)
            compare.same_number(what, value, expected_value, tolerance, advice)


def check_moving_average(
    pair: EnginePair,
    case: Case,
    ema: float = 0.5,
    tolerance: float = 1e-5,
) -> None:
    """`swap_average` exchanges an encoder's weights for their moving average, and a second call restores them.

    The expected average is computed here, from the engine's weights after each of two steps of gradient descent.
    """
    compare = Comparison("moving-average", case.id)
    encoder = pair.fresh(case, pair.engine)
    trainer = pair.trainer(case, pair.engine, encoder, optimizer=pair.descent, ema=ema)
    expected = dict(pair.weights(encoder))
    for number in range(2):
        trainer.step(batch(case, encoder, number))
        weights = pair.weights(encoder)
        for name, value in expected.items():
            expected[name] = ema * value + (1 - ema) * weights[name]

    before = encoder.encode(SENTENCES)
    trainer.swap_average()
    what = "`swap_average` gives other weights than the moving average of two steps"
    weights = pair.weights(encoder)
    compare.same_arrays(
        what, weights, expected, tolerance, least_scale=LEAST_WEIGHT_SCALE
    )
    averaged = encoder.encode(SENTENCES)

    trainer.swap_average()
    advice = "encode with the current weights, and exchange weights and average instead of copying"
    what = "vectors after a second `swap_average` differ from those before the first"
    compare.same_vectors(what, encoder.encode(SENTENCES), before, tolerance, advice)
    compare.require(
        relative_difference(averaged, before) > tolerance,
        f"`swap_average` changes no vector; {advice}",
    )


def check_clipping(
    pair: EnginePair,
    case: Case,
    tolerance: float = 1e-3,
) -> None:
    """Gradients are clipped once, so that their norm over all parameters is at most `max_grad_norm`.

    A `max_grad_norm` of 0 means no clipping. The expected movement of the weights under gradient descent is the
    learning rate times the clipped gradient. The loss of `case` has no weights, and the encoder saves each weight
    once.
    """
    compare = Comparison("clipping", case.id)
    shared = pair.shared(case, pair.engine)
    columns = batch(case, shared)
    _, gradients = pair.trainer(case, pair.engine, shared).gradients(columns)
    whole = norm(gradients)
    start = pair.weights(shared)

    clipped_norms = {whole / 4: whole / 4, whole * 4: whole, 0.0: whole}
    for limit, clipped in clipped_norms.items():
        encoder = pair.fresh(case, pair.engine)
        trainer = pair.trainer(
            case, pair.engine, encoder, optimizer=pair.descent, max_grad_norm=limit
        )
        result = trainer.step(columns)
        difference = abs(result.grad_norm / whole - 1)
        advice = (
            f"found {result.grad_norm!r}, expected {whole!r}: the norm before clipping"
        )
        compare.at_most("`grad_norm` differs", difference, tolerance, advice)

        expected = pair.descent_rate * clipped
        moved = norm(differences(pair.weights(encoder), start))
        what = f"with `max_grad_norm = {limit:.3g}` and a gradient of norm {whole:.3g}, the step's length is off"
        advice = f"weights moved by {moved:.4g}, expected {expected:.4g}; clip once, over all parameters"
        compare.at_most(what, abs(moved / expected - 1), tolerance, advice)


@attrs.frozen
class _Trained:
    """Results of a short training."""

    encoder: Encoder
    weights: Arrays
    results: list[StepResult]
    """Results of the steps, in order."""
    without_gradient: set[str]
    """Parameters whose gradient is only rounding error, both before and after training. They are determined for
    the reference alone; for other engines the set is empty."""


def _train(
    pair: EnginePair,
    case: Case,
    engine: Engine,
    optimizer: Optimizer | None,
    steps: int,
) -> _Trained:
    """Train a new encoder of a case for some steps."""
    encoder = pair.fresh_and_smooth(case, engine)
    # If the engine caches weights for encoding, this fills the cache, which the first step must then drop.
    encoder.encode(SENTENCES[:1])
    trainer = pair.trainer(case, engine, encoder, optimizer=optimizer, steps=steps)
    without_gradient: set[str] = set()
    if engine is pair.reference:
        without_gradient = _without_gradient(trainer, case, encoder)
    results = [trainer.step(batch(case, encoder, number)) for number in range(steps)]
    if without_gradient:
        without_gradient &= _without_gradient(trainer, case, encoder)
    return _Trained(encoder, pair.weights(encoder), results, without_gradient)


def _without_gradient(
    trainer: Any,
    case: Case,
    encoder: Encoder,
) -> set[str]:
    """Return the encoder's parameters whose gradient in the first batch is only rounding error."""
    _, gradients = trainer.gradients(batch(case, encoder))
    encoder_gradients: dict[str, NDArray[Any]] = {
        name: value for name, value in gradients.items() if name.startswith(f"{TOWER}.")
    }
    return parameters_without_gradient(encoder_gradients)
