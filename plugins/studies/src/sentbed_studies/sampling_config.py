"""Configuration of `[study.sampler]`: how many cells of a study are run, and who chooses them."""

from __future__ import annotations

import attrs
from attrs.validators import ge, le
from sentbed.protocols import CellSampler


@attrs.frozen
class Sampling:
    """`[study.sampler]`: a sampler, and how many cells it chooses."""

    sampler: CellSampler = attrs.field(metadata={"inline": True, "key": "use"})
    """Name of the sampler, such as `random` or `tpe`, whose fields are keys of the same table; see
    `sentbed show sampler NAME`."""
    cells: int = attrs.field(validator=ge(1))
    """Number of cells that are run, the baseline among them."""
    batch: int = attrs.field(default=4, validator=ge(1))
    """Number of cells that are chosen at a time, before their scores are known. It decides which cells are
    chosen; a sampler that reads no scores chooses all at once."""
    seed: int = attrs.field(default=0, validator=[ge(0), le(2**32 - 1)])
    """Seed of the choice. It is not a seed of the runs."""
