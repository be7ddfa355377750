"""Published numbers in a recipe: of cells (`[study.expected]`) and of other systems (`[study.references]`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import attrs
from attrs.validators import ge, optional
from sentbed import FilePath


@attrs.frozen
class Published:
    """`[study.expected."TABLE"]`: the numbers of a table or figure of a paper, by cell."""

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
    """Name of a cell -> why it is expected to miss its numbers, because they were measured in another way than
    printed, or because another paper reports other numbers. They are shown, but neither met nor missed."""

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

    Its numbers are published numbers (`scores`), those of a cell of the study (`cell`), or those of models in
    files of results (`results`), with one row per model.
    """

    scores: Mapping[str, float] = attrs.field(factory=dict)
    """Key of a score, as in `[expected]`, without an encoder -> published number. The numbers are shown as a
    row of the table with these columns, and as a line in plots of a column. A published average is compared
    with one that the report computes only if each of its tasks has a number, too, as evidence that both are
    over the same tasks."""
    cell: str = ""
    """Cell of the study whose score is the line; it is then not a point in plots over a numeric axis."""
    results: FilePath | None = None
    """Path of results that `sentbed audit` can read: a folder, archive or file of MTEB's results, a directory
    of a run or study, a file of lm-eval, or a CSV with the columns model, task and score. They are shown in
    the columns of their task, metric, split and subset, without tests."""
    models: tuple[str, ...] = ()
    """Models of `results` to show as rows: `NAME`, or `NAME@REVISION` for one revision. May be left out if
    there is only one model."""
    tasks: Mapping[str, str] = attrs.field(factory=dict)
    """Task in `results` -> the study's name of it, if that differs, and the study's name of the split after
    `@`, if that differs: `{ STSBenchmark = "STSB", "SICK-R" = "SICKR-all@train+dev+test" }`."""
    unit: Literal["share", "per cent"] | None = None
    """Unit of the scores in `results`: `share` (in [0, 1], shown as per cent) or `per cent`. Only a CSV needs
    it; the units of MTEB and lm-eval (`share`) and of our results are known."""
    source: str = ""
    """Where the numbers are published."""
