"""Results of a study for tables, plots and reports, independent of how cells were run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
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


Family: TypeAlias = Literal["column", "study"]
"""What p-values against the baseline are corrected over: cells in each column, or in all of a study's."""

PromptFactor: TypeAlias = Literal["random", "fixed"]
"""Whether the prompts of a study are a sample of those that might be used, or all that are of interest."""


@attrs.frozen
class AxisInfo:
    """Axis of a study."""

    name: str
    labels: tuple[str, ...]
    numbers: tuple[float, ...] | None = None
    """Numbers set by the labels, if each sets a single one, so that the axis can be plotted."""
    paths: tuple[str, ...] = ()
    """Paths of the recipe that the labels set, with stages by name; none in studies of earlier versions."""


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
    """Why it failed."""
    seconds: float | None = None
    """Time of the run, with that of the search before it, if it had one."""
    scores: tuple[Score, ...] = ()
    """Scores, with items if the run keeps them; empty unless the run has finished."""
    record: Mapping[str, Any] = attrs.field(factory=dict)
    """`report.json` of the run: `stages` has its learning curves, `ranking` that of a search."""
    cost: RecordedCost | None = None
    """What a run that finished or failed took, without the search before it; None if that is not recorded."""
    evaluations: tuple[str, ...] | None = None
    """Keys of the evaluations whose scores these are; None for those that the run itself has made."""
    prompt: str = ""
    """Label of its prompt; empty in a study without `prompts`."""

    @property
    def chosen_on(self) -> frozenset[str]:
        """Hashes of the files by which validations of the run chose its weights."""
        manifest = self.record.get("manifest")
        if not isinstance(manifest, Mapping) or not isinstance(
            manifest.get("chosen_on"), list
        ):
            return frozenset()
        return frozenset(
            digest for digest in manifest["chosen_on"] if isinstance(digest, str)
        )

    def __repr__(self) -> str:
        return f"<run {self}: {self.status}, {len(self.scores)} scores>"

    def __str__(self) -> str:
        prompt = f", prompt {self.prompt}" if self.prompt else ""
        return f"{self.cell}{prompt}, seed {self.seed}"


@attrs.frozen(eq=False)
class CellInfo:
    """Cell: a combination of labels."""

    name: str
    labels: Mapping[str, str]
    """Axis -> label."""
    runs: tuple[CellRun, ...]
    """Runs, one per seed, or one per prompt and seed."""
    differences: tuple[str, ...] = ()
    """`PATH: BEFORE -> AFTER` for differences from the recipe of the baseline, or of the first cell."""
    confirmation: tuple[CellRun, ...] = ()
    """Runs of the chosen cell with fresh seeds, which no table has; see `Decide.confirm`."""

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seeds of its runs."""
        return tuple(dict.fromkeys(run.seed for run in self.runs))

    @property
    def finished_seeds(self) -> tuple[int, ...]:
        """Seeds whose runs have finished, under every prompt."""
        unfinished = {run.seed for run in self.runs if run.status != "finished"}
        return tuple(seed for seed in self.seeds if seed not in unfinished)


def sources_of_tests(data: StudyData) -> str:
    """Return what the tests of a study are over, in words."""
    if data.prompts and data.prompt_factor == "random":
        return "prompts, seeds and items"
    return "seeds and items"


def with_decided_splits(cells: Sequence[CellInfo]) -> tuple[CellInfo, ...]:
    """Return cells whose scores on a file are on development data if it decided anything in the study.

    It did if any score declares the file as development data, or if a validation chose weights by it.
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

    def declared(run: CellRun) -> CellRun:
        return attrs.evolve(
            run,
            scores=tuple(with_decided_split(score, decided) for score in run.scores),
        )

    return with_runs(cells, declared)


def with_runs(
    cells: Iterable[CellInfo], changed: Callable[[CellRun], CellRun]
) -> tuple[CellInfo, ...]:
    """Return cells with each of their runs changed, also those with fresh seeds."""
    with_changes = []
    for cell in cells:
        runs = tuple(map(changed, cell.runs))
        confirmation = tuple(map(changed, cell.confirmation))
        with_changes.append(attrs.evolve(cell, runs=runs, confirmation=confirmation))
    return tuple(with_changes)


@attrs.frozen
class Sampled:
    """Choice of the cells that were run, by a sampler."""

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
    """Axes; empty if made of arbitrary runs."""
    cells: tuple[CellInfo, ...]
    """Cells in the recipe's order; of a study with a sampler, those that were chosen or run."""
    baseline: str | None
    """Name of the cell that others are compared with."""
    seeds: tuple[int, ...]
    excluded: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Names of cells that cannot work, with the reasons."""
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
    """Axes within whose labels numbers have ranks in their column, `()` for all cells; None for no ranks."""
    colour: str = ""
    """Task whose score colours the points of planes; empty if an axis does."""
    cost: str = ""
    """Task against which other scores are drawn; empty for the first cost that was measured, if any."""
    decide: Decide | None = None
    """The score by which cells are stopped, sampled and chosen; None without `[study.decide]`."""
    decisions: Decisions | None = None
    """What the study decided while it ran; None if it stops no cells, or has made no look yet."""
    looks: int = 1
    """Number of times at which the study may stop, or might: tests that hold at any of them are corrected."""
    needless: int = 0
    """Number of runs that will not be done, since the study has stopped their cells or has ended."""
    sampled: Sampled | None = None
    """How `cells` were chosen; None if they are all."""
    equivalence: float | None = None
    """Margin within which a cell counts as good as the baseline, in the unit of the score."""
    family: Family = "column"
    """What p-values against the baseline are corrected over."""
    groups: bool = True
    """Whether to say which cells cannot be told apart; see `Summary.groups`."""
    prompts: tuple[str, ...] = ()
    """Labels of the prompts with each of which every cell is run; empty without `[study] prompts`."""
    prompt_factor: PromptFactor = "random"
    """What the prompts are; see `PromptFactor`."""

    def __repr__(self) -> str:
        return f"<study {self.name}: {len(self.cells)} cells, {self.finished} of {self.total} runs finished>"

    @property
    def stopped(self) -> frozenset[str]:
        """Names of cells that were shown to be worse than another, and so lack seeds that the others have."""
        if self.decisions is None:
            return frozenset()
        worse = {claim.cell for claim in self.decisions.claims}
        seeds: set[int] = set()
        seeds_of_worse = {}
        for cell in self.cells:
            seeds_of_cell = {run.seed for run in cell.runs}
            if cell.name in worse:
                seeds_of_worse[cell.name] = seeds_of_cell
            else:
                seeds |= seeds_of_cell
        return frozenset(
            name for name, of_cell in seeds_of_worse.items() if of_cell != seeds
        )

    @property
    def finished(self) -> int:
        """Number of finished runs."""
        return sum(run.status == "finished" for cell in self.cells for run in cell.runs)

    @property
    def total(self) -> int:
        """Number of runs."""
        return sum(len(cell.runs) for cell in self.cells)
