"""Runs a recipe: builds its encoders, trains them stage by stage, evaluates them, and writes the report."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import attrs
import pluggy

from sentbed._encoder.encoder import Encoder, engine_of, pair_name
from sentbed._files import sha256, write_atomic
from sentbed._machine_resources import peak_memory
from sentbed._recipe.checks import require_available
from sentbed._recipe.data_overlap import (
    choosing_by_test_data,
    training_on_test_data,
)
from sentbed._recipe.recipe import (
    PRETRAINED,
    RESOLVED,
    Recipe,
    resolved_toml,
)
from sentbed._recipe.remarks import untrained_layers
from sentbed._registry.computing_code import components_of, computing_code
from sentbed._registry.registry import Plugins, load_plugins
from sentbed._run.context import RunContext
from sentbed._run.encoder_building import build_encoders, build_on_engine
from sentbed._run.evaluations import files_of_evaluations
from sentbed._run.history import History
from sentbed._run.manifest import MANIFEST, describe
from sentbed._run.report_json import RECORD, plain, record_json
from sentbed._run.run_directory import (
    alone,
    free_name,
    new_directory,
    saved_encoders,
    tidy,
)
from sentbed._run.state_saver import write_state
from sentbed._run.trackers import following
from sentbed._run.trainer_inputs import require_data
from sentbed._run.training_loop import require_fit, train_stage
from sentbed._run.training_states import State, restoring
from sentbed._seeds import derive
from sentbed.errors import RecipeError, RunError, SentbedError, listed, reason_of
from sentbed.protocols import (
    START,
    Engine,
    ReportData,
    ReportSection,
    RunStatus,
    Score,
    VectorStore,
)


@contextmanager
def exits_refused() -> Iterator[None]:
    """Raise `RunError` for a `SystemExit` in the block, whose code may be 0 although the run has not finished."""
    try:
        yield
    except SystemExit as error:
        raise RunError(
            f"a plugin ended the process ({reason_of(error)}) before the run had finished; tell its authors"
        ) from error


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
    context = RunContext(recipe.run.name, new_directory(directory), recipe)
    return execute(context, plugins)


@exits_refused()
def execute(
    context: RunContext,
    plugins: Plugins,
    resumed: State | None = None,
    warnings: Sequence[str] = (),
) -> RunResult:
    """Run the recipe of a context in its directory.

    Args:
        context: The run; `RunContext` describes the kinds of run.
        plugins: Installed plugins.
        resumed: Training state from which to go on; None for a new run. A state without content stands for a run
            that was stopped before it had saved a state; that run starts from the beginning.
        warnings: Warnings to send to the trackers when the run has started.
    """
    recipe, directory = context.recipe, context.directory
    context.evaluations.plugins = plugins
    history = History()
    context.hooks = hooks = plugins.manager.hook
    with (
        context.stop.listening(),
        alone(directory),
        following(context, plugins, history),
    ):
        try:
            _begin(context, plugins, resumed)
            for warning in warnings:
                context.warn(warning)

            state = resumed
            if state is not None and not state.content:
                state = None
            if state is None and not context.loaded:
                # If the run goes on from a training state, these warnings are in its history already.
                for warning in untrained_layers(recipe):
                    context.warn(warning)
            with exits_refused():
                _read_and_work(context, state)

            write_atomic(directory / RESOLVED, resolved_toml(recipe))
            report = _close(context, history, "finished", None)
        except (Exception, KeyboardInterrupt) as error:
            _close_failed(context, history, error)
            raise
        hooks.run_finished(run=context.run, report=report)
        with context.stop.patient():
            tidy(directory, context.kept, context.is_whole)

    rows = history.expected(recipe)
    unmet = tuple(row.key for row in rows if row.decides and not row.met)
    scores = tuple(history.scores)
    final = [score for score in scores if not score.encoder.endswith(START)]
    undefined = tuple(score for score in final if math.isnan(score.value))
    return RunResult(directory, report, scores, unmet, undefined)


def _begin(
    context: RunContext,
    plugins: Plugins,
    resumed: State | None,
) -> None:
    """Record facts, write the manifest, and call the hook `run_started` or `run_resumed`.

    A new run writes the recipe as well.
    """
    recipe, directory, facts = context.recipe, context.directory, context.facts
    recipe_directory = None
    if recipe.document.file:
        recipe_directory = Path(recipe.document.file).resolve().parent
    facts.update(describe(plugins, recipe_directory))
    facts["seed"] = recipe.run.seed
    facts["code"] = computing_code(components_of(recipe), plugins)

    if resumed is not None:
        position = {"stage": resumed.stage, "step": resumed.step}
        facts.setdefault("resumed", []).append(position)
    else:
        write_atomic(directory / RESOLVED, resolved_toml(recipe))
    # The manifest is written last, since a directory with a manifest is taken for a run that can be resumed.
    _write_manifest(context, "running")

    if resumed is None:
        results = context.hooks.run_started(run=context.run)
    else:
        with restoring(resumed):
            tracker_states = resumed.content.get("trackers", {})
            results = context.hooks.run_resumed(run=context.run, states=tracker_states)
    for tracker_facts in results:
        facts.update(tracker_facts)


def _close_failed(
    context: RunContext,
    history: History,
    error: BaseException,
) -> None:
    """Write the report of a failed or interrupted run, and call the hook `run_failed`.

    If one of the two fails, for example because the disk is full, its error becomes a note of `error`.
    """
    status: RunStatus = "failed"
    if isinstance(error, KeyboardInterrupt):
        status = "interrupted"
    for close in (
        partial(_close, context, history, status, error),
        partial(context.hooks.run_failed, run=context.run, error=error),
    ):
        try:
            close()
        except Exception as second:  # noqa: BLE001 - the first error must come through
            error.add_note(f"nor could the run be closed in order: {second}")


def _read_and_work(context: RunContext, resumed: State | None) -> None:
    """Read and check all data, build the engine, and train and evaluate on it."""
    remarks = context.evaluations.prepare(context.limited_recipe)
    if resumed is None:
        # If the run goes on from a training state, these warnings are in its history already.
        for remark in remarks:
            context.warn(remark)
    digest = cache(sha256)
    _record_files(context, digest)
    _require_no_overlap(context, digest, resumed)
    first = resumed.stage if resumed else 0
    for stage in context.limited_recipe.stage[first:]:
        require_data(stage)
    context.evaluations.store = _store(context)

    engine: Engine | None = None
    for encoder in context.built.values():
        engine = encoder.engine
    if engine is None:
        engine = engine_of(context.recipe.runtime)
    context.facts["engine"] = dict(engine.describe())
    engine.report_to(context.warn)
    try:
        _work(context, resumed, engine)
    finally:
        try:
            context.facts["counters"] = dict(engine.counters())
        except SentbedError as error:
            context.warn(f"the engine's counters cannot be read: {error}")


def _record_files(context: RunContext, digest: Callable[[Path], str]) -> None:
    """Record the files that evaluations read. Warn if a resumed run began with other files."""
    files = files_of_evaluations(context.recipe, digest)
    digests_by_name: dict[str, list[str]] = {}
    for file in files:
        # Two files may have the same name.
        digests_by_name.setdefault(file.name, []).append(file.sha256)
    earlier = context.facts.get("evaluation_data", digests_by_name)
    changed = []
    for name, digests in digests_by_name.items():
        if earlier.get(name, digests) != digests:
            changed.append(name)
    if changed:
        context.warn(
            f"the data of evaluations is not what it was when the run started: {listed(changed)}"
        )
    context.facts["evaluation_data"] = digests_by_name

    # Weights are chosen by scores on these files, so these files are not test data.
    deciding = {file.sha256 for file in files if file.chooses and file.path.is_file()}
    context.facts["chosen_on"] = sorted(deciding)


def _require_no_overlap(
    context: RunContext,
    digest: Callable[[Path], str],
    resumed: State | None,
) -> None:
    """Compare the contents of files: warn of validations that choose weights by test data.

    Raises:
        RecipeError: if a stage trains on test data, and the recipe does not allow it.
    """
    recipe = context.recipe
    problems = list(training_on_test_data(recipe, digest))
    if problems:
        raise RecipeError(problems)

    if resumed is None and not context.loaded:
        for warning in choosing_by_test_data(recipe, digest):
            context.warn(warning)


def _work(
    context: RunContext,
    resumed: State | None,
    engine: Engine,
) -> None:
    """Build the encoders, evaluate them, train them stage by stage, save them, and evaluate them again.

    The kind of the run decides which of these steps are left out, see `RunContext`. Transforms are fitted before
    the first evaluation if the recipe has no stages. Otherwise, they are fitted after training.
    """
    recipe = context.recipe
    encoders = dict(context.built)
    if not encoders:
        encoders = build_encoders(recipe, engine, context.evaluations)
    parameters = {}
    for name, encoder in encoders.items():
        parameters[name] = encoder.placed.parameter_counts
    context.facts["parameters"] = parameters
    require_fit(context.limited_recipe, encoders)
    if not recipe.stage and not context.loaded:
        for encoder in encoders.values():
            encoder.fit_transform()

    store = context.evaluations.store
    if store is not None and context.share is not None:
        context.evaluations.store = context.share(store, encoders, context.warn)
    # Seeded again, since building encoders for other runs may have drawn random numbers.
    engine.seed(derive(recipe.run.seed, "evaluate"))
    _record_models(context, encoders)
    if resumed is None:
        _evaluate(context, encoders, "start")
        if recipe.stage:
            write_state(context, 0, 0)

    _train_and_save(context, resumed, encoders)
    if context.is_whole:
        _evaluate(context, encoders, "end")


def _train_and_save(
    context: RunContext,
    resumed: State | None,
    encoders: dict[str, Encoder],
) -> None:
    """Train the stages that are not finished, fit transforms, and save the encoders.

    `resumed` is the training state from which the run goes on; None if it starts from the beginning.
    """
    try:
        _train(context, resumed, encoders)
    except BaseException as error:
        # The encoders are saved even after an interruption, since trained weights are the most costly result of
        # the run.
        try:
            _save_last(context, resumed, encoders)
        except Exception as second:  # noqa: BLE001 - the first error must come through
            error.add_note(f"nor could the encoders be saved: {second}")
        raise

    _save_last(context, resumed, encoders)


def _train(
    context: RunContext,
    resumed: State | None,
    encoders: dict[str, Encoder],
) -> None:
    """Train the stages that are not finished, and fit transforms."""
    first = resumed.stage if resumed else 0
    last = len(context.limited_recipe.stage)
    for index in range(first, last):
        _set_weights(context, index, encoders)
        state = None
        if resumed is not None and resumed.stage == index and resumed.step > 0:
            state = resumed
        train_stage(context, index, encoders, state)
        write_state(context, index + 1, 0)

    _set_weights(context, last, encoders)
    # This holds even if this process has taken no step: encoders that were saved after an interruption may not
    # have the final weights.
    context.stepped = True
    if context.recipe.stage and context.is_whole:
        for encoder in encoders.values():
            encoder.fit_transform()


def _save_last(
    context: RunContext,
    resumed: State | None,
    encoders: dict[str, Encoder],
) -> None:
    """Save the encoders of a whole run, unless the encoders that are already saved are as good."""
    if not context.is_whole or context.loaded:
        return
    # If a resumed run has not taken a step, the encoders on disk have the same weights.
    if context.stepped or resumed is None:
        _save(context, encoders)


def _record_models(context: RunContext, encoders: Mapping[str, Encoder]) -> None:
    """Record the models and tokenizers of the encoders. Warn if a resumed run began with others."""
    weights = {}
    tokenizers = {}
    for name, encoder in encoders.items():
        weights[name] = plain(encoder.backbone.origin)
        tokenizers[name] = encoder.backbone.tokenizer.fingerprint

    if plain(context.facts.get("weights", weights)) != weights:
        context.warn("the models' files are not those that the run was started with")
    # A tokenizer may be trained on the texts of all stages.
    if context.facts.get("tokenizers", tokenizers) != tokenizers:
        context.warn("the tokenizers are not those that the run was started with")

    context.facts["weights"] = weights
    context.facts["tokenizers"] = tokenizers


def _store(context: RunContext) -> VectorStore | None:
    """Return the vector store of a plugin, or None.

    None means that no plugin offers one, that the recipe turns it off (`run.cache`), or that the plugin's hook
    failed. In a resumed run, the store's two counts of vectors go on from where the run stopped: `taken`, those
    read from the store, and `encoded`, those computed.
    """
    if not context.recipe.run.cache:
        return None
    try:
        store: VectorStore | None = context.hooks.vector_store(
            run=context.run, warn=context.warn
        )
    except SentbedError:
        # A setting of the user is wrong.
        raise
    except Exception as error:  # noqa: BLE001 - a plugin's fault must not end the run
        context.warn(
            f"the hook `vector_store` failed ({type(error).__name__}: {error}); "
            "vectors are computed, and not kept"
        )
        return None
    if store is None:
        return None
    before = context.facts.get("cache")
    if before:
        store.taken = before["taken"]
        store.encoded = before["encoded"]
    return store


def _set_weights(
    context: RunContext,
    index: int,
    encoders: dict[str, Encoder],
) -> None:
    """Give each encoder the weights with which stage `index` starts.

    If `index` is the number of stages, these are its final weights.
    """
    for name, source in sources_of(context.recipe, index).items():
        if source == context.sources.get(name, PRETRAINED):
            continue
        encoder = encoders[name]
        if source == PRETRAINED:
            fresh = build_on_engine(
                context.recipe, name, encoder.engine, context.evaluations
            )
            encoder.backbone = fresh.backbone
            encoder.placed = fresh.placed
        else:
            encoder.restore(context.kept[source].paths[name])
        context.sources[name] = source


def sources_of(recipe: Recipe, index: int) -> dict[str, str]:
    """Return, for each encoder, the name of the stage whose weights it has at the start of stage `index`.

    If `index` is the number of stages, these are its final weights. An encoder without an entry has the weights
    before the first stage.
    """
    sources: dict[str, str] = {}
    for stage in recipe.stage[:index]:
        sources |= stage.weights
        sources |= dict.fromkeys(recipe.trained(stage), stage.name)
    if index < len(recipe.stage):
        sources |= recipe.stage[index].weights
    return sources


def _save(context: RunContext, encoders: dict[str, Encoder]) -> None:
    """Save all encoders, except those whose training has diverged.

    If one cannot be saved, the others still are; then the first error is raised.
    """
    directories = saved_encoders(context.directory, encoders)
    errors: list[SentbedError] = []
    for name, encoder in encoders.items():
        if context.recipe.stage and not encoder.is_finite():
            # Training has diverged before a validation, so the weights are useless.
            context.facts.setdefault("not_saved", []).append(name)
            continue
        try:
            encoder.save(directories[name], context.evaluations.plugins)
        except SentbedError as error:
            errors.append(error)
    if errors:
        raise errors[0]


def _evaluate(
    context: RunContext,
    encoders: dict[str, Encoder],
    at: Literal["start", "end"],
) -> None:
    """Run the entries of `[[evaluate]]` whose key `at` names this time: before or after training."""
    evaluations, hooks = context.evaluations, context.hooks
    entries = [entry for entry in context.recipe.evaluate if at in entry.at]
    bar = evaluations.bar(entries)
    for entry in entries:
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
        evaluation = evaluations.evaluate(
            encoders, entry, name, label, report_progress, bar
        )

        store = evaluations.store
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
                    f"the score `{score.metric}` of the task `{score.task}` is not a number; the evaluator "
                    f"`{score.evaluator}` of {score.plugin} computed it from the vectors of `{label}`: look at "
                    "its data, and at what training did to the encoder"
                )


def _progressed(
    hooks: pluggy.HookRelay,
    event: Mapping[str, Any],
    what: str,
    done: int,
    total: int,
) -> None:
    """Call the hook `evaluation_progressed`."""
    hooks.evaluation_progressed(
        **event,
        what=what,
        done=done,
        total=total,
    )


def _write_manifest(context: RunContext, status: str) -> None:
    """Write the manifest: the name of the run, its status, and the facts so far."""
    content = {"name": context.name, "status": status, **context.facts}
    text = json.dumps(content, indent=2, default=str)
    write_atomic(context.directory / MANIFEST, text + "\n")


def _with_sections(data: ReportData, sections: Iterable[ReportSection]) -> ReportData:
    """Return the data of a report, with these sections as its sections.

    If several sections have the same key, only the first is used, and a warning is added for each other one.
    """
    by_key: dict[str, ReportSection] = {}
    warnings = list(data.warnings)
    for section in sections:
        first = by_key.setdefault(section.key, section)
        if first is not section:
            warnings.append(
                f"the report's section `{section.title}` is left out: `{first.title}` has its key "
                f"`{section.key}`, too; its plugin must choose another"
            )
    return attrs.evolve(data, sections=tuple(by_key.values()), warnings=tuple(warnings))


def _close(
    context: RunContext,
    history: History,
    status: RunStatus,
    error: BaseException | None,
) -> Path:
    """Write the report and the final manifest. Return the file that the user should open."""
    peak = peak_memory()
    context.facts["peak_memory_gib"] = round(peak / 2**30, 2) if peak else None
    recipe = resolved_toml(context.recipe)
    data = history.report_data(context.run, status, error, recipe)
    sections = context.hooks.report_sections(run=context.run, data=data)
    data = _with_sections(data, chain.from_iterable(sections))

    record = context.directory / RECORD
    # The numbers are written first, so that they are on disk even if writing the pages fails.
    write_atomic(record, record_json(data))
    pages = context.hooks.write_report(run=context.run, data=data)
    _write_manifest(context, status)
    return next(iter(pages), record)
