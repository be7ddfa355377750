"""Checks of an engine's optimiser steps against the reference."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import attrs
from sentbed import Encoder
from sentbed.protocols import Engine, Optimizer, StepResult

from sentbed_testing.comparisons import (
    Arrays,
    Comparison,
    apart,
    differences,
    norm,
    without,
    without_gradient,
)
from sentbed_testing.engine_cases import Case
from sentbed_testing.engine_pair import TOWER, EnginePair, batch
from sentbed_testing.sentences import SENTENCES

if TYPE_CHECKING:
    from numpy.typing import NDArray

SMALL = 1e-2
"""Least scale for comparing a tensor, as a share of the norm of all weights: biases start at zero."""


def check_steps(
    pair: EnginePair,
    case: Case,
    optimizer: Optimizer | None = None,
    steps: int = 10,
    tolerance: float = 1e-4,
    movement: float = 1e-3,
) -> None:
    """After `steps` steps the weights are the reference's, as are each step's loss, norm and learning rate.

    Weights are compared twice: each tensor in L2 relative to its norm, to `tolerance`; and all together,
    relative to the distance that training moved them, to `movement`: after small steps, weights would agree
    even if nothing had been learned. Both optimisers divide a gradient by its size, so a gradient that is
    only rounding (below `comparisons.NOTHING` of the whole, on the reference, before and after) makes steps
    of full length in a random direction. Such tensors change no vector and are left out. The encoder has no
    ReLU; see `EnginePair.fresh_and_smooth`.
    """
    compare = Comparison(f"steps of {(optimizer or pair.optimizer).name}", case.id)
    start = pair.weights(pair.fresh_and_smooth(case, pair.reference))
    theirs = _train(pair, case, pair.reference, optimizer, steps)
    mine = _train(pair, case, pair.engine, optimizer, steps)
    for number, (result, expected) in enumerate(
        zip(mine.results, theirs.results, strict=True), 1
    ):
        _compare_step(compare, number, result, expected, tolerance)

    weights = without(mine.weights, theirs.without_gradient)
    their_weights = without(theirs.weights, theirs.without_gradient)
    what = f"after {steps} steps weights differ from the reference's"
    compare.same_arrays(what, weights, their_weights, tolerance, floor=SMALL * SMALL)
    moved = norm(differences(start, their_weights))
    share = norm(differences(weights, their_weights)) / moved if moved else math.inf
    what = f"in {steps} steps weights went elsewhere than the reference's"
    advice = "compare the optimiser's fields, its clipping, its decay and the schedule"
    compare.at_most(what, share, movement, advice)

    path = pair.directory / "trained"
    mine.encoder.save(path)
    again = Encoder.build(case.recipe, pair.engine, saved=path)
    texts = SENTENCES[:8]
    compare.same_vectors(
        "after training, `encode` differs from the saved weights",
        mine.encoder.encode(texts),
        again.encode(texts),
        1e-5,
        "drop what `encode` keeps of the weights with every step",
    )


def _compare_step(
    compare: Comparison,
    number: int,
    result: StepResult,
    expected: StepResult,
    tolerance: float,
) -> None:
    what = f"of step {number} differs from the reference's"
    compare.same_number(f"`loss` {what}", result.loss, expected.loss, tolerance)
    # Rounding in the weights changes the gradient's norm ten times as much as the loss.
    compare.same_number(
        f"`grad_norm` {what}", result.grad_norm, expected.grad_norm, 10 * tolerance
    )
    rate, expected_rate = result.learning_rate, expected.learning_rate
    advice = f"found {rate!r}, expected {expected_rate!r}"
    difference = abs(rate / expected_rate - 1)
    compare.at_most(f"`learning_rate` {what}", difference, tolerance, advice)


def check_momentum_and_queue(
    pair: EnginePair, case: Case, steps: int = 6, tolerance: float = 1e-4
) -> None:
    """The memory of a loss and its moving average follow the reference's, as losses and metrics show."""
    compare = Comparison("momentum-and-queue", case.id)
    theirs = _train(pair, case, pair.reference, None, steps)
    mine = _train(pair, case, pair.engine, None, steps)
    advice = "keep `LossOutput.state`, and update the average"
    for number, (result, expected) in enumerate(
        zip(mine.results, theirs.results, strict=True), 1
    ):
        values = {"loss": result.loss, **result.metrics}
        expected_values = {"loss": expected.loss, **expected.metrics}
        for name, expected_value in expected_values.items():
            what = f"`{name}` of step {number} differs from the reference's"
            value = values.get(name, math.nan)
            compare.same_number(what, value, expected_value, tolerance, advice)


def check_moving_average(
    pair: EnginePair, case: Case, ema: float = 0.5, tolerance: float = 1e-5
) -> None:
    """`swap_average` exchanges an encoder's weights for their moving average, and a second call restores them.

    The expected average is computed here from the weights of two steps of gradient descent, without reference.
    """
    compare = Comparison("moving-average", case.id)
    encoder = pair.fresh(case, pair.engine)
    trainer = pair.trainer(case, pair.engine, encoder, optimizer=pair.descent, ema=ema)
    expected = pair.weights(encoder)
    for number in range(2):
        trainer.step(batch(case, encoder, number))
        weights = pair.weights(encoder)
        expected = {
            name: ema * value + (1 - ema) * weights[name]
            for name, value in expected.items()
        }

    before = encoder.encode(SENTENCES)
    trainer.swap_average()
    what = "`swap_average` gives other weights than the moving average of two steps"
    weights = pair.weights(encoder)
    compare.same_arrays(what, weights, expected, tolerance, floor=SMALL * SMALL)
    averaged = encoder.encode(SENTENCES)
    trainer.swap_average()
    advice = "encode with the weights of the moment, and exchange, do not copy"
    what = "vectors after a second `swap_average` differ from those before the first"
    compare.same_vectors(what, encoder.encode(SENTENCES), before, tolerance, advice)
    compare.require(
        apart(averaged, before) > tolerance,
        f"`swap_average` changes no vector; {advice}",
    )


def check_clipping(pair: EnginePair, case: Case, tolerance: float = 1e-3) -> None:
    """Gradients are clipped once, to `max_grad_norm` over all parameters; 0 means no clipping.

    Under gradient descent the weights move by the learning rate times the clipped gradient, which needs no
    reference. The loss of `case` has no weights, and none of the encoder's are saved twice.
    """
    compare = Comparison("clipping", case.id)
    shared = pair.shared(case, pair.engine)
    columns = batch(case, shared)
    _, gradients = pair.trainer(case, pair.engine, shared).gradients(columns)
    whole = norm(gradients)
    start = pair.weights(shared)
    for limit, clipped in ((whole / 4, whole / 4), (whole * 4, whole), (0.0, whole)):
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
        what = f"with `max_grad_norm = {limit:.3g}` and a gradient of {whole:.3g} the step's length is off"
        advice = f"weights moved by {moved:.4g}, expected {expected:.4g}; clip once, over all parameters"
        compare.at_most(what, abs(moved / expected - 1), tolerance, advice)


@attrs.frozen
class _Trained:
    """Results of training."""

    encoder: Encoder
    weights: Arrays
    results: list[StepResult]
    """One per step."""
    without_gradient: set[str]
    """Parameters whose gradient is only rounding before and after training; empty but for the reference."""


def _train(
    pair: EnginePair,
    case: Case,
    engine: Engine,
    optimizer: Optimizer | None,
    steps: int,
) -> _Trained:
    encoder = pair.fresh_and_smooth(case, engine)
    # If the engine caches weights for encoding, this fills the cache before the first step.
    encoder.encode(SENTENCES[:1])
    trainer = pair.trainer(case, engine, encoder, optimizer=optimizer, steps=steps)
    tiny: set[str] = set()
    if engine is pair.reference:
        tiny = _without_gradient(trainer, case, encoder)
    results = [trainer.step(batch(case, encoder, number)) for number in range(steps)]
    if tiny:
        tiny &= _without_gradient(trainer, case, encoder)
    return _Trained(encoder, pair.weights(encoder), results, tiny)


def _without_gradient(trainer: Any, case: Case, encoder: Encoder) -> set[str]:
    _, gradients = trainer.gradients(batch(case, encoder))
    tower_gradients: dict[str, NDArray[Any]] = {
        name: value for name, value in gradients.items() if name.startswith(f"{TOWER}.")
    }
    return without_gradient(tower_gradients)
