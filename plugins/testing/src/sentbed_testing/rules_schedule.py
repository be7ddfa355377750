"""Rules of a schedule."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sentbed_testing.component_under_test import Subject

if TYPE_CHECKING:
    from sentbed_testing.conformance import Findings

TOTALS = (1, 2, 10, 1000)


def factor(subject: Subject) -> Findings:
    """The multiplier of every step is a number in [0, 1], the same at every call, and not always 0."""
    part = subject.ready
    for total in TOTALS:
        factors = [part.factor(step, total) for step in range(total)]
        for step, value in enumerate(factors):
            fits = (
                isinstance(value, float | int)
                and math.isfinite(value)
                and 0 <= value <= 1
            )
            if not fits:
                yield (
                    f"step {step} of {total} has the multiplier {value!r}",
                    "return a number in [0, 1]",
                )
                return
        if factors != [part.factor(step, total) for step in range(total)]:
            yield (
                f"of {total} steps, a second call gives others",
                "compute from `step` and `total_steps` alone",
            )

    if not any(factors):
        yield (
            f"all {total} steps have the multiplier 0",
            "return 1 where the learning rate is to be `lr`",
        )


RULES = {"factor": factor}
