"""Configuration of a study: the table `[study]` of a recipe."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import attrs
from attrs.validators import deep_iterable, ge, le, min_len
from sentbed.protocols import RecipeTable, TableTraits
from sentbed_report.study.deciding_score import Decide
from sentbed_report.study.published_number_config import Published, Reference
from sentbed_report.study.study_data import Family, PromptFactor

LARGEST_SEED = 2**32 - 1
"""Largest `run.seed`."""


@attrs.frozen
class StudyTable(RecipeTable):
    """`[study]`: axes over any values of the recipe; every combination of their labels is a cell."""

    traits: ClassVar[TableTraits] = TableTraits(
        decides=False,
        resolved=False,
        variants=True,
        no_run="the recipe has a `[study]`, and `sentbed run` runs one recipe, not its cells; use "
        "`sentbed study`, with `--only AXIS=LABEL` for some of them, or take the table out",
    )

    axes: Mapping[str, Mapping[str, Any]] = attrs.field(validator=min_len(1))
    """Name of an axis -> the values of the recipe that its labels set. There are two forms. An axis over one
    value, such as `[study.axes.pooler]`, has `path = "encoder.pooler.use"` and `values = ["first", "mean"]`.
    Another axis, such as `[study.axes.loss]`, has a table for each label, as in
    `ctr = { "stage.nli.loss" = { use = "info-nce" } }`. A `path` is that of `--set`, or an array of paths that
    get the same value. `labels = ["CLS", "average"]` names the values. By default, a label is the value as
    text, or the `use` of a table."""
    numbers: Mapping[str, Mapping[str, float]] = attrs.field(factory=dict)
    """Axis -> label -> number, such as `size = { base = 110e6, large = 335e6 }`. The report plots scores over
    these numbers. If each label of an axis sets a number, the axis has these numbers by default."""
    seeds: tuple[int, ...] = attrs.field(
        default=(), validator=deep_iterable(member_validator=[ge(0), le(LARGEST_SEED)])
    )
    """Seeds (`run.seed`) with which every cell is run; by default the seed of the recipe."""
    prompts: tuple[str | Mapping[str, Any], ...] = ()
    """Prompts. Every cell is run with each prompt under each seed. A prompt is a template or the name of a
    template; or it is a table with a `label` and keys of an encoder's `prompt` (`template`, `demonstration`,
    `file`, ...), or with a `label` and paths (`{ "encoder.prompt.template" = "..." }`). A table with `file` and
    without `line` stands for a prompt per line of the file. By default, cells have the prompt of the recipe."""
    prompt_factor: PromptFactor = "random"
    """How prompts count in tests. `random`: they are a sample of the prompts that might be used, and tests
    generalise over prompts as over seeds and items. `fixed`: only these prompts are of interest, and scores are
    averaged over them."""
    baseline: Mapping[str, str] | None = None
    """Axis -> label of the cell with which all others are compared. Axes with one label may be left out."""
    exclude: tuple[Mapping[str, str | tuple[str, ...]], ...] = ()
    """Combinations to leave out. Each entry maps axes to a label or labels; a cell is left out if it has one of
    these labels on each axis of an entry."""
    expected: Mapping[str, Published] = attrs.field(factory=dict)
    """Name of a table or figure of a paper -> its published numbers: `cells` (cell -> score -> number), and
    optionally `tolerance`, `source`, `hardware`, `hours` and `note`."""
    references: Mapping[str, Reference] = attrs.field(factory=dict)
    """Name of another system -> where its numbers come from: published `scores` (key of a score -> number) with
    a `source`, or the `cell` of the study that computes them. A reference is a dashed line
    in the plots of scores, and a row of the tables."""
    threads: int = attrs.field(default=1, validator=ge(1))
    """Number of CPU threads of a run, unless `[runtime]` sets it. It does not depend on the number of workers,
    since it can change a score."""
    keep: Literal["scores", "best", "all"] = "best"
    """Files of a finished run to keep in addition to scores, log and report. `best`: the encoder, with the
    weights that its stages keep; `all`: also checkpoints and shared stages; `scores`: no weights. Removed files
    cannot be restored."""
    ranks: tuple[str, ...] | None = None
    """Axes within which numbers are ranked. The rank of a number in its column is printed as a superscript, as
    in SentBench. It is the rank among the cells that have the same labels on these axes; with `[]`, among all
    cells. By default, there are no ranks."""
    colour: str = ""
    """Task whose score, by its first metric, colours the points in planes such as alignment over uniformity, as
    in Sentence-T5's figure 4. By default, the labels of an axis colour them."""
    cost: str = ""
    """Cost against which the report plots the other scores: a task of the evaluator `encoding-cost`, such as
    `passes`, `tokens`, `operations` or `seconds`, or a cost of whole runs, such as `run-processor-seconds`. By
    default, it is the first cost that each evaluator measures, such as `processor-seconds` of `encoding-cost` on
    a processor, or `bytes-per-document` of `retrieval`."""

    family: Family = "column"
    """Family of tests over which p-values are corrected. `column`: the tests in one column of a table; `study`:
    those in all columns of all tables, so that fewer differences are found."""

    decide: Decide | None = None
    """The score by which a cell is chosen. `{}` means all tasks on development data. The report names the best
    cell, its scores on test data, and the number of cells from which it was chosen."""

    @seeds.validator
    def _check_seeds(self, _: attrs.Attribute[Any], seeds: tuple[int, ...]) -> None:
        """Raise `ValueError` if a seed is named twice."""
        for seed, times in Counter(seeds).items():
            if times > 1:
                raise ValueError(
                    f"the seed {seed} is named twice, and every cell runs once with each seed; name it once"
                )
