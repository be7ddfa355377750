"""Checks of an engine's optimiser steps against the reference."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from sentbed import Encoder
from sentbed.protocols import Engine, Optimizer, StepResult

from sentbed_testing.comparisons import (
    Arrays,
    apart,
    at_most,
    differences,
    farthest,
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
"""A tensor whose norm is below this share of all weights' is measured by that share: biases start at zero."""


def check_steps(
    pair: EnginePair,
    case: Case,
    optimizer: Optimizer | None = None,
    steps: int = 10,
    tolerance: float = 1e-4,
    movement: float = 1e-3,
) -> None:
    """After `steps` steps the weights are the reference's, and so was each step's loss, norm and rate.

    Weights are compared by tensor in L2, relative to the tensor, to `tolerance`; and all together, relative
    to the way that training moved them, to `movement`: where steps are small, weights would agree even if
    nothing had been learned. Both optimisers divide a gradient by its own size, and of a gradient that is
    nothing but rounding (`measures.NOTHING` of the whole one, on the reference, before and after) they make
    steps of full length in a random direction. Such tensors change no vector, and are left out of both. The
    encoder has no ReLU; see `EnginePair.fresh_and_smooth`.
    """
    rule = f"steps of {(optimizer or pair.optimizer).name}"
    start = pair.weights(pair.fresh_and_smooth(case, pair.reference))
    _, theirs, expected, tiny = _train(pair, case, pair.reference, optimizer, steps)
    encoder, mine, results, _ = _train(pair, case, pair.engine, optimizer, steps)
    for number, (result, expected_result) in enumerate(
        zip(results, expected, strict=True), 1
    ):
        for what in ("loss", "grad_norm", "learning_rate"):
            value, expected_value = (
                getattr(result, what),
                getattr(expected_result, what),
            )
            least = (
                expected_value
                if what == "learning_rate"
                else max(1.0, abs(expected_value))
            )
            # A norm is not what is minimised: it follows rounding in the weights ten times as closely.
            bound = tolerance * (10 if what == "grad_norm" else 1)
            then = f"found {value!r}, expected {expected_value!r}"
            difference = abs(value - expected_value) / least
            at_most(
                rule,
                case.id,
                f"`{what}` of step {number} differs from the reference's",
                difference,
                bound,
                then,
            )
    mine, theirs = without(mine, tiny), without(theirs, tiny)
    worst, where = farthest(mine, theirs, SMALL * SMALL)
    what = f"after {steps} steps weights differ from the reference's"
    at_most(rule, case.id, what, worst, tolerance, f"the farthest is `{where}`")
    moved = norm(differences(start, theirs))
    share = norm(differences(mine, theirs)) / moved if moved else math.inf
    then = "compare the optimiser's fields, its clipping, its decay and the schedule"
    what = f"in {steps} steps weights went elsewhere than the reference's"
    at_most(rule, case.id, what, share, movement, then)
    _check_fresh(rule, pair, case, encoder)


def check_momentum_and_queue(
    pair: EnginePair, case: Case, steps: int = 6, tolerance: float = 1e-4
) -> None:
    """The memory of a loss and its moving average go on as the reference's: so do losses and metrics."""
    *_, expected, _ = _train(pair, case, pair.reference, None, steps)
    *_, results, _ = _train(pair, case, pair.engine, None, steps)
    for number, (result, expected_result) in enumerate(
        zip(results, expected, strict=True), 1
    ):
        values = {"loss": (result.loss, expected_result.loss)}
        values |= {
            name: (result.metrics.get(name, math.nan), value)
            for name, value in expected_result.metrics.items()
        }
        for name, (value, expected_value) in values.items():
            then = f"found {value!r}, expected {expected_value!r}"
            then += "; keep `LossOutput.state`, and update the average"
            difference = abs(value - expected_value) / max(1.0, abs(expected_value))
            what = f"`{name}` of step {number} differs from the reference's"
            at_most("momentum-and-queue", case.id, what, difference, tolerance, then)


def check_moving_average(
    pair: EnginePair, case: Case, ema: float = 0.5, tolerance: float = 1e-5
) -> None:
    """`swap_average` gives the encoder the average of its weights after each step, and gives them back.

    The average is computed here from the weights of two steps of plain descent, which needs no reference.
    """
    encoder = pair.fresh(case, pair.engine)
    trainer = pair.trainer(case, pair.engine, encoder, optimizer=pair.descent, ema=ema)
    expected = pair.weights(encoder)
    for number in range(2):
        trainer.step(batch(case, encoder, number))
        now = pair.weights(encoder)
        expected = {
            name: ema * value + (1 - ema) * now[name]
            for name, value in expected.items()
        }
    before = encoder.encode(SENTENCES)
    trainer.swap_average()
    worst, where = farthest(pair.weights(encoder), expected, SMALL * SMALL)
    what = "`swap_average` gives other weights than the moving average of two steps"
    at_most(
        "moving-average", case.id, what, worst, tolerance, f"the farthest is `{where}`"
    )
    averaged = encoder.encode(SENTENCES)
    trainer.swap_average()
    then = "encode with the weights of the moment, and exchange, do not copy"
    what = "vectors after a second `swap_average` differ from those before the first"
    at_most(
        "moving-average",
        case.id,
        what,
        apart(encoder.encode(SENTENCES), before),
        tolerance,
        then,
    )
    if apart(averaged, before) <= tolerance:
        at_most(
            "moving-average",
            case.id,
            "`swap_average` changes no vector",
            1.0,
            tolerance,
            then,
        )


def check_clipping(pair: EnginePair, case: Case, tolerance: float = 1e-3) -> None:
    """Gradients are clipped once, to `max_grad_norm` over all parameters; 0 leaves them as they are.

    Under plain descent the weights move by the rate times the clipped gradient, which needs no reference. The
    loss of `case` has no weights of its own, and none of the encoder's are saved twice.
    """
    shared = pair.shared(case, pair.engine)
    columns = batch(case, shared)
    _, gradients = pair.trainer(case, pair.engine, shared).gradients(columns)
    whole = norm(gradients)
    start = pair.weights(shared)
    for limit in (whole / 4, whole * 4, 0.0):
        encoder = pair.fresh(case, pair.engine)
        trainer = pair.trainer(
            case, pair.engine, encoder, optimizer=pair.descent, max_grad_norm=limit
        )
        result = trainer.step(columns)
        then = (
            f"found {result.grad_norm!r}, expected {whole!r}: the norm before clipping"
        )
        at_most(
            "clipping",
            case.id,
            "`grad_norm` differs",
            abs(result.grad_norm / whole - 1),
            tolerance,
            then,
        )
        expected = pair.descent_rate * (min(whole, limit) if limit else whole)
        moved = norm(differences(pair.weights(encoder), start))
        what = f"with `max_grad_norm = {limit:.3g}` and a gradient of {whole:.3g} the step's length is off"
        then = f"weights moved by {moved:.4g}, expected {expected:.4g}; clip once, over all parameters"
        at_most("clipping", case.id, what, abs(moved / expected - 1), tolerance, then)


def _train(
    pair: EnginePair,
    case: Case,
    engine: Engine,
    optimizer: Optimizer | None,
    steps: int,
) -> tuple[Encoder, Arrays, list[StepResult], set[str]]:
    """Return the trained encoder, its weights, what each step did, and what has no gradient."""
    encoder = pair.fresh_and_smooth(case, engine)
    # What an engine keeps for encoding would be of before the first step.
    encoder.encode(SENTENCES[:1])
    trainer = pair.trainer(case, engine, encoder, optimizer=optimizer, steps=steps)
    tiny = (
        _without_gradient(trainer, case, encoder) if engine is pair.reference else set()
    )
    results = [trainer.step(batch(case, encoder, number)) for number in range(steps)]
    tiny &= _without_gradient(trainer, case, encoder) if tiny else set()
    return encoder, pair.weights(encoder), results, tiny


def _without_gradient(trainer: Any, case: Case, encoder: Encoder) -> set[str]:
    _, gradients = trainer.gradients(batch(case, encoder))
    tower_gradients: dict[str, NDArray[Any]] = {
        name: value for name, value in gradients.items() if name.startswith(f"{TOWER}.")
    }
    return without_gradient(tower_gradients)


def _check_fresh(rule: str, pair: EnginePair, case: Case, encoder: Encoder) -> None:
    """Compare the vectors of a trained encoder with those of its saved weights."""
    path = pair.directory / "trained"
    encoder.save(path)
    again = Encoder.build(case.recipe, pair.engine, saved=path)
    texts = SENTENCES[:8]
    difference = apart(encoder.encode(texts), again.encode(texts))
    then = "drop what `encode` keeps of the weights with every step"
    at_most(
        rule,
        case.id,
        "after training, `encode` differs from the saved weights",
        difference,
        1e-5,
        then,
    )
