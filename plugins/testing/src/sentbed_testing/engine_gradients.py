"""Checks of the loss and the gradients that an engine's `Trainer.gradients` returns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs
from sentbed.protocols import Columns, Engine, Optimizer, Trainer

from sentbed_testing.comparisons import Comparison, norm
from sentbed_testing.engine_cases import Case
from sentbed_testing.engine_pair import EnginePair, batch
from sentbed_testing.sentences import SENTENCES

if TYPE_CHECKING:
    from numpy.typing import NDArray

Gradients = tuple[float, Mapping[str, "NDArray[Any]"]]
"""A loss, and the gradient of each parameter by name, as `Trainer.gradients` returns them."""


def check_loss_and_gradients(
    pair: EnginePair,
    case: Case,
    loss: float = 1e-5,
    gradient: float = 1e-4,
) -> None:
    """Loss and gradients of a batch equal the reference's, and computing them changes nothing.

    The tolerance `loss` is relative to the loss, or absolute if the loss is below 1. The tolerance `gradient` is
    relative to the L2 norm of each parameter's gradient, or to a hundredth of the norm over all parameters if
    that is larger: some gradients, such as those of the biases of attention keys, are only rounding errors.
    """
    compare = Comparison("gradients", case.id)
    encoder = pair.shared(case, pair.engine)
    expected = _reference_gradients(pair, case)
    trainer = pair.trainer(case, pair.engine, encoder)
    columns = batch(case, encoder)
    before = encoder.encode(SENTENCES[:4])
    actual = trainer.gradients(columns)
    _compare(compare, actual, expected, loss, gradient, "the reference's")

    repeated = trainer.gradients(columns)
    what = "those of a second call; `gradients` takes no step and leaves the loss's state as it is"
    _compare(compare, repeated, actual, loss, gradient, what)

    after = encoder.encode(SENTENCES[:4])
    advice = (
        "after `gradients`, `encode` is again in eval mode and has the same weights"
    )
    compare.same_vectors("vectors changed", after, before, loss, advice)


def check_uneven_batch(
    pair: EnginePair,
    case: Case,
    loss: float = 1e-5,
    gradient: float = 1e-4,
) -> None:
    """Batches smaller than the first, as at the end of an epoch, have the reference's loss and gradients."""
    compare = Comparison("uneven-batch", case.id)
    encoder = pair.shared(case, pair.engine)
    trainer = pair.trainer(case, pair.engine, encoder)
    trainer.gradients(batch(case, encoder))
    for rows in (5, 3):
        columns = batch(case, encoder, rows=rows)
        expected = _reference_gradients(pair, case, columns)
        what = f"the reference's in a batch of {rows} rows; rows that fill a shape may not count"
        _compare(compare, trainer.gradients(columns), expected, loss, gradient, what)


def check_grad_cache(
    pair: EnginePair,
    case: Case,
    micro_batch: int = 2,
    loss: float = 1e-5,
    gradient: float = 1e-4,
) -> None:
    """With gradient caching (`micro_batch`), an engine gets the loss and gradients of the whole batch."""
    compare = Comparison("grad-cache", case.id)
    encoder = pair.shared(case, pair.engine)
    for rows in (6, 5):
        columns = batch(case, encoder, rows=rows)
        whole = pair.trainer(case, pair.engine, encoder).gradients(columns)
        trainer = pair.trainer(case, pair.engine, encoder, micro_batch=micro_batch)
        what = f"the whole batch's, with `micro_batch = {micro_batch}` and {rows} rows; see Gao et al., 2021"
        _compare(compare, trainer.gradients(columns), whole, loss, gradient, what)


def check_derivative(
    pair: EnginePair,
    case: Case,
    micro_batch: int | None = None,
    tolerance: float = 0.03,
) -> None:
    """A small step against the gradient lowers the loss as much as the gradient predicts, also under dropout.

    The step is `r` times the gradient `g`. Then the loss of the same batch is computed again with the same seed.
    The quotient `(before - after) / (r |g|^2)` must be close to 1. The quotient is another if the backward pass
    has other dropout masks than the forward pass, for example if gradient caching does not restore the states of
    the random generators.
    """
    compare = Comparison("derivative", case.id)
    encoder = pair.fresh(case, pair.engine)
    columns = batch(case, encoder)

    def trainer(optimizer: Optimizer) -> Trainer:
        return pair.trainer(
            case,
            pair.engine,
            encoder,
            optimizer=optimizer,
            max_grad_norm=0.0,
            micro_batch=micro_batch,
        )

    before, gradients = trainer(pair.descent).gradients(columns)
    squared = norm(gradients) ** 2
    # So small that the loss changes linearly, and so large that the change exceeds rounding.
    rate = 3e-4 * abs(before) / squared
    descent: Any = pair.descent
    small = attrs.evolve(descent, lr=descent.lr * rate / pair.descent_rate)
    trainer(small).step(columns)
    after, _ = trainer(pair.descent).gradients(columns)
    compare.at_most(
        "the loss and its gradient disagree",
        abs((before - after) / (rate * squared) - 1),
        tolerance,
        "dropout differs between the loss and its gradient, or each pass of a batch draws new masks",
    )


def check_frozen_columns(
    pair: EnginePair,
    case: Case,
    loss: float = 1e-5,
    gradient: float = 1e-4,
) -> None:
    """A column may hold fp32 vectors, as a frozen encoder returns them. They enter the loss unchanged."""
    compare = Comparison("frozen-columns", case.id)
    case = attrs.evolve(case, fixed=frozenset({"positive"}))
    encoder = pair.shared(case, pair.engine)
    columns = batch(case, encoder)
    expected = _reference_gradients(pair, case, columns)
    actual = pair.trainer(case, pair.engine, encoder).gradients(columns)
    what = "the reference's if `positive` holds vectors"
    _compare(compare, actual, expected, loss, gradient, what)


def check_towers(
    pair: EnginePair,
    case: Case,
    loss: float = 1e-5,
    gradient: float = 1e-4,
) -> None:
    """If two encoders are trained together, each has the gradient of the columns that it encodes."""
    first, *others = case.texts
    towers = {first: "left", **dict.fromkeys(others, "right")}

    def gradients(engine: Engine) -> Gradients:
        encoders = {
            "left": pair.shared(case, engine),
            "right": pair.fresh(case, engine),
        }
        trainer = pair.trainer(case, engine, encoders, towers=towers)
        return trainer.gradients(batch(case, encoders["left"]))

    actual, expected = gradients(pair.engine), gradients(pair.reference)
    what = f"the reference's if `{first}` has its own encoder"
    _compare(Comparison("towers", case.id), actual, expected, loss, gradient, what)


def _reference_gradients(
    pair: EnginePair,
    case: Case,
    columns: Columns | None = None,
) -> Gradients:
    """Return the reference engine's gradients of some columns, by default of the first batch."""
    encoder = pair.shared(case, pair.reference)
    return pair.trainer(case, pair.reference, encoder).gradients(
        columns or batch(case, encoder)
    )


def _compare(
    compare: Comparison,
    actual: Gradients,
    expected: Gradients,
    loss: float,
    gradient: float,
    what: str,
) -> None:
    """Compare losses and gradients. `what` completes the message `the loss is not ...`."""
    actual_loss, gradients = actual
    expected_loss, expected_gradients = expected
    unmatched = sorted(gradients.keys() ^ expected_gradients.keys())
    compare.require(
        not unmatched,
        f"the gradients are not {what}: {unmatched[:3]} are only in one of the two; name parameters "
        "`ENCODER.NAME` and `loss.NAME`, as the torch modules do",
    )
    advice = ""
    if any(name.startswith("loss.") for name in gradients):
        advice = (
            "if the vectors agree, the weights of the loss may differ: build its module with torch, before "
            "anything else is drawn after `seed`"
        )

    what_differs = f"the loss is not {what}: it differs"
    compare.same_number(what_differs, actual_loss, expected_loss, loss, advice)
    what_differs = f"the gradients are not {what}: they differ"
    compare.same_arrays(what_differs, gradients, expected_gradients, gradient)
