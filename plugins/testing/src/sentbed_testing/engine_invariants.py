"""Checks of an engine's random numbers, saving and resuming, which need no reference."""

from __future__ import annotations

import json
import math
import tempfile
from pathlib import Path
from typing import Any

import attrs
from sentbed import Encoder
from sentbed.errors import ModelError
from sentbed.protocols import Head, Optimizer, Trainer

from sentbed_testing.comparisons import Arrays, apart, at_most, farthest, holds
from sentbed_testing.engine_cases import Case
from sentbed_testing.engine_pair import SEED, EnginePair, batch
from sentbed_testing.sentences import SENTENCES

STILL = 1e-12
"""Learning rate that changes no float32 weight."""


def check_state(
    pair: EnginePair,
    case: Case,
    optimizer: Optimizer | None = None,
    steps: int = 3,
    tolerance: float = 0.0,
) -> None:
    """A trainer that went on from a saved state takes the steps that the uninterrupted one took.

    Losses and weights agree to the bit, or to `tolerance` where the device's sums have no order. Another seed
    is set before the state is loaded: with dropout in `case`, the generators' state counts. A state that does
    not fit the trainer is refused with `ModelError`.
    """
    rule = f"state of {(optimizer or pair.optimizer).name}"
    encoder = pair.fresh(case, pair.engine)
    trainer = pair.trainer(
        case, pair.engine, encoder, optimizer=optimizer, ema=0.5, steps=2 * steps
    )
    _steps(trainer, case, encoder, range(steps))
    state = Path(tempfile.mkdtemp(dir=pair.directory))
    trainer.save(state)
    losses = _steps(trainer, case, encoder, range(steps, 2 * steps))
    weights = _with_average(pair, encoder, trainer)

    later = pair.fresh(case, pair.engine)
    trainer = pair.trainer(
        case,
        pair.engine,
        later,
        optimizer=optimizer,
        seed=SEED + 1,
        ema=0.5,
        steps=2 * steps,
    )
    trainer.load(state)
    again = _steps(trainer, case, later, range(steps, 2 * steps))
    for number, (loss, expected) in enumerate(zip(again, losses, strict=True), 1):
        then = (
            f"found {loss!r}, expected {expected!r}; save and load weights, optimiser, loss, its state, "
            "averages, the number of steps and the generators"
        )
        difference = abs(loss - expected) / max(1.0, abs(expected))
        at_most(
            rule,
            case.id,
            f"{number} steps after `load` the loss differs",
            difference,
            tolerance,
            then,
        )
    worst, where = farthest(_with_average(pair, later, trainer), weights, 1e-2)
    at_most(
        rule,
        case.id,
        "weights differ after going on",
        worst,
        tolerance,
        f"the farthest is `{where}`",
    )

    # Wider than the encoder, for a loss that reads so many components.
    other = attrs.evolve(case, head=Head(projection=1 + encoder.width))
    trainer = pair.trainer(
        other, pair.engine, pair.fresh(other, pair.engine), optimizer=optimizer, ema=0.5
    )
    try:
        trainer.load(state)
    except ModelError:
        return
    holds(
        rule,
        case.id,
        False,
        "the state of another encoder was loaded; raise `ModelError`",
    )


def _with_average(pair: EnginePair, encoder: Encoder, trainer: Trainer) -> Arrays:
    """Return an encoder's weights and their moving average."""
    weights = dict(pair.weights(encoder))
    trainer.swap_average()
    weights.update(
        {f"average of {name}": value for name, value in pair.weights(encoder).items()}
    )
    return weights


def check_dropout_advances(pair: EnginePair, case: Case, seeds: bool = True) -> None:
    """Dropout is another with every batch and every step, the same from the same seed, and none in `encode`.

    `case` has dropout, and a loss without memory. Without `seeds` only steps are tried: one compilation, not
    four.
    """
    rule = "dropout"
    encoder = pair.fresh(case, pair.engine)
    columns = batch(case, encoder)
    before = encoder.encode(SENTENCES[:4])
    optimizer: Any = pair.optimizer
    still = attrs.evolve(optimizer, lr=STILL)
    trainer = pair.trainer(case, pair.engine, encoder, optimizer=still)
    first_loss, second_loss = (trainer.step(columns).loss for _ in range(2))
    message = (
        f"the loss of two steps of rate {STILL} is {first_loss!r}: there is no dropout, or it is always the "
        "same"
    )
    holds(
        rule,
        case.id,
        first_loss != second_loss,
        f"{message}; draw anew in every step, also in a compiled one",
    )
    unchanged = apart(encoder.encode(SENTENCES[:4]), before)
    then = "encode in eval mode, also after training"
    at_most(rule, case.id, "vectors of the same texts changed", unchanged, 1e-6, then)
    if not seeds:
        return

    def losses(seed: int) -> list[float]:
        trainer = pair.trainer(case, pair.engine, encoder, seed=seed)
        return [trainer.gradients(columns)[0] for _ in range(2)]

    first, second = losses(SEED)
    message = f"`gradients` gave the loss {first!r} twice: it always drops the same; draw as `step` does"
    holds(rule, case.id, first != second, message)
    repeated = losses(SEED)
    message = f"the same seed gave the losses {[first, second]} and {repeated}; seed every generator"
    holds(rule, case.id, repeated == [first, second], message)
    holds(
        rule,
        case.id,
        losses(SEED + 1)[0] != first,
        "another seed gave the same loss; use the seed",
    )


def check_not_finite(pair: EnginePair, case: Case, tolerance: float = 1e-6) -> None:
    """A step whose loss is not finite is told, and changes neither weights nor state.

    `case` has a loss with the columns `anchor` and `positive`; the latter is given as vectors, one infinite.
    """
    rule = "not-finite"
    case = attrs.evolve(case, fixed=frozenset({"positive"}))
    encoder = pair.fresh(case, pair.engine)
    trainer = pair.trainer(case, pair.engine, encoder)
    trainer.step(batch(case, encoder))
    weights, probe = pair.weights(encoder), batch(case, encoder, 1)
    before, gradients = trainer.gradients(probe)
    bad: dict[str, Any] = dict(batch(case, encoder, 2))
    bad["positive"] = bad["positive"].copy()
    bad["positive"][0, 0] = math.inf
    result = trainer.step(bad)
    reported = not (math.isfinite(result.loss) and math.isfinite(result.grad_norm))
    message = f"a vector was infinite, and the step says loss {result.loss} and norm {result.grad_norm}"
    holds(rule, case.id, reported, f"{message}; return what was computed")
    worst, where = farthest(pair.weights(encoder), weights, 1e-2)
    what = "a step whose loss is not finite changed weights"
    at_most(
        rule, case.id, what, worst, 0.0, f"the farthest is `{where}`; take no step then"
    )
    after, again = trainer.gradients(probe)
    difference = abs(after - before) / max(1.0, abs(before))
    then = f"found {after!r}, expected {before!r}; keep the state of the step before"
    what = "a step whose loss is not finite changed the loss's state: the next loss differs"
    at_most(rule, case.id, what, difference, tolerance, then)
    worst, where = farthest(again, gradients, 1e-2)
    at_most(
        rule,
        case.id,
        "the next gradient differs",
        worst,
        100 * tolerance,
        f"the farthest is `{where}`",
    )
    _check_moments(rule, pair, case, trainer, encoder, tolerance)


def check_counters_and_describe(pair: EnginePair) -> None:
    """The engine says what it is and what it has used, in values that a manifest can hold."""
    rule, engine = "describe", pair.engine
    description = dict(engine.describe())
    precision = description.get("precision")
    has_precision = isinstance(precision, str)
    holds(
        rule,
        "engine",
        has_precision,
        f"`describe()` has the precision {precision!r}, expected its name: `fp32`",
    )
    try:
        json.dumps(description)
    except (TypeError, ValueError) as error:
        holds(
            rule,
            "engine",
            False,
            f"`describe()` is not for JSON: {error}; use strings and numbers",
        )
    counters = dict(engine.counters())
    wrong = {
        name: value
        for name, value in counters.items()
        if not isinstance(value, int | float) or not math.isfinite(value) or value < 0
    }
    holds(
        rule,
        "engine",
        not wrong,
        f"`counters()` has {wrong}, expected finite numbers from 0",
    )
    budget = engine.token_budget
    message = f"`token_budget` is {budget!r}, expected a number of tokens, 1 or more"
    holds(rule, "engine", isinstance(budget, int) and budget >= 1, message)


def _check_moments(
    rule: str,
    pair: EnginePair,
    case: Case,
    trainer: Trainer,
    encoder: Encoder,
    tolerance: float,
) -> None:
    """Compare the next step's weights with those of a trainer that never saw the bad batch."""
    other = pair.fresh(case, pair.engine)
    clean = pair.trainer(case, pair.engine, other)
    clean.step(batch(case, other))
    clean.step(batch(case, other, 1))
    trainer.step(batch(case, encoder, 1))
    worst, where = farthest(pair.weights(encoder), pair.weights(other), 1e-2)
    then = f"the farthest is `{where}`; keep the optimiser's state of the step before"
    at_most(
        rule, case.id, "the next step took weights elsewhere", worst, tolerance, then
    )


def _steps(
    trainer: Trainer, case: Case, encoder: Encoder, numbers: range
) -> list[float]:
    return [trainer.step(batch(case, encoder, number)).loss for number in numbers]
