"""Configuration of a study: the table `[study]`, with its cells and published results for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import attrs
from attrs.validators import deep_iterable, ge, gt, le, min_len, optional
from sentbed.protocols import RecipeTable, TableTraits
from sentbed_report.study.deciding_score import Decide
from sentbed_report.study.published_number_config import Published, Reference
from sentbed_report.study.study_data import Family, PromptFactor

from sentbed_studies.sampling_config import Sampling
from sentbed_studies.stop_config import Stop


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
    """Name of an axis -> `path` and `values`, or label -> the values that it sets, by path:
    `[study.axes.pooler]` with `path = "encoder.pooler.use"`, `values = ["first", "mean"]`, or
    `[study.axes.loss]` with `ctr = { "stage.nli.loss" = { use = "info-nce" } }`. A path is that of `--set`,
    or an array of paths that get the same value. `labels = ["CLS", "average"]` names the values; without it,
    a label is the value as it is written, or the `use` of a table."""
    numbers: Mapping[str, Mapping[str, float]] = attrs.field(factory=dict)
    """Axis -> label -> number, such as `size = { base = 110e6, large = 335e6 }`: scores are drawn over them.
    An axis whose labels set a number each has numbers without it."""
    seeds: tuple[int, ...] = attrs.field(
        default=(), validator=deep_iterable(member_validator=[ge(0), le(2**32 - 1)])
    )
    """Values of `run.seed` with which every cell is run; by default the recipe's own."""
    prompts: tuple[str | Mapping[str, Any], ...] = ()
    """Prompts with each of which every cell is run under every seed: a template, or its name; or a table with
    keys of an encoder's `prompt` (`template`, `demonstration`, `file`, ...), or with the paths that it sets
    (`{ "encoder.prompt.template" = "..." }`), and a `label`. Of a `file` without a `line`, each line is one.
    By default cells have the recipe's own prompt, and prompts are no source of chance."""
    prompt_factor: PromptFactor = "random"
    """What the prompts are: `random`, a sample of those that might be used, over which tests generalise as
    over seeds and items; `fixed`, all that are of interest, over which scores are averaged."""
    baseline: Mapping[str, str] | None = None
    """Axis -> label of the cell that all others are compared with; axes with one label are optional."""
    zip: tuple[tuple[str, ...], ...] = ()
    """Groups of axes to combine label by label instead of in all combinations."""
    exclude: tuple[Mapping[str, str | tuple[str, ...]], ...] = ()
    """Axis -> label, or several: cells that match an entry on all its axes are excluded."""
    include: tuple[Mapping[str, str | tuple[str, ...]], ...] = ()
    """Cells to keep although `exclude` matches them, in the same form."""
    expected: Mapping[str, Published] = attrs.field(factory=dict)
    """Name of a table or figure -> its published numbers: `cells` (cell -> score -> number), and optionally
    `tolerance`, `source`, `hardware`, `hours` and `note`."""
    references: Mapping[str, Reference] = attrs.field(factory=dict)
    """Name of another system -> its published `scores` (key of a score -> number) with a `source`, the files
    of `results` that have them, or the `cell` of the study that computes it: a dashed line in the plots of
    scores, and a row of the tables."""
    threads: int = attrs.field(default=1, validator=ge(1))
    """Threads of a run on a processor, unless `[runtime]` sets them. They can change a score, and so do not
    follow from the number of workers."""
    keep: Literal["scores", "best", "all"] = "best"
    """What stays of a finished run beside scores, log and report: `best`, its encoder, with the weights that
    its stages keep; `all`, also the checkpoints of its stages, and stages that cells share; `scores`, no
    weights. What was removed does not come back."""
    order: tuple[str, ...] = ()
    """Tasks in the order of their columns; by default the evaluators' order."""
    ranks: tuple[str, ...] | None = None
    """Print the rank of each number in its column as a superscript, as SentBench does: among the cells that
    have the same labels on these axes, or, with `[]`, among all. By default no ranks."""
    colour: str = ""
    """Task whose score, by its first metric, colours the points of planes such as alignment over uniformity,
    as in Sentence-T5's figure 4; by default an axis does."""
    groups: bool = True
    """Report which cells cannot be told apart: every two are compared, over seeds and test items."""
    cost: str = ""
    """Task against which the report draws the other scores, such as `passes`, `tokens`, `operations` or
    `seconds` of the evaluator `encoding-cost`, or of what runs took, such as `run-processor-seconds`; by
    default the first cost that each evaluator measures, such as `processor-seconds` of `encoding-cost` on a
    processor, and `bytes-per-document` of `retrieval`."""

    family: Family = "column"
    """Over what the p-values of marks are corrected: `column`, over the cells in each column, or `study`,
    over the cells in all columns of all tables together, which finds less."""

    decide: Decide | None = None
    """The score by which cells are stopped, sampled and chosen: `{}` for all tasks on development data, by
    which they are stopped and sampled also without it. With it, the report names the best cell, with its
    scores on test data and the number of cells that it was chosen among."""
    stop: Stop | None = None
    """When cells get no further seeds; by default every cell is run with all of them."""
    sampler: Sampling | None = None
    """Run only cells that a sampler chooses, at random or by the scores of earlier ones; by default all."""

    equivalence: float | None = attrs.field(default=None, validator=optional(gt(0)))
    """Margin within which a cell counts as good as the baseline, in the unit of the score, such as 0.3: the
    report then tests in the last column of each table whether cells are no worse, and whether they are
    equivalent. It needs a `baseline`."""

    @property
    def decides_by(self) -> Decide:
        """`decide`, or its defaults."""
        return self.decide or Decide()

    @property
    def decides_for(self) -> str | None:
        """The key for which scores decide: `decide`, `stop` or `sampler`; None if they decide nothing."""
        if self.decide is not None:
            return "decide"
        if self.stop is not None:
            return "stop"
        return (
            "sampler"
            if self.sampler is not None and self.sampler.sampler.learns
            else None
        )
