"""All hooks of sentbed, in the order of a run.

A plugin is a module that an entry point of the group `sentbed` names, or a class if the plugin keeps state
during a run. It implements any of these hooks with `@sentbed.hookimpl`. An implementation may leave out
arguments that it does not use.

Hooks for components are called once, when plugins are loaded. They return component classes, or a mapping such
as `{"mean": "my_plugin.mean:Mean"}`, whose classes are imported when a recipe uses them. Importing the plugin
must not import a tensor library.

Lifecycle hooks are called by the runner. If an implementation raises, or returns a value of a wrong type, the run
warns and goes on without the plugin. If the plugin's module or class has `required = True`, the run ends instead.
A `SentbedError` in `run_started` or `run_resumed` always ends the run.
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
        DataSource,
        Evaluation,
        Evaluator,
        Executor,
        Exporter,
        Importer,
        Intervention,
        Loss,
        Optimizer,
        Pooler,
        Prompt,
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
def backbones() -> Sequence[type[Backbone]] | Mapping[str, str]:
    """Return backbone classes. A backbone is a tokenizer and a transformer."""


@hookspec
def interventions() -> Sequence[type[Intervention]] | Mapping[str, str]:
    """Return intervention classes. An intervention changes states within a backbone."""


@hookspec
def poolers() -> Sequence[type[Pooler]] | Mapping[str, str]:
    """Return pooler classes. A pooler computes one vector per sentence, or per token, from token states."""


@hookspec
def prompts() -> Sequence[type[Prompt]] | Mapping[str, str]:
    """Return prompt classes. A prompt says how a text becomes the input of the tokenizer."""


@hookspec
def transforms() -> Sequence[type[Transform]] | Mapping[str, str]:
    """Return transform classes. A transform is a map of sentence vectors that is fitted after training."""


@hookspec
def similarities() -> Sequence[type[Similarity]] | Mapping[str, str]:
    """Return similarity classes. A similarity says how alike two encoded texts are."""


@hookspec
def losses() -> Sequence[type[Loss]] | Mapping[str, str]:
    """Return loss classes. A loss computes a scalar to minimise from sentence vectors."""


@hookspec
def data_sources() -> Sequence[type[DataSource]] | Mapping[str, str]:
    """Return data source classes. A data source reads training data."""


@hookspec
def evaluators() -> Sequence[type[Evaluator]] | Mapping[str, str]:
    """Return evaluator classes. An evaluator computes the scores of an encoder."""


@hookspec
def runtimes() -> Sequence[type[Runtime]] | Mapping[str, str]:
    """Return runtime classes. A runtime is the device and the precision on which a recipe runs."""


@hookspec
def optimizers() -> Sequence[type[Optimizer]] | Mapping[str, str]:
    """Return optimiser classes. An optimiser computes new weights from gradients."""


@hookspec
def schedules() -> Sequence[type[Schedule]] | Mapping[str, str]:
    """Return schedule classes. A schedule is a factor of the learning rate for each step."""


@hookspec
def trackers() -> Sequence[type[Tracker]] | Mapping[str, str]:
    """Return tracker classes. A tracker sends a run's progress elsewhere; a recipe names it in `[[tracker]]`."""


@hookspec
def exporters() -> Sequence[type[Exporter]] | Mapping[str, str]:
    """Return exporter classes. An exporter writes the format of `sentbed export --to NAME`."""


@hookspec
def importers() -> Sequence[type[Importer]] | Mapping[str, str]:
    """Return importer classes. An importer reads the format of `sentbed import --from NAME`."""


@hookspec
def executors() -> Sequence[type[Executor]] | Mapping[str, str]:
    """Return executor classes. An executor runs the tasks of a long job, on this machine or on others."""


# --- recipe tables, commands and other offers ---------------------------------------------------------------


@hookspec
def commands() -> Mapping[str, str]:
    """Return subcommands of `sentbed` by name, such as `{"hello": "my_plugin.command:hello"}`.

    Each is a `click.Command`. It is imported when it is called, and for `sentbed --help`, which shows the first
    line of its docstring.

    A plugin is refused if it uses the name of a command of core: `check`, `plugins` or `run`.
    """


@hookspec
def recipe_tables() -> Mapping[str, type[RecipeTable] | str]:
    """Return top-level tables of a recipe that belong to this plugin, by key.

    Each is a subclass of `RecipeTable`. Such a table is structured and checked like the tables of core. If the
    plugin is not installed, a recipe with the table is refused. A plugin is refused if it uses a key of core,
    such as `expected`.
    """


@hookspec
def known_data() -> Sequence[Any]:
    """Return collections of data files, for `sentbed data`. Each is a `sentbed_common.KnownData`."""


@hookspec(firstresult=True)
def vector_store(run: Run, warn: Callable[[str], None]) -> VectorStore | None:
    """Return a store in which evaluations find vectors of earlier evaluations, or None.

    If several plugins return a store, the first is used. Called before anything is built, unless the recipe says
    `cache = false`. `warn` prints a message for the user. If the hook raises an error, the run goes on without a
    store.
    """


# --- lifecycle of a run --------------------------------------------------------------------------------------


@hookspec
def run_started(run: Run) -> Mapping[str, Any] | None:
    """Called once, when the run directory exists and nothing has been built.

    The returned facts, such as where a tracker writes, are added to the manifest.
    """


@hookspec
def run_resumed(
    run: Run, states: Mapping[str, Mapping[str, Any]]
) -> Mapping[str, Any] | None:
    """Called instead of `run_started` when a run goes on from a training state. Returns facts, too.

    `states` has what each plugin returned from `tracker_state` when the training state was written, by the
    plugin's name.
    """


@hookspec
def evaluation_started(
    run: Run,
    evaluator: str,
    encoder: str,
) -> None:
    """Called before an evaluation of `[[evaluate]]` starts."""


@hookspec
def evaluation_progressed(
    run: Run,
    evaluator: str,
    encoder: str,
    what: str,
    done: int,
    total: int,
) -> None:
    """Called often during an evaluation, with the progress of one of its parts.

    `what` names the part, such as `encode`; `done` is how much of `total` is done.
    """


@hookspec
def scores_ready(
    run: Run,
    evaluator: str,
    encoder: str,
    evaluation: Evaluation,
) -> None:
    """Called when an evaluation of `[[evaluate]]` has finished, with all its scores."""


@hookspec
def stage_started(
    run: Run,
    stage: str,
    total_steps: int,
) -> None:
    """Called before the first step of a stage, when its data is open, and when a run is resumed in the stage."""


@hookspec
def step_finished(
    run: Run,
    stage: str,
    step: int,
    total_steps: int,
    result: StepResult,
) -> None:
    """Called after every optimiser step; `step` counts from 1."""


@hookspec
def validated(
    run: Run,
    stage: str,
    step: int,
    score: float,
    best: bool,
) -> None:
    """Called after a validation. `best` says whether its weights are the best of the stage so far."""


@hookspec
def observed(
    run: Run,
    stage: str,
    step: int,
    encoder: str,
    evaluation: Evaluation,
) -> None:
    """Called after an evaluation of a stage's `watch`. Such an evaluation does not choose weights."""


@hookspec
def checkpoint_saved(
    run: Run,
    stage: str,
    step: int,
    path: Path,
) -> None:
    """Called when the encoders with the best weights so far have been written to `path`."""


@hookspec
def tracker_state(run: Run) -> tuple[str, Mapping[str, Any]] | None:
    """Called when a training state is written. Returns the plugin's name, and what it needs to go on, for JSON.

    The key `files` lists files and directories in the run directory that are copied if another run starts from
    this one. The results of all plugins are stored together.
    """


@hookspec
def warned(run: Run, message: str) -> None:
    """Called with every warning of the run: it goes on, but the user should know the message."""


@hookspec
def stage_finished(
    run: Run,
    stage: str,
    steps: int,
    best_score: float | None,
    best_step: int,
) -> None:
    """Called after the last step of a stage, when the weights that it keeps have been restored."""


@hookspec
def report_sections(run: Run, data: ReportData) -> Sequence[ReportSection]:
    """Return further tables for the report of a run. Called before `write_report`, even if the run has failed."""


@hookspec
def write_report(run: Run, data: ReportData) -> Path | None:
    """Write pages, tables or plots. Called when a run ends, even if it has failed; `report.json` exists then.

    Returns the file that the user should open. If several plugins return a file, the first is printed.
    """


@hookspec
def run_finished(run: Run, report: Path) -> None:
    """Called last, when the report has been written."""


@hookspec
def run_failed(run: Run, error: BaseException) -> None:
    """Called instead of `run_finished` when an error or an interruption ends the run."""
