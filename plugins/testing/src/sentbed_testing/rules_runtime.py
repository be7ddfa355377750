"""Rules of a runtime: the engine that it builds."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

from sentbed.errors import RuntimeUnavailableError
from sentbed.protocols import Engine, TrainingEngine

from sentbed_testing.component_under_test import NotRunError, Subject

if TYPE_CHECKING:
    from sentbed_testing.conformance import Findings

METHODS = ("describe", "counters", "seed", "assemble")
"""Methods that every engine has, also an engine that only encodes."""


def engine(subject: Subject) -> Findings:
    """It builds an engine that has all required methods and describes itself."""
    try:
        built = subject.ready.build()
    except RuntimeUnavailableError as error:
        raise NotRunError(str(error)) from error

    if not isinstance(built, Engine):
        yield (
            f"it builds {type(built).__name__}, which is no `Engine`",
            "inherit from `sentbed.protocols.Engine`",
        )
        return

    for name in METHODS:
        if getattr(type(built), name) is getattr(Engine, name):
            yield f"the engine has no method `{name}`", "see `docs/engines.md`"
            return

    trainer = getattr(type(built), "trainer", None)
    only_encodes = trainer is None or trainer is TrainingEngine.trainer
    if only_encodes and subject.ready.untrainable is None:
        yield (
            "the engine has no method `trainer`, and the runtime is not `untrainable`",
            "write `trainer`, or say in `untrainable` why the engine only encodes",
        )
        return

    yield from description_faults(built)


def description_faults(engine: Engine) -> Findings:
    """Yield what is wrong with an engine's `token_budget`, `describe()` or `counters()`."""
    budget = engine.token_budget
    if not isinstance(budget, int) or budget < 1:
        yield (
            f"`token_budget` is {budget!r}",
            "give the number of tokens that a batch may have when encoding, at least 1",
        )

    description = dict(engine.describe())
    precision = description.get("precision")
    if not isinstance(precision, str):
        yield (
            f"`describe()` has the precision {precision!r}",
            "give a table with `precision`, such as `fp32`, which is recorded with every score",
        )

    try:
        json.dumps(description)
    except (TypeError, ValueError) as error:
        yield f"JSON cannot hold `describe()`: {error}", "use strings and numbers"
    for name, value in engine.counters().items():
        is_number = isinstance(value, float | int) and math.isfinite(value)
        if not is_number or value < 0:
            yield (
                f"the counter `{name}` is {value!r}",
                "give finite numbers that are not below 0",
            )


RULES = {"engine": engine}
