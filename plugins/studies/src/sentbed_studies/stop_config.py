"""Configuration of early stopping: the table `[study.stop]`."""

from __future__ import annotations

from typing import Literal

import attrs
from attrs.validators import ge, gt, lt
from sentbed_report.study.decisions import Promise


@attrs.frozen
class Stop:
    """`[study.stop]`: a cell gets no further seeds once it is shown to be worse than another.

    The score is that of `[study.decide]`; see `sentbed_studies.sequential_test` for the test.
    """

    worse_than: Literal["best", "baseline"] = "best"
    """`best`: cells that are worse than any other one are stopped, until one is left; `baseline`: cells that
    are worse than the baseline are."""
    margin: float = attrs.field(default=0.0, validator=ge(0))
    """What a cell may be worse by and still go on, in the unit of the score."""
    error_rate: float = attrs.field(default=0.05, validator=[gt(0), lt(1)])
    """Probability that any claim of the study is wrong, in (0, 1); see `promise`."""
    promise: Promise = "all"
    """What the error rate is of: `all`, that any claim "A is worse than B" is wrong, or `best`, that a cell
    which is the best is stopped. The second is all that is needed to find the best cell, and finds it far
    more often; a claim between two other cells may then be wrong more often."""
    first_look: int = attrs.field(default=2, validator=ge(2))
    """Number of seeds that every cell has; from then on cells are compared after each further seed."""
