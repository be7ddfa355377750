"""Every hook of sentbed, in the order of a run.

A plugin is a module (or a class, when it keeps state during a run) named by an entry point of the group
`sentbed`; it implements any of these with `@sentbed.hookimpl`. It may leave out arguments that it does not
use. Hooks for components are called once, when plugins are loaded. They return component classes, or a mapping
from names to `Lazy`, whose targets are imported when a recipe uses them. Importing the plugin must not import
a tensor library. Lifecycle hooks are called by the runner. If one raises, the run warns and goes on without
the plugin; with `required = True` in the module or class, the run ends. A `SentbedError` in `run_started` or
`run_resumed` always ends it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from typing import Any

    from sentbed.protocols import (
        Backbone,
        CellSampler,
        DataSource,
        Evaluation,
        Evaluator,
        Executor,
        Exporter,
        Importer,
        InstalledPlugins,
        Intervention,
        Lazy,
        Loss,
        Optimizer,
        Pooler,
        RecipeTable,
        ReportData,
        ReportSection,
        Run,
        Runtime,
        Schedule,
        Similarity,
        StepResult,
        Tracker,
        Transform,
        VectorStore,
    )

hookspec = pluggy.HookspecMarker("sentbed")
hookimpl = pluggy.HookimplMarker("sentbed")

# mypy: disable-error-code="empty-body"


# --- components -------------------------------------------------------------------------------------------


@hookspec
def backbones() -> Sequence[type[Backbone]] | Mapping[str, Lazy]:
    """Return backbone classes: tokenizer + transformer."""


@hookspec
def interventions() -> Sequence[type[Intervention]] | Mapping[str, Lazy]:
    """Return intervention classes: states within a backbone -> other states."""


@hookspec
def poolers() -> Sequence[type[Pooler]] | Mapping[str, Lazy]:
    """Return pooler classes: token states -> one vector per sentence, or a vector of each token."""


@hookspec
def transforms() -> Sequence[type[Transform]] | Mapping[str, Lazy]:
    """Return transform classes: sentence vectors -> others, by a map that is computed after training."""


@hookspec
def similarities() -> Sequence[type[Similarity]] | Mapping[str, Lazy]:
    """Return similarity classes: two texts, as an encoder gives them -> how alike they are."""


@hookspec
def losses() -> Sequence[type[Loss]] | Mapping[str, Lazy]:
    """Return loss classes: sentence vectors -> a scalar to minimise."""


@hookspec
def data_sources() -> Sequence[type[DataSource]] | Mapping[str, Lazy]:
    """Return data source classes: where training texts come from."""


@hookspec
def evaluators() -> Sequence[type[Evaluator]] | Mapping[str, Lazy]:
    """Return evaluator classes: encoder -> named scores."""


@hookspec
def runtimes() -> Sequence[type[Runtime]] | Mapping[str, Lazy]:
    """Return runtime classes: where it runs."""


@hookspec
def optimizers() -> Sequence[type[Optimizer]] | Mapping[str, Lazy]:
    """Return optimiser classes: gradients -> new weights."""


@hookspec
def schedules() -> Sequence[type[Schedule]] | Mapping[str, Lazy]:
    """Return schedule classes: step -> multiplier of the learning rate."""


@hookspec
def trackers() -> Sequence[type[Tracker]] | Mapping[str, Lazy]:
    """Return tracker classes: where a recipe's `[[tracker]]` sends what the run shows."""


@hookspec
def exporters() -> Sequence[type[Exporter]] | Mapping[str, Lazy]:
    """Return exporter classes: what `sentbed export --to NAME` writes."""


@hookspec
def importers() -> Sequence[type[Importer]] | Mapping[str, Lazy]:
    """Return importer classes: what `sentbed import --from NAME` reads."""


@hookspec
def samplers() -> Sequence[type[CellSampler]] | Mapping[str, Lazy]:
    """Return sampler classes: scores of the cells of a study -> the cells to run next."""


@hookspec
def executors() -> Sequence[type[Executor]] | Mapping[str, Lazy]:
    """Return executor classes: who does the tasks of a long job, on this machine or on others."""


# --- recipe tables, commands and other offers ---------------------------------------------------------------


@hookspec
def commands() -> Mapping[str, Lazy]:
    """Return subcommands of `sentbed` by name. A command is imported when it is called, not for `--help`.

    A name of core's own commands (`check`, `plugins`, `run`) is refused, and the plugin with it.
    """


@hookspec
def recipe_tables() -> Mapping[str, type[RecipeTable] | Lazy]:
    """Return top-level tables of a recipe that belong to this plugin, by key: a `RecipeTable` each.

    Such a table is structured and checked like core's own; if the plugin is not installed, a recipe with it
    is refused. A name of core's own keys, such as `expected`, is refused, and the plugin with it.
    """


@hookspec
def known_data() -> Sequence[Any]:
    """Return collections of data files that `sentbed data` knows: a `sentbed_common.KnownData` each."""


@hookspec
def findings(plugins: InstalledPlugins) -> Sequence[Any]:
    """Return what this machine can do with the plugin, for `sentbed doctor`: a `sentbed_common.Finding` each.

    It may load what it looks at. `plugins` are all loaded plugins.
    """


@hookspec(firstresult=True)
def vector_store(run: Run, warn: Callable[[str], None]) -> VectorStore | None:
    """Return a store in which evaluations find the vectors of earlier ones; that of the first plugin is used.

    Called before anything is built, unless the recipe says `cache = false`. `warn` tells the user something.
    If the store raises later, the run goes on without it.
    """


# --- lifecycle of a run --------------------------------------------------------------------------------------


@hookspec
def run_started(run: Run) -> Mapping[str, Any] | None:
    """Called once, when the run directory exists and before anything is built.

    The returned facts are added to the manifest, such as where a tracker writes.
    """


@hookspec
def run_resumed(
    run: Run, states: Mapping[str, Mapping[str, Any]]
) -> Mapping[str, Any] | None:
    """Called instead of `run_started` when a run goes on from a checkpoint; returns the same.

    `states` has what each plugin returned from `tracker_state` when the checkpoint was written, by name.
    """


@hookspec
def evaluation_started(run: Run, evaluator: str, encoder: str) -> None:
    """Called before an `[[evaluate]]` entry starts."""


@hookspec
def evaluation_progressed(
    run: Run, evaluator: str, encoder: str, what: str, done: int, total: int
) -> None:
    """Called often during an evaluation: of its part `what`, such as `encode`, so much is done."""


@hookspec
def scores_ready(
    run: Run, evaluator: str, encoder: str, evaluation: Evaluation
) -> None:
    """Called when an `[[evaluate]]` entry has finished, with all its scores."""


@hookspec
def stage_started(run: Run, stage: str, total_steps: int) -> None:
    """Called when a stage's data is open and its first step is next, and when a run is resumed within it."""


@hookspec
def step_finished(
    run: Run, stage: str, step: int, total_steps: int, result: StepResult
) -> None:
    """Called after every optimiser step; `step` counts from 1."""


@hookspec
def validated(run: Run, stage: str, step: int, score: float, best: bool) -> None:
    """Called after a validation; `best` says whether this checkpoint is the one to keep so far."""


@hookspec
def observed(
    run: Run, stage: str, step: int, encoder: str, evaluation: Evaluation
) -> None:
    """Called after an evaluation that a stage's `watch` asks for; it chooses nothing."""


@hookspec
def checkpoint_saved(run: Run, stage: str, step: int, path: Path) -> None:
    """Called when the encoders that a validation found best have been written to `path`."""


@hookspec
def tracker_state(run: Run) -> tuple[str, Mapping[str, Any]] | None:
    """Called when a checkpoint is written; returns the plugin's name and what it needs to go on, for JSON.

    Its key `files` lists files and directories of the run directory to copy if another run continues from
    this one.

    The results of all plugins are kept together.
    """


@hookspec
def warned(run: Run, message: str) -> None:
    """Called when the run goes on in spite of something that its user should know."""


@hookspec
def stage_finished(
    run: Run, stage: str, steps: int, best_score: float | None, best_step: int
) -> None:
    """Called after the last step, when the checkpoint that is kept has been restored."""


@hookspec
def report_sections(run: Run, data: ReportData) -> Sequence[ReportSection]:
    """Return further tables of a run's report; called however the run ends, before `write_report`."""


@hookspec
def write_report(run: Run, data: ReportData) -> Path | None:
    """Called when a run ends, however it ends, and `report.json` is written: pages, tables, plots.

    Returns the file for the user to open; if several plugins return one, the first is printed.
    """


@hookspec
def run_finished(run: Run, report: Path) -> None:
    """Called last, when the report is written."""


@hookspec
def run_failed(run: Run, error: BaseException) -> None:
    """Called instead of `run_finished` when an error or an interruption ends the run."""
