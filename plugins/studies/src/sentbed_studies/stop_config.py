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
    """`best`: stop cells that are worse than some other cell, until one is left; `baseline`: stop cells that
    are worse than the baseline."""
    margin: float = attrs.field(default=0.0, validator=ge(0))
    """Largest difference by which a cell may be worse without being stopped, in the unit of the score."""
    error_rate: float = attrs.field(default=0.05, validator=[gt(0), lt(1)])
    """Probability that any claim of the study is wrong, in (0, 1); see `promise`."""
    promise: Promise = "all"
    """Errors that the error rate limits. `all`: that any claim "A is worse than B" is wrong. `best`: that the
    best cell is stopped, which suffices to find that cell and finds it far more often; claims between other
    cells may then be wrong more often."""
    first_look: int = attrs.field(default=2, validator=ge(2))
    """Number of seeds with which every cell is run; cells are compared then, and after each further seed."""
