"""Configuration of `[study.sampler]`: the sampler that chooses the cells to run, and their number."""

from __future__ import annotations

import attrs
from attrs.validators import ge, le
from sentbed.protocols import CellSampler


@attrs.frozen
class Sampling:
    """`[study.sampler]`: a sampler of cells, and how many cells it chooses."""

    sampler: CellSampler = attrs.field(metadata={"inline": True, "key": "use"})
    """Name of the sampler, such as `random` or `tpe`. Its fields are keys of the same table; see
    `sentbed show sampler NAME`."""
    cells: int = attrs.field(validator=ge(1))
    """Number of cells that are run, including the baseline."""
    batch: int = attrs.field(default=4, validator=ge(1))
    """Number of cells that are chosen at a time, by the scores of the cells before them. With another number,
    other cells are chosen. A sampler that uses no scores chooses all cells at once."""
    seed: int = attrs.field(default=0, validator=[ge(0), le(2**32 - 1)])
    """Seed of the sampler; the runs have the seeds of the study."""
