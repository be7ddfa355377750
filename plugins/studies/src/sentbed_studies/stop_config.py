"""Configuration of early stopping: the table `[study.stop]`."""

from __future__ import annotations

from typing import Literal

import attrs
from attrs.validators import ge, gt, lt
from sentbed_report.study.decisions import Promise


@attrs.frozen
class Stop:
    """`[study.stop]`: a cell gets no further seeds once it is shown to be worse than another.

    Cells are compared by the score of `[study.decide]`. The test is described in
    `sentbed_studies.sequential_test`.
    """

    worse_than: Literal["best", "baseline"] = "best"
    """`best`: stop cells that are worse than another cell, until one cell is left; `baseline`: stop cells that
    are worse than the baseline."""
    margin: float = attrs.field(default=0.0, validator=ge(0))
    """Largest difference by which a cell may be worse without being stopped, in the unit of the score."""
    error_rate: float = attrs.field(default=0.05, validator=[gt(0), lt(1)])
    """Largest probability of an error in the whole study, in (0, 1). `promise` says which errors count."""
    promise: Promise = "all"
    """Errors that `error_rate` limits. `all`: a claim "A is worse than B" is wrong. `best`: the best cell is
    stopped. `best` is enough to find the best cell, and finds it far more often; claims between other cells may
    then be wrong more often."""
    first_look: int = attrs.field(default=2, validator=ge(2))
    """Number of seeds after which cells are compared first; they are compared again after each further seed."""
