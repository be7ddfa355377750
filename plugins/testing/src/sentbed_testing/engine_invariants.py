"""Checks of an engine that need no reference: saved states, dropout, infinite losses, descriptions."""

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
"""Learning rate that is too small to change a vector."""


def check_state(
    pair: EnginePair,
    case: Case,
    optimizer: Optimizer | None = None,
    steps: int = 3,
    tolerance: float = 0.0,
) -> None:
    """A trainer that resumes from a saved state takes the same steps as an uninterrupted trainer.

    Losses and weights are equal to the bit, or to `tolerance` for a device that sums in no fixed order. The
    resumed trainer starts with another seed, so that under dropout it must load the states of the random
    generators. Loading the state of another encoder must raise `ModelError`.
    """
    compare = Comparison(f"state of {(optimizer or pair.optimizer).name}", case.id)
    options: Any = {"optimizer": optimizer, "ema": 0.5, "steps": 2 * steps}
    encoder = pair.fresh(case, pair.engine)
    trainer = pair.trainer(case, pair.engine, encoder, **options)
    _take_steps(trainer, case, encoder, range(steps))
    state = Path(tempfile.mkdtemp(dir=pair.directory))
    trainer.save(state)
    losses = _take_steps(trainer, case, encoder, range(steps, 2 * steps))
    weights = _with_average(pair, encoder, trainer)

    resumed_encoder = pair.fresh(case, pair.engine)
    resumed = pair.trainer(case, pair.engine, resumed_encoder, seed=SEED + 1, **options)
    resumed.load(state)
    resumed_losses = _take_steps(
        resumed, case, resumed_encoder, range(steps, 2 * steps)
    )
    advice = (
        "save and load weights, optimiser, loss, its state, averages, the number of steps and the "
        "generators"
    )
    for number, (loss, expected) in enumerate(
        zip(resumed_losses, losses, strict=True), 1
    ):
        what = f"{number} steps after `load` the loss differs"
        compare.same_number(what, loss, expected, tolerance, advice)

    resumed_weights = _with_average(pair, resumed_encoder, resumed)
    what = "the weights of the resumed training differ"
    compare.same_arrays(what, resumed_weights, weights, tolerance)

    # It is wider than the encoder, since the loss may read as many dimensions as the encoder has.
    other = attrs.evolve(case, head=Head(projection=1 + encoder.width))
    other_encoder = pair.fresh(other, pair.engine)
    other_trainer = pair.trainer(other, pair.engine, other_encoder, **options)
    try:
        other_trainer.load(state)
    except ModelError:
        return
    message = "the state of another encoder was loaded; raise `ModelError`"
    compare.require(False, message)


def _with_average(
    pair: EnginePair,
    encoder: Encoder,
    trainer: Trainer,
) -> Arrays:
    """Return an encoder's weights and their moving averages. Afterwards, the encoder holds the averages."""
    weights = dict(pair.weights(encoder))
    trainer.swap_average()
    for name, value in pair.weights(encoder).items():
        weights[f"average of {name}"] = value
    return weights


def check_dropout_advances(
    pair: EnginePair,
    case: Case,
    seeds: bool = True,
) -> None:
    """Dropout masks change with every step, repeat with the same seed, and are not applied in `encode`.

    `case` has dropout, and a loss without memory. If `seeds` is False, the masks of equal and of other seeds are
    not checked. An engine that compiles its steps then compiles one step instead of four.
    """
    compare = Comparison("dropout", case.id)
    encoder = pair.fresh(case, pair.engine)
    columns = batch(case, encoder)
    before = encoder.encode(SENTENCES[:4])
    optimizer: Any = pair.optimizer
    still = attrs.evolve(optimizer, lr=STILL)
    trainer = pair.trainer(case, pair.engine, encoder, optimizer=still)
    first = trainer.step(columns).loss
    second = trainer.step(columns).loss
    compare.require(
        first != second,
        f"two steps with learning rate {STILL} have the same loss {first!r}: there is no dropout, or its mask "
        "is always the same; draw a new mask in every step, also if the step is compiled",
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

    losses_of_seed = losses(SEED)
    compare.require(
        losses_of_seed[0] != losses_of_seed[1],
        f"`gradients` gave the loss {losses_of_seed[0]!r} twice: its dropout mask is always the same; draw a new "
        "mask as `step` does",
    )
    repeated = losses(SEED)
    compare.require(
        repeated == losses_of_seed,
        f"the same seed gave the losses {losses_of_seed} and {repeated}; seed every generator",
    )
    compare.require(
        losses(SEED + 1)[0] != losses_of_seed[0],
        "another seed gave the same loss; use the seed",
    )


def check_not_finite(
    pair: EnginePair,
    case: Case,
    tolerance: float = 1e-6,
) -> None:
    """A step with an infinite loss reports it, and changes neither the weights nor any state.

    The loss of `case` has the columns `anchor` and `positive`. The column `positive` holds vectors, one of which
    is infinite.
    """
    compare = Comparison("not-finite", case.id)
    case = attrs.evolve(case, fixed=frozenset({"positive"}))
    encoder = pair.fresh(case, pair.engine)
    trainer = pair.trainer(case, pair.engine, encoder)
    trainer.step(batch(case, encoder))
    weights = pair.weights(encoder)
    next_batch = batch(case, encoder, 1)
    loss_before, gradients_before = trainer.gradients(next_batch)

    bad: dict[str, Any] = dict(batch(case, encoder, 2))
    bad["positive"] = bad["positive"].copy()
    bad["positive"][0, 0] = math.inf
    result = trainer.step(bad)
    is_reported = not math.isfinite(result.loss) or not math.isfinite(result.grad_norm)
    compare.require(
        is_reported,
        f"a vector was infinite, but the step returned the loss {result.loss} and the norm {result.grad_norm}; "
        "return the values that were computed",
    )
    what = "a step whose loss is not finite changed weights"
    compare.same_arrays(what, pair.weights(encoder), weights, 0.0, "take no step then")

    loss_after, gradients_after = trainer.gradients(next_batch)
    what = "a step whose loss is not finite changed the loss's state: the next loss differs"
    advice = "keep the state of the step before"
    compare.same_number(what, loss_after, loss_before, tolerance, advice)
    what = "the next gradients differ"
    compare.same_arrays(what, gradients_after, gradients_before, 100 * tolerance)

    # After the next step, the weights equal those of a trainer that never got the bad batch.
    clean_encoder = pair.fresh(case, pair.engine)
    clean = pair.trainer(case, pair.engine, clean_encoder)
    _take_steps(clean, case, clean_encoder, range(2))
    trainer.step(next_batch)
    compare.same_arrays(
        "the next step leads to other weights than without the bad batch",
        pair.weights(encoder),
        pair.weights(clean_encoder),
        tolerance,
        "keep the optimiser's state of the step before",
    )


def check_counters_and_describe(pair: EnginePair) -> None:
    """The engine's `describe()` and `counters()` return values that the manifest of a run can hold."""
    faults = [f"{what}; {fix}" for what, fix in description_faults(pair.engine)]
    Comparison("describe", "engine").require(not faults, "; ".join(faults))


def _take_steps(
    trainer: Trainer,
    case: Case,
    encoder: Encoder,
    numbers: range,
) -> list[float]:
    """Take the steps of these numbers and return their losses."""
    return [trainer.step(batch(case, encoder, number)).loss for number in numbers]
