"""Configuration of `[study.sampler]`: how many cells of a study are run, and who chooses them."""

from __future__ import annotations

from collections.abc import Iterable

import attrs
from attrs.validators import ge, le
from sentbed.protocols import CellSampler
from sentbed.tools import Recipe, problem_of_test_data
from sentbed_report.study.deciding_score import Decide


@attrs.frozen
class Sampling:
    """`[study.sampler]`: a sampler, and how many cells it chooses."""

    with_: CellSampler = attrs.field(metadata={"inline": True, "key": "use"})
    """Name of the sampler, such as `random` or `tpe`, whose fields are keys of the same table; see
    `sentbed show sampler NAME`."""
    cells: int = attrs.field(validator=ge(1))
    """Number of cells that are run, the baseline among them."""
    batch: int = attrs.field(default=4, validator=ge(1))
    """Number of cells that are chosen at a time, before their scores are known. It decides which cells are
    chosen; a sampler that reads no scores chooses all at once."""
    seed: int = attrs.field(default=0, validator=[ge(0), le(2**32 - 1)])
    """Seed of the choice. It is not a seed of the runs."""


def problem_of_sampling(
    sampling: Sampling, cells: int, recipes: Iterable[Recipe], decide: Decide
) -> str | None:
    """Return why a sampler cannot choose among so many cells with these recipes, or None."""
    if sampling.cells > cells:
        return (
            f"the sampler is to choose {sampling.cells} cells, and the study has {cells}; lower `cells`, or "
            "take `[study.sampler]` out to run them all"
        )
    if not sampling.with_.learns or decide.test_data:
        return None
    why = f"the sampler `{sampling.with_.name}` chooses cells by scores"
    for recipe in recipes:
        found = [one.with_ for one in recipe.evaluate if "end" in one.at]
        found = [one for one in found if decide.evaluator in ("", one.name)]
        if not found:
            return f"{why}, and a cell has no evaluation that gives one; add one, or use the sampler `random`"
        if not any(one.traits.development for one in found):
            allow = "or allow test data (`test_data = true` in `[study.decide]`)"
            return f"{problem_of_test_data(why, found[0])}, {allow}"
    return None
