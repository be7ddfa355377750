"""Configuration of a study: the table `[study]` of a recipe."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, TypeAlias

import attrs
from attrs.validators import deep_iterable, ge, le, min_len, optional
from sentbed.protocols import RecipeTable, TableTraits
from sentbed_report.study.study_settings import StudySettings

LARGEST_SEED = 2**32 - 1
"""Largest `run.seed`."""

Keep: TypeAlias = Literal["scores", "best", "all"]
"""Files of a finished run that are kept; see `StudyTable.keep`."""


@attrs.frozen
class StudyTable(StudySettings, RecipeTable):
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
    ...). By default, cells have the prompt of the recipe."""
    baseline: Mapping[str, str] | None = None
    """Axis -> label of the cell with which all others are compared. Axes with one label may be left out."""
    exclude: tuple[Mapping[str, str | tuple[str, ...]], ...] = ()
    """Combinations to leave out. Each entry maps axes to a label or labels; a cell is left out if it has one of
    these labels on each axis of an entry."""
    sample: int | None = attrs.field(default=None, validator=optional(ge(1)))
    """Number of cells to run, drawn at random by the first seed; the baseline is one of them. By default, all
    cells are run."""
    trials: int | None = attrs.field(default=None, validator=optional(ge(1)))
    """Number of trials of a search by Optuna, which replaces running all cells: its TPE sampler, seeded by the
    first seed, chooses one cell after another by the scores of `decide` so far. It needs
    `sentbed-studies[search]`."""
    threads: int = attrs.field(default=1, validator=ge(1))
    """Number of CPU threads of a run, unless `[runtime]` sets it. It does not depend on the number of workers,
    since it can change a score."""
    keep: Keep = "best"
    """Files of a finished run to keep in addition to scores, log and report. `best`: the encoder, with the
    weights that its stages keep; `all`: also checkpoints and shared stages; `scores`: no weights. Removed files
    cannot be restored."""

    @seeds.validator
    def _check_seeds(self, _: attrs.Attribute[Any], seeds: tuple[int, ...]) -> None:
        """Raise `ValueError` if a seed is named twice."""
        for seed, times in Counter(seeds).items():
            if times > 1:
                raise ValueError(
                    f"the seed {seed} is named twice, and every cell runs once with each seed; name it once"
                )
