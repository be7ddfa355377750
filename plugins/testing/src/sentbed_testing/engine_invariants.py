"""Checks of an engine's random numbers, states and bad batches, which need no reference."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

import attrs
from sentbed import Encoder
from sentbed.errors import ModelError
from sentbed.protocols import Head, Optimizer, Trainer

from sentbed_testing.comparisons import Arrays, Comparison
from sentbed_testing.engine_cases import Case
from sentbed_testing.engine_pair import SEED, EnginePair, batch
from sentbed_testing.rules_runtime import description_faults
from sentbed_testing.sentences import SENTENCES

STILL = 1e-12
"""Learning rate too small to change an fp32 weight."""


def check_state(
    pair: EnginePair,
    case: Case,
    optimizer: Optimizer | None = None,
    steps: int = 3,
    tolerance: float = 0.0,
) -> None:
    """A trainer that resumes from a saved state takes the same steps as an uninterrupted one.

    Losses and weights agree to the bit, or to `tolerance` if the device sums in no fixed order. Another seed
    is set before the state is loaded, so that with dropout in `case` the state of the generators matters. The
    state of another encoder is refused with `ModelError`.
    """
    compare = Comparison(f"state of {(optimizer or pair.optimizer).name}", case.id)
    options: Any = {"optimizer": optimizer, "ema": 0.5}
    encoder = pair.fresh(case, pair.engine)
    trainer = pair.trainer(case, pair.engine, encoder, steps=2 * steps, **options)
    _steps(trainer, case, encoder, range(steps))
    state = Path(tempfile.mkdtemp(dir=pair.directory))
    trainer.save(state)
    losses = _steps(trainer, case, encoder, range(steps, 2 * steps))
    weights = _with_average(pair, encoder, trainer)

    later = pair.fresh(case, pair.engine)
    trainer = pair.trainer(
        case, pair.engine, later, seed=SEED + 1, steps=2 * steps, **options
    )
    trainer.load(state)
    again = _steps(trainer, case, later, range(steps, 2 * steps))
    advice = (
        "save and load weights, optimiser, loss, its state, averages, the number of steps and the "
        "generators"
    )
    for number, (loss, expected) in enumerate(zip(again, losses, strict=True), 1):
        what = f"{number} steps after `load` the loss differs"
        compare.same_number(what, loss, expected, tolerance, advice)
    what = "weights differ after going on"
    compare.same_arrays(what, _with_average(pair, later, trainer), weights, tolerance)

    # Wider than the encoder, for a loss that reads so many components.
    other = attrs.evolve(case, head=Head(projection=1 + encoder.width))
    trainer = pair.trainer(
        other, pair.engine, pair.fresh(other, pair.engine), **options
    )
    try:
        trainer.load(state)
    except ModelError:
        return
    message = "the state of another encoder was loaded; raise `ModelError`"
    compare.require(False, message)


def _with_average(pair: EnginePair, encoder: Encoder, trainer: Trainer) -> Arrays:
    """Return an encoder's weights and their moving average."""
    weights = dict(pair.weights(encoder))
    trainer.swap_average()
    for name, value in pair.weights(encoder).items():
        weights[f"average of {name}"] = value
    return weights


def check_dropout_advances(pair: EnginePair, case: Case, seeds: bool = True) -> None:
    """Dropout masks change with every step, repeat with the same seed, and are not applied in `encode`.

    `case` has dropout, and a loss without memory. Without `seeds`, only the change from step to step is
    tested: one compilation in place of four.
    """
    compare = Comparison("dropout", case.id)
    encoder = pair.fresh(case, pair.engine)
    columns = batch(case, encoder)
    before = encoder.encode(SENTENCES[:4])
    optimizer: Any = pair.optimizer
    still = attrs.evolve(optimizer, lr=STILL)
    trainer = pair.trainer(case, pair.engine, encoder, optimizer=still)
    first, second = (trainer.step(columns).loss for _ in range(2))
    compare.require(
        first != second,
        f"the loss of two steps of rate {STILL} is {first!r}: there is no dropout, or it is always the "
        "same; draw anew in every step, also in a compiled one",
    )
    after = encoder.encode(SENTENCES[:4])
    what = "vectors of the same texts changed"
    advice = "encode in eval mode, also after training"
    compare.same_vectors(what, after, before, 1e-6, advice)
    if not seeds:
        return

    def losses(seed: int) -> list[float]:
        trainer = pair.trainer(case, pair.engine, encoder, seed=seed)
        return [trainer.gradients(columns)[0] for _ in range(2)]

    drawn = losses(SEED)
    compare.require(
        drawn[0] != drawn[1],
        f"`gradients` gave the loss {drawn[0]!r} twice: it always drops the same; draw as `step` does",
    )
    repeated = losses(SEED)
    compare.require(
        repeated == drawn,
        f"the same seed gave the losses {drawn} and {repeated}; seed every generator",
    )
    compare.require(
        losses(SEED + 1)[0] != drawn[0],
        "another seed gave the same loss; use the seed",
    )


def check_not_finite(pair: EnginePair, case: Case, tolerance: float = 1e-6) -> None:
    """A step whose loss is not finite is reported, and changes neither weights nor state.

    `case` has a loss with the columns `anchor` and `positive`; `positive` is given as vectors, one infinite.
    """
    compare = Comparison("not-finite", case.id)
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
    is_reported = not math.isfinite(result.loss) or not math.isfinite(result.grad_norm)
    compare.require(
        is_reported,
        f"a vector was infinite, and the step says loss {result.loss} and norm {result.grad_norm}; "
        "return what was computed",
    )
    what = "a step whose loss is not finite changed weights"
    compare.same_arrays(what, pair.weights(encoder), weights, 0.0, "take no step then")
    after, again = trainer.gradients(probe)
    what = "a step whose loss is not finite changed the loss's state: the next loss differs"
    advice = "keep the state of the step before"
    compare.same_number(what, after, before, tolerance, advice)
    what = "the next gradient differs"
    compare.same_arrays(what, again, gradients, 100 * tolerance)

    # The next step has the weights of a trainer that never saw the bad batch.
    other = pair.fresh(case, pair.engine)
    clean = pair.trainer(case, pair.engine, other)
    _steps(clean, case, other, range(2))
    trainer.step(probe)
    compare.same_arrays(
        "the next step took weights elsewhere",
        pair.weights(encoder),
        pair.weights(other),
        tolerance,
        "keep the optimiser's state of the step before",
    )


def check_counters_and_describe(pair: EnginePair) -> None:
    """`describe()` and `counters()` return values that a manifest can hold."""
    faults = [f"{what}; {fix}" for what, fix in description_faults(pair.engine)]
    Comparison("describe", "engine").require(not faults, "; ".join(faults))


def _steps(
    trainer: Trainer, case: Case, encoder: Encoder, numbers: range
) -> list[float]:
    return [trainer.step(batch(case, encoder, number)).loss for number in numbers]
