"""Results of a study, from which tables, plots and reports are made, however its cells were run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Literal, TypeAlias

import attrs
from sentbed.protocols import Score

from sentbed_report.data_splits import data_of, is_development, with_decided_split
from sentbed_report.run_cost import RecordedCost
from sentbed_report.study.deciding_score import Decide
from sentbed_report.study.decisions import Decisions
from sentbed_report.study.published_number_config import Published, Reference
from sentbed_report.study.published_scores import PublishedSystem

CellStatus: TypeAlias = Literal[
    "waiting", "running", "finished", "failed", "interrupted"
]


_WORST_FIRST: tuple[CellStatus, ...] = ("failed", "interrupted", "running", "waiting")


Family: TypeAlias = Literal["column", "study"]
"""P-values against the baseline that are corrected together: of one column, or of all columns."""

PromptFactor: TypeAlias = Literal["random", "fixed"]
"""Whether the prompts of a study are a sample of those that might be used, or all that are of interest."""


@attrs.frozen
class AxisInfo:
    """Axis of a study: an experimental factor, such as `learning rate`, with its labels (levels)."""

    name: str
    labels: tuple[str, ...]
    numbers: tuple[float, ...] | None = None
    """Number that each label sets in the recipe, for plots; None if a label sets none or several."""
    paths: tuple[str, ...] = ()
    """Paths of the recipe that the labels set, with stages by name; empty in studies of earlier versions."""


@attrs.frozen(eq=False, repr=False)
class CellRun:
    """Run of a cell with one seed."""

    cell: str
    """Name of the cell: its labels, without the seed."""
    seed: int
    status: CellStatus
    directory: Path | None = None
    """Run directory, relative to the study's."""
    error: str = ""
    """Error message of a failed run."""
    seconds: float | None = None
    """Duration of the run, including a demonstration search before it."""
    scores: tuple[Score, ...] = ()
    """Scores, with items if the run keeps them; empty unless the run has finished."""
    record: Mapping[str, Any] = attrs.field(factory=dict)
    """`report.json` of the run: `stages` has its learning curves, `ranking` the result of a search."""
    cost: RecordedCost | None = None
    """Cost of a finished or failed run, without a search before it; None if it was not recorded."""
    evaluations: tuple[str, ...] | None = None
    """Keys of the evaluations that made the scores; None if the run made them itself."""
    prompt: str = ""
    """Label of its prompt; empty in a study without `prompts`."""

    @property
    def chosen_on(self) -> frozenset[str]:
        """Hashes of the data files on which validations chose the weights of the run."""
        manifest = self.record.get("manifest")
        if not isinstance(manifest, Mapping):
            return frozenset()
        digests = manifest.get("chosen_on")
        if not isinstance(digests, list):
            return frozenset()
        return frozenset(digest for digest in digests if isinstance(digest, str))

    def __repr__(self) -> str:
        return f"<run {self}: {self.status}, {len(self.scores)} scores>"

    def __str__(self) -> str:
        prompt = f", prompt {self.prompt}" if self.prompt else ""
        return f"{self.cell}{prompt}, seed {self.seed}"


@attrs.frozen(eq=False)
class CellInfo:
    """Cell of a study: a combination of labels, one per axis, that is run with several seeds."""

    name: str
    labels: Mapping[str, str]
    """Axis -> label."""
    runs: tuple[CellRun, ...]
    """Runs, one per seed, or one per prompt and seed."""
    differences: tuple[str, ...] = ()
    """Differences from the recipe of the baseline, or of the first cell, as `PATH: BEFORE -> AFTER`."""
    confirmation: tuple[CellRun, ...] = ()
    """Runs of the chosen cell with fresh seeds, which are in no table; see `Decide.confirm`."""

    @property
    def status(self) -> CellStatus:
        """The worst status of its runs."""
        statuses = {run.status for run in self.runs}
        for status in _WORST_FIRST:
            if status in statuses:
                return status
        return "finished"

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seeds of its runs."""
        return tuple(dict.fromkeys(run.seed for run in self.runs))

    @property
    def finished_seeds(self) -> tuple[int, ...]:
        """Seeds whose runs have all finished, under every prompt."""
        unfinished = {run.seed for run in self.runs if run.status != "finished"}
        return tuple(seed for seed in self.seeds if seed not in unfinished)


def sources_of_tests(data: StudyData) -> str:
    """Return the sources of variance of a study's tests, in words."""
    if data.prompts and data.prompt_factor == "random":
        return "prompts, seeds and items"
    return "seeds and items"


def with_decided_splits(cells: Sequence[CellInfo]) -> tuple[CellInfo, ...]:
    """Return cells with their scores declared as on development data if their file decided anything.

    A file decided something if any score of the study declares it as development data, or if a validation
    chose weights on it.
    """
    decided: set[str] = set()
    for cell in cells:
        for run in cell.runs:
            decided |= run.chosen_on
            for score in run.scores:
                if is_development(score):
                    decided |= data_of(score)
    if not decided:
        return tuple(cells)

    def with_splits(run: CellRun) -> CellRun:
        scores = [with_decided_split(score, decided) for score in run.scores]
        return attrs.evolve(run, scores=tuple(scores))

    return with_runs(cells, with_splits)


def with_runs(
    cells: Iterable[CellInfo], change: Callable[[CellRun], CellRun]
) -> tuple[CellInfo, ...]:
    """Return cells with `change` applied to each of their runs, also to those with fresh seeds."""
    changed = []
    for cell in cells:
        runs = tuple(map(change, cell.runs))
        confirmation = tuple(map(change, cell.confirmation))
        changed.append(attrs.evolve(cell, runs=runs, confirmation=confirmation))
    return tuple(changed)


@attrs.frozen
class Sampled:
    """Random choice, by a sampler, of the cells that are run."""

    sampler: str
    """Name of the sampler."""
    seed: int
    cells: int
    """Number of cells to choose."""
    among: int
    """Number of cells that could be chosen."""
    names: tuple[str, ...]
    """Names of the cells chosen until now, in order."""

    def __str__(self) -> str:
        return f"{len(self.names):,} of {self.among:,} cells were sampled by {self.sampler}, seed {self.seed}"


@attrs.frozen(eq=False, repr=False)
class StudyData:
    """A study, or several runs treated as one."""

    name: str
    axes: tuple[AxisInfo, ...]
    """Axes; empty for arbitrary runs that are treated as a study."""
    cells: tuple[CellInfo, ...]
    """Cells in the recipe's order; in a study with a sampler, those that were chosen or run."""
    baseline: str | None
    """Name of the cell that others are compared with."""
    seeds: tuple[int, ...]
    excluded: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Names of combinations that cannot be run and are left out, each with the reasons."""
    expected: Mapping[str, Published] = attrs.field(factory=dict)
    """Name of a published table -> its numbers; see `StudyTable.expected`."""
    order: tuple[str, ...] = ()
    """Tasks in the recipe's order of columns."""
    recipe: str = ""
    """The study's recipe, as TOML."""
    directory: Path | None = None
    """Directory of the study, to which the runs' directories are relative."""
    references: Mapping[str, Reference] = attrs.field(factory=dict)
    """Name of another system -> its numbers; see `StudyTable.references`."""
    published: tuple[PublishedSystem, ...] = ()
    """Systems whose numbers were read from files of results, in the recipe's order."""
    ranks: tuple[str, ...] | None = None
    """Axes within whose labels numbers are ranked, `()` for ranks over all cells; None for no ranks."""
    colour: str = ""
    """Task whose score colours the points of planes; empty to colour them by an axis."""
    cost: str = ""
    """Task whose score is the cost in plots of score against cost; empty for the first measured cost, if any."""
    decide: Decide | None = None
    """The score by which cells are stopped, sampled and chosen; None without `[study.decide]`."""
    decisions: Decisions | None = None
    """Decisions of the study while it ran; None if it stops no cells, or has not tested any yet."""
    looks: int = 1
    """Number of looks at the scores (interim analyses) after which the study may stop, for the correction."""
    needless: int = 0
    """Number of planned runs that will not be done, as the study has stopped their cells or has ended."""
    sampled: Sampled | None = None
    """How `cells` were chosen; None if they are all."""
    equivalence: float | None = None
    """Margin within which a cell is regarded as equal to the baseline, in the unit of the score."""
    family: Family = "column"
    """Family of p-values that are corrected together."""
    groups: bool = True
    """Whether to compute which cells cannot be told apart; see `Summary.groups`."""
    prompts: tuple[str, ...] = ()
    """Labels of the prompts, with each of which every cell is run; empty without `[study] prompts`."""
    prompt_factor: PromptFactor = "random"
    """Whether the prompts are a sample or all of interest; see `PromptFactor`."""

    def __repr__(self) -> str:
        return f"<study {self.name}: {len(self.cells)} cells, {self.finished} of {self.total} runs finished>"

    @property
    def stopped(self) -> frozenset[str]:
        """Names of cells that were shown to be worse than another, and so lack seeds that the others have."""
        if self.decisions is None:
            return frozenset()
        worse = {claim.cell for claim in self.decisions.claims}
        seeds_of_others: set[int] = set()
        for cell in self.cells:
            if cell.name not in worse:
                seeds_of_others.update(cell.seeds)
        stopped = set()
        for cell in self.cells:
            if cell.name in worse and set(cell.seeds) != seeds_of_others:
                stopped.add(cell.name)
        return frozenset(stopped)

    @property
    def runs(self) -> tuple[CellRun, ...]:
        """Runs of all cells, without those with fresh seeds."""
        return tuple(chain.from_iterable(cell.runs for cell in self.cells))

    @property
    def finished_runs(self) -> list[CellRun]:
        """The finished runs of all cells, without those with fresh seeds."""
        return [run for run in self.runs if run.status == "finished"]

    @property
    def finished(self) -> int:
        """Number of finished runs."""
        return len(self.finished_runs)

    @property
    def total(self) -> int:
        """Number of runs."""
        return len(self.runs)
