"""Rules of a learning-rate schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentbed_testing.component_under_test import Subject

if TYPE_CHECKING:
    from sentbed_testing.conformance import Findings

TOTALS = (1, 2, 10, 1000)
"""Numbers of training steps that are tested."""


def factor(subject: Subject) -> Findings:
    """The multiplier of a step is a number in [0, 1], the same in every call. Not all multipliers are 0."""
    part = subject.ready
    for total in TOTALS:
        factors = [part.factor(step, total) for step in range(total)]
        for step, value in enumerate(factors):
            is_number = isinstance(value, float | int)
            if not is_number or not 0 <= value <= 1:
                yield (
                    f"step {step} of {total} has the multiplier {value!r}",
                    "return a number in [0, 1]",
                )
                return

        if factors != [part.factor(step, total) for step in range(total)]:
            yield (
                f"for {total} steps, a second call gives other multipliers",
                "compute from `step` and `total_steps` alone",
            )

    if not any(factors):
        yield (
            f"all {total} steps have the multiplier 0",
            "return 1 for steps whose learning rate is to be `lr`",
        )


RULES = {"factor": factor}
