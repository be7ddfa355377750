"""Published numbers in a recipe: of cells (`[study.expected]`) and of others (`[study.references]`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import attrs
from attrs.validators import ge, optional
from sentbed import FilePath


@attrs.frozen
class Published:
    """`[study.expected."TABLE"]`: what a table or a figure of a paper says, cell by cell."""

    cells: Mapping[str, Mapping[str, float]]
    """Name of a cell -> key of a score, as in `[expected]` -> number."""
    tolerance: float | None = attrs.field(default=None, validator=optional(ge(0)))
    """Largest absolute difference that counts as reproduced; by default numbers are only shown."""
    source: str = ""
    """Where the numbers are published, if the name of the table does not say it."""
    hardware: str = ""
    """Hardware on which the numbers were measured."""
    hours: float | None = attrs.field(default=None, validator=optional(ge(0)))
    """Approximate duration of one cell on that hardware in hours."""
    note: str = ""
    """Known differences between the paper, its code and this recipe."""
    contradicted: Mapping[str, str] = attrs.field(factory=dict)
    """Name of a cell -> why it is not to meet its numbers: they were measured otherwise than printed, or
    another paper has others of the same. They are shown, and count neither as met nor as missed."""

    def __attrs_post_init__(self) -> None:
        unknown = sorted(self.contradicted.keys() - self.cells.keys())
        if unknown:
            raise ValueError(
                f"`contradicted` has {unknown[0]!r}, of which `cells` has no numbers; name one of `cells`, "
                "or take it out"
            )


@attrs.frozen
class Reference:
    """`[study.references."SYSTEM"]`: a system that cells are compared with, drawn as a dashed line.

    Its numbers are published ones (`scores`), those of a cell of the study (`cell`), or those of models in
    files of results (`results`), a row each.
    """

    scores: Mapping[str, float] = attrs.field(factory=dict)
    """Key of a score, as in `[expected]`, without an encoder -> published number. They are a row of the table
    whose columns they name, and a line where that column is drawn. An average that the report computes needs
    a number of each of its tasks besides, so that it is known to be over the same."""
    cell: str = ""
    """Cell of the study: its own score is the line, and it is no point of the plots over numbers."""
    results: FilePath | None = None
    """Results that `sentbed audit` reads: a folder, archive or file of MTEB's results, a directory of a run
    or study, a file of lm-eval, or a CSV with the columns model, task and score. They stand in the columns of
    their task, metric, split and subset, and are tested against nothing."""
    models: tuple[str, ...] = ()
    """Models of `results` that become rows: `NAME`, or `NAME@REVISION` for one of its revisions. By default
    the only one."""
    tasks: Mapping[str, str] = attrs.field(factory=dict)
    """Task in `results` -> the study's task, where they are called otherwise, and behind `@` its split, where
    that is: `{ STSBenchmark = "STSB", "SICK-R" = "SICKR-all@train+dev+test" }`."""
    unit: Literal["share", "per cent"] | None = None
    """What a score in `results` is: `share`, of 1, shown as per cent, or `per cent`. It is known for results
    of MTEB and lm-eval (`share`) and for ours; a CSV needs it."""
    source: str = ""
    """Where the numbers are published."""
