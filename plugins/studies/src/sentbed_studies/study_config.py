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
    """Prompts; every cell is run with each of them, under each seed. A prompt is a template or its name; or a
    table with a `label` and keys of an encoder's `prompt` (`template`, `demonstration`, `file`, ...) or the
    paths that it sets (`{ "encoder.prompt.template" = "..." }`). With `file` and without `line`, each line of
    the file is a prompt. By default cells have the recipe's own prompt, and prompts are no source of chance."""
    prompt_factor: PromptFactor = "random"
    """How prompts count in tests. `random`: they are a sample of the prompts that might be used, and tests
    generalise over them as over seeds and items. `fixed`: no others are of interest; scores are averaged."""
    baseline: Mapping[str, str] | None = None
    """Axis -> label of the cell that all others are compared with; axes with one label are optional."""
    zip: tuple[tuple[str, ...], ...] = ()
    """Groups of axes to combine label by label instead of in all combinations."""
    exclude: tuple[Mapping[str, str | tuple[str, ...]], ...] = ()
    """Entries of axis -> label or labels: cells that match an entry on all its axes are excluded."""
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
    """Number of CPU threads of a run, unless `[runtime]` sets it. It can change a score, and therefore does
    not depend on the number of workers."""
    keep: Literal["scores", "best", "all"] = "best"
    """Files of a finished run to keep beside scores, log and report. `best`: the encoder, with the weights
    that its stages keep; `all`: also checkpoints and shared stages; `scores`: no weights. Removed files
    cannot be restored."""
    order: tuple[str, ...] = ()
    """Tasks in the order of their columns; by default the evaluators' order."""
    ranks: tuple[str, ...] | None = None
    """Print the rank of each number in its column as a superscript, as SentBench does: among the cells that
    have the same labels on these axes, or, with `[]`, among all. By default no ranks."""
    colour: str = ""
    """Task whose score, by its first metric, colours the points of planes such as alignment over uniformity,
    as in Sentence-T5's figure 4; by default an axis does."""
    groups: bool = True
    """Report which cells do not differ significantly: all pairs are compared, over seeds and test items."""
    cost: str = ""
    """Task against which the report draws the other scores, such as `passes`, `tokens`, `operations` or
    `seconds` of the evaluator `encoding-cost`, or of what runs took, such as `run-processor-seconds`; by
    default the first cost that each evaluator measures, such as `processor-seconds` of `encoding-cost` on a
    processor, and `bytes-per-document` of `retrieval`."""

    family: Family = "column"
    """Family of tests over which the p-values of marks are corrected: `column`, the cells of each column, or
    `study`, the cells in all columns of all tables, which finds less."""

    decide: Decide | None = None
    """The score by which cells are stopped, sampled and chosen; `{}` means all tasks on development data,
    which is also the default for stopping and sampling. With `decide`, the report names the best cell, its
    scores on test data, and the number of cells that it was chosen among."""
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
        """Key that needs a deciding score: `decide`, `stop` or `sampler`; None if there is none."""
        if self.decide is not None:
            return "decide"
        if self.stop is not None:
            return "stop"
        if self.sampler is not None and self.sampler.sampler.learns:
            return "sampler"
        return None
