"""Runs a recipe: builds its encoders, trains them stage by stage, evaluates them, and writes the report."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

import attrs
import pluggy

from sentbed._encoder.encoder import Encoder, engine_of, pair_name
from sentbed._files import sha256, write_atomic
from sentbed._json import key_of, plain
from sentbed._machine_resources import peak_memory
from sentbed._recipe.checks import require_available
from sentbed._recipe.component_notes import naming_components
from sentbed._recipe.data_overlap import (
    choosing_on_test_data,
    training_on_test_data,
)
from sentbed._recipe.recipe import RESOLVED, decisive, first_stages, resolved_toml
from sentbed._recipe.remarks import untrained_layers
from sentbed._registry.computing_code import components_of, computing_code
from sentbed._registry.registry import Plugins, load_plugins
from sentbed._run.context import RunContext
from sentbed._run.encoder_building import build_encoders, build_on_engine
from sentbed._run.expected_numbers import expected_rows
from sentbed._run.manifest import describe, read_manifest, write_manifest
from sentbed._run.report_json import write_report
from sentbed._run.run_directory import (
    alone,
    free_name,
    new_directory,
    saved_encoders,
    tidy,
)
from sentbed._run.trackers import following
from sentbed._run.trainer_inputs import require_data
from sentbed._run.training_loop import require_fit, save_state, train_stage
from sentbed._run.training_states import State, newest_state
from sentbed._seeds import derive
from sentbed.errors import RecipeError, RunError
from sentbed.protocols import (
    PRETRAINED,
    START,
    Engine,
    Recipe,
    RunStatus,
    Score,
    VectorStore,
)


@attrs.frozen(eq=False)
class RunResult:
    """Result of a run."""

    directory: Path
    """The run directory."""
    report: Path
    """File that the user should open: `report.html` if sentbed-report is installed, otherwise `report.json`."""
    scores: tuple[Score, ...]
    """All scores, in the order in which they were computed."""
    unmet: tuple[str, ...]
    """Keys of the numbers in `[expected]` that were not reproduced within their tolerance."""
    undefined: tuple[Score, ...] = ()
    """Scores after training that are not a number."""


Share: TypeAlias = Callable[
    [VectorStore, Mapping[str, Encoder], Callable[[str], None]], VectorStore
]
"""Function that returns a vector store that several runs use together.

Its arguments are the store of a run, the encoders of the run, and `warn`.
"""


def run(
    recipe: Recipe,
    out: str | Path | None = None,
    plugins: Plugins | None = None,
) -> RunResult:
    """Run a recipe in the new run directory `out`, by default `runs/NAME-TIME`.

    After an error or an interruption, the run directory has the results so far, and a report.

    Raises:
        RecipeError: if the recipe has a table that another command runs, such as `[study]`.
        RunError: if `out` is not empty, or the run cannot go on.
        DataError, ModelError, RuntimeUnavailableError: if data, a model or the runtime cannot be used.
    """
    for key, table in recipe.tables.items():
        if table.traits.no_run:
            raise RecipeError([recipe.document.problem(table.traits.no_run, (key,))])
    require_available(recipe.runtime)
    plugins = plugins or load_plugins()
    directory = free_name(recipe.run.name) if out is None else Path(out)
    return run_in(recipe, new_directory(directory), plugins)


def resume(
    directory: str | Path,
    recipe: Recipe,
    plugins: Plugins | None = None,
) -> RunResult:
    """Resume a stopped run from its training state.

    The result is that of an uninterrupted run. If the runtime is deterministic, it is the same bit for bit. A run
    that has no training state yet starts again.

    Args:
        directory: Directory of the run.
        recipe: The recipe that the run was started with. If it is another one, the run goes on with it, and
            warns.
        plugins: Installed plugins; they are loaded by default.

    Raises:
        RunError: if there is nothing to resume.
        Further errors: as for `run`.
    """
    directory = Path(directory)
    if read_manifest(directory)["status"] == "finished":
        raise RunError(
            f"the run in `{directory}` has finished; there is nothing to resume"
        )
    return go_on(recipe, directory, plugins or load_plugins())


def run_in(
    recipe: Recipe,
    directory: Path,
    plugins: Plugins,
    share: Share | None = None,
) -> RunResult:
    """Run a recipe in a run directory that `new_directory` has made.

    Args:
        recipe: The recipe.
        directory: The run directory.
        plugins: Installed plugins.
        share: Makes a vector store that several runs use together; None if the run uses its store alone.
    """
    context = RunContext(directory, recipe, plugins)
    with _recorded(context):
        _train_and_evaluate(context, share)
    return _result(context)


def go_on(
    recipe: Recipe,
    directory: Path,
    plugins: Plugins,
) -> RunResult:
    """Go on with the run in a directory from its training state; start again if it has none."""
    context = RunContext(directory, recipe, plugins, newest_state(directory))
    with _recorded(context):
        _train_and_evaluate(context, None)
    return _result(context)


def train_first_stages(
    recipe: Recipe,
    count: int,
    directory: Path,
    plugins: Plugins,
) -> RunResult:
    """Make the evaluations before training, and train only the first `count` stages of a recipe.

    The directory keeps the training state after these stages, from which other runs can go on. There are no
    evaluations after training, and no saved encoders. A stopped run goes on from its training state.
    """
    context = RunContext(directory, recipe, plugins, newest_state(directory))
    with _recorded(context, keeps_state=True):
        first = first_stages(recipe, count)
        _read_data(context, first)
        engine = engine_of(recipe.runtime)
        with _recording(context, engine):
            # Tokenizers may be trained on the texts of all stages.
            encoders = build_encoders(recipe, engine, context.evaluations)
            _check_encoders(context, first, encoders)
            _evaluate_before_training(context, engine, encoders)
            _train(context, count, encoders)
    return _result(context)


def evaluate_trained(
    recipe: Recipe,
    encoders: Mapping[str, Encoder],
    directory: Path,
    plugins: Plugins,
) -> RunResult:
    """Make the evaluations after training with trained encoders, which are neither fitted nor saved again.

    All encoders have the same engine.
    """
    recipe = attrs.evolve(recipe, stage=())
    context = RunContext(directory, recipe, plugins)
    with _recorded(context):
        for remark in context.evaluations.prepare(recipe):
            context.warn(remark)
        context.store = _store(context)
        engine = next(iter(encoders.values())).engine
        with _recording(context, engine):
            _record_encoders(context, encoders)
            engine.seed(derive(recipe.run.seed, "evaluate"))
            _evaluate(context, encoders, "end")
    return _result(context)


@contextmanager
def _recorded(context: RunContext, keeps_state: bool = False) -> Iterator[None]:
    """Record the run that the `with` block does: trackers follow it, and a report is written at its end.

    With `keeps_state`, the training state stays after a run that finishes.
    """
    with context.stop.listening(), alone(context.directory), following(context):
        try:
            _begin(context)
            with naming_components(context.recipe):
                yield
            context.report = _close(context, "finished", None)
        except (Exception, KeyboardInterrupt) as error:
            _close_failed(context, error)
            raise
        context.hooks.run_finished(run=context.run, report=context.report)
        with context.stop.patient():
            tidy(context.directory, context.kept, keeps_state)


def _begin(context: RunContext) -> None:
    """Record facts, write recipe and manifest, and call the hook `run_started` or `run_resumed`."""
    recipe, facts, resumed = context.recipe, context.facts, context.resumed
    recipe_directory = None
    if recipe.document.file:
        recipe_directory = Path(recipe.document.file).resolve().parent
    facts.update(describe(context.plugins, recipe_directory))
    facts["seed"] = recipe.run.seed
    facts["recipe"] = key_of(resolved_toml(decisive(recipe)))
    facts["code"] = computing_code(components_of(recipe), context.plugins)
    if resumed is not None:
        position = {"stage": resumed.stage, "step": resumed.step}
        facts.setdefault("resumed", []).append(position)

    write_atomic(context.directory / RESOLVED, resolved_toml(recipe))
    # The manifest is written last, since a directory with a manifest is taken for a run that can be resumed.
    write_manifest(context.directory, recipe.run.name, "running", facts)

    hooks = context.hooks
    if resumed is None:
        results = hooks.run_started(run=context.run)
    else:
        results = hooks.run_resumed(run=context.run, states=resumed.trackers)
    for tracker_facts in results:
        facts.update(tracker_facts)

    if resumed is not None:
        # A state that another run has left for this one names no recipe.
        recipe_of_state = resumed.facts.get("recipe", facts["recipe"])
        if recipe_of_state != facts["recipe"]:
            context.warn(
                "the recipe is not that with which the run was started; the result may differ from that of an "
                "uninterrupted run"
            )


def _close(
    context: RunContext,
    status: RunStatus,
    error: BaseException | None,
) -> Path:
    """Write the report and the final manifest. Return the file that the user should open."""
    peak = peak_memory()
    context.facts["peak_memory_gib"] = round(peak / 2**30, 2) if peak else None
    report = write_report(context, status, error)
    write_manifest(context.directory, context.recipe.run.name, status, context.facts)
    return report


def _close_failed(context: RunContext, error: BaseException) -> None:
    """Write the report of a failed or interrupted run, and call the hook `run_failed`.

    If that fails, for example because the disk is full, the second error becomes a note of `error`.
    """
    status: RunStatus = "failed"
    if isinstance(error, KeyboardInterrupt):
        status = "interrupted"
    try:
        _close(context, status, error)
        context.hooks.run_failed(run=context.run, error=error)
    except Exception as second:  # noqa: BLE001 - the first error must come through
        error.add_note(f"nor could the run be closed in order: {second}")


def _result(context: RunContext) -> RunResult:
    """Return the result of a run that has finished."""
    scores = tuple(context.history.scores)
    rows = expected_rows(context.recipe.expected, scores)
    unmet = tuple(row.key for row in rows if row.decides and not row.met)
    final = [score for score in scores if not score.encoder.endswith(START)]
    undefined = tuple(score for score in final if math.isnan(score.value))
    return RunResult(context.directory, context.report, scores, unmet, undefined)


def _train_and_evaluate(
    context: RunContext,
    share: Share | None,
) -> None:
    """Evaluate the untrained encoders, train them stage by stage, save them, and evaluate them again."""
    recipe = context.recipe
    _read_data(context, recipe)
    engine = engine_of(recipe.runtime)
    with _recording(context, engine):
        encoders = build_encoders(recipe, engine, context.evaluations)
        _check_encoders(context, recipe, encoders)
        if context.store is not None and share is not None:
            context.store = share(context.store, encoders, context.warn)

        _evaluate_before_training(context, engine, encoders)
        _train_and_save(context, encoders)
        _evaluate(context, encoders, "end")


def _read_data(context: RunContext, recipe: Recipe) -> None:
    """Read the data of evaluations, check that of stages that have not ended, and open the vector store.

    `recipe` is that of what the run does: it may have only the first stages.

    Raises:
        RecipeError: if a stage trains on a copy of test data, and the recipe does not allow it.
        DataError: if data cannot be used.
    """
    remarks = context.evaluations.prepare(recipe)
    digest = cache(sha256)
    problems = []
    for path, message in training_on_test_data(context.recipe, digest):
        problems.append(context.recipe.problem(message, path))
    if problems:
        raise RecipeError(problems)

    chosen = choosing_on_test_data(recipe, digest)
    for warning in (*untrained_layers(context.recipe), *remarks, *chosen):
        # A run that goes on from a training state has some of them in its history already.
        if warning not in context.history.warnings:
            context.warn(warning)

    for stage in recipe.stage[context.first_stage :]:
        require_data(stage)
    context.store = _store(context)


@contextmanager
def _recording(context: RunContext, engine: Engine) -> Iterator[None]:
    """Record what the engine is, and what it has counted at the end of the block; its warnings are the run's."""
    context.facts["engine"] = dict(engine.describe())
    engine.report_to(context.warn)
    yield
    context.facts["counters"] = dict(engine.counters())


def _check_encoders(
    context: RunContext,
    recipe: Recipe,
    encoders: Mapping[str, Encoder],
) -> None:
    """Check that the encoders fit the stages that are run. Fit their transforms if the run has no stages.

    Otherwise, transforms are fitted after training.
    """
    _record_encoders(context, encoders)
    require_fit(recipe, encoders)
    if not context.recipe.stage:
        for encoder in encoders.values():
            encoder.fit_transform()


def _record_encoders(context: RunContext, encoders: Mapping[str, Encoder]) -> None:
    """Record the parameters, models and tokenizers of the encoders."""
    parameters = {}
    weights = {}
    tokenizers = {}
    for name, encoder in encoders.items():
        parameters[name] = encoder.placed.parameter_counts
        weights[name] = plain(encoder.backbone.origin)
        tokenizers[name] = encoder.backbone.tokenizer.fingerprint
    context.facts["parameters"] = parameters
    context.facts["weights"] = weights
    context.facts["tokenizers"] = tokenizers


def _evaluate_before_training(
    context: RunContext,
    engine: Engine,
    encoders: Mapping[str, Encoder],
) -> None:
    """Evaluate the untrained encoders, and write the first training state; a resumed run has done both."""
    # Seeded again, since building encoders for other runs may have drawn random numbers.
    engine.seed(derive(context.recipe.run.seed, "evaluate"))
    if context.resumed is not None:
        return
    _evaluate(context, encoders, "start")
    if context.recipe.stage:
        save_state(context, State(stage=0))


def _train_and_save(context: RunContext, encoders: Mapping[str, Encoder]) -> None:
    """Train the stages that are not finished, fit transforms, and save the encoders."""
    recipe = context.recipe
    try:
        _train(context, len(recipe.stage), encoders)
        if recipe.stage:
            for encoder in encoders.values():
                encoder.fit_transform()
    except BaseException as error:
        # The encoders are saved even after an interruption, since trained weights are the most costly result of
        # the run. If this process has not taken a step, there is nothing new to save.
        if context.stepped:
            try:
                _save(context, encoders)
            except Exception as second:  # noqa: BLE001 - the first error must come through
                error.add_note(f"nor could the encoders be saved: {second}")
        raise
    _save(context, encoders)


def _train(
    context: RunContext,
    count: int,
    encoders: Mapping[str, Encoder],
) -> None:
    """Train those of the first `count` stages that are not finished."""
    recipe = context.recipe
    # The encoders of a resumed run were built anew.
    earlier_weights: dict[str, str] = {}
    for stage in recipe.stage[: context.first_stage]:
        earlier_weights |= stage.weights
        earlier_weights |= dict.fromkeys(recipe.trained(stage), stage.name)
    _set_weights(context, earlier_weights, encoders)

    for index in range(context.first_stage, count):
        _set_weights(context, recipe.stage[index].weights, encoders)
        train_stage(context, index, encoders)
        save_state(context, State(stage=index + 1))


def _set_weights(
    context: RunContext,
    sources: Mapping[str, str],
    encoders: Mapping[str, Encoder],
) -> None:
    """Give encoders the weights with which a stage ended, or those before the first stage.

    `sources` has the name of the stage, or `PRETRAINED`, by the name of the encoder.
    """
    for name, source in sources.items():
        encoder = encoders[name]
        if source == PRETRAINED:
            fresh = build_on_engine(
                context.recipe, name, encoder.engine, context.evaluations
            )
            encoder.backbone = fresh.backbone
            encoder.placed = fresh.placed
        else:
            encoder.restore(context.directory / context.kept[source].directory / name)


def _store(context: RunContext) -> VectorStore | None:
    """Return the vector store of a plugin; None if there is none, or the recipe turns it off (`run.cache`)."""
    if not context.recipe.run.cache:
        return None
    store: VectorStore | None = context.plugins.manager.hook.vector_store(
        run=context.run, warn=context.warn
    )
    return store


def _save(context: RunContext, encoders: Mapping[str, Encoder]) -> None:
    """Save all encoders."""
    directories = saved_encoders(context.directory, encoders)
    for name, encoder in encoders.items():
        encoder.save(directories[name])


def _evaluate(
    context: RunContext,
    encoders: Mapping[str, Encoder],
    at: Literal["start", "end"],
) -> None:
    """Run the entries of `[[evaluate]]` whose key `at` names this time: before or after training."""
    hooks, store = context.hooks, context.store
    for entry in context.recipe.evaluate:
        if at not in entry.at:
            continue
        name = entry.encoder or context.recipe.main_encoder
        label = pair_name(name, entry.second)
        if at == "start":
            label += START
        event = {
            "run": context.run,
            "evaluator": entry.evaluator.name,
            "encoder": label,
        }
        hooks.evaluation_started(**event)
        report_progress = partial(_progressed, hooks, event)
        evaluation = context.evaluations.evaluate(
            encoders, entry, name, label, report_progress, store
        )

        if store is not None:
            context.facts["cache"] = {"taken": store.taken, "encoded": store.encoded}
        facts = {
            "at": at,
            "evaluator": entry.evaluator.name,
            "scores": len(evaluation.scores),
        }
        context.facts.setdefault("evaluations", []).append(facts)
        hooks.scores_ready(**event, evaluation=evaluation)
        for score in evaluation.scores:
            if math.isnan(score.value):
                context.warn(
                    f"the score `{score.metric}` of the task `{score.task}` for `{label}` is not a number: "
                    f"look at the data of `{score.evaluator}`, and at what training did to the encoder"
                )


def _progressed(
    hooks: pluggy.HookRelay,
    event: Mapping[str, Any],
    what: str,
    done: int,
    total: int,
) -> None:
    """Call the hook `evaluation_progressed`."""
    hooks.evaluation_progressed(**event, what=what, done=done, total=total)
