"""Runs a recipe: build, evaluate, train stage by stage, evaluate, report."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import Any, Literal

import attrs
import pluggy

from sentbed._encoder.encoder import Encoder, evaluate, pair_name
from sentbed._encoder.vector_store import VectorStore
from sentbed._locks import locked
from sentbed._paths import write_atomic
from sentbed._recipe.recipe import PRETRAINED, RESOLVED, Recipe, first_stages, resolved_toml
from sentbed._recipe.shared_pass import can_share
from sentbed._registry.plugin_code import reason_of
from sentbed._registry.registry import Plugins, load_plugins
from sentbed._run import score_items as items
from sentbed._run import training_states as states
from sentbed._run.checkpoints import Kept, prune, write_state
from sentbed._run.history import History
from sentbed._run.manifest import describe, peak_memory_gib
from sentbed._run.record import RECORD, plain, record_json
from sentbed._run.stage_inputs import VECTORS
from sentbed._run.stages import require_fit, train_stage
from sentbed._run.training_states import State
from sentbed._seeds import derive
from sentbed._signals import Stop
from sentbed.errors import RecipeError, RunError, SentbedError
from sentbed.protocols import START, Engine, RunStatus, Score

MANIFEST = "manifest.json"
ENCODER = "encoder"
LOCK = ".lock"


@attrs.define(eq=False)
class RunInfo:
    """What lifecycle hooks are told about the run."""

    name: str
    directory: Path
    recipe: Recipe
    facts: dict[str, Any] = attrs.field(factory=dict)
    """What the manifest will say; filled as the run goes on."""
    kept: dict[str, Kept] = attrs.field(factory=dict)
    """The weights that each finished stage has kept."""
    sources: dict[str, str] = attrs.field(factory=dict)
    """Encoder -> the stage whose weights it holds; those of before the first stage where it is not named."""
    changes_allowed: bool = False
    """Whether a resumed run may go on with another recipe or other data."""
    stepped: bool = False
    """Whether this process has taken a training step."""
    stages: int | None = None
    """Only so many of the recipe's stages are run, and nothing is evaluated after them: other runs go on from
    the state that is left. All of them where None."""
    beside: Sequence[Recipe] = ()
    """Recipes of other runs that will encode the same texts with the same backbone."""
    stop: Stop = attrs.field(factory=Stop)
    """Whether the run was asked to end."""
    plugins: Plugins | None = None
    """Those that it is run with."""

    @property
    def last(self) -> int:
        """How many stages are run."""
        return len(self.begun.stage)

    @property
    def begun(self) -> Recipe:
        """The recipe as far as it is run."""
        return self.recipe if self.stages is None else first_stages(self.recipe, self.stages)

    def source(self, encoder: str) -> Any:
        """Return, for JSON, what decides the weights that an encoder holds."""
        stage = self.sources.get(encoder, PRETRAINED)
        held = self.kept[stage].table(self.directory)["paths"][encoder] if stage in self.kept else None
        return [encoder, self.facts.get("weights", {}).get(encoder), held]


@attrs.frozen(eq=False)
class RunResult:
    """What `run` returns."""

    directory: Path
    report: Path
    """What a person is to open: `report.html` of sentbed-report, or `report.json`."""
    scores: tuple[Score, ...]
    """Every score, in the order in which they were obtained."""
    unmet: tuple[str, ...]
    """Keys of `[expected]` whose number was not reproduced within its tolerance."""


def run(recipe: Recipe, out: str | Path | None = None, plugins: Plugins | None = None) -> RunResult:
    """Run a recipe into a new run directory, `runs/NAME-TIME` where `out` is left out.

    An error or an interruption leaves the run directory usable: what was computed so far, with a report.

    Raises:
        RecipeError: where the recipe has a table that another command is for, such as `[search]`.
        RunError: where `out` already holds something, or the run cannot go on.
        DataError, ModelError, RuntimeUnavailableError: where the recipe's parts cannot be used.
    """
    for key, table in recipe.tables.items():
        if table.traits.no_run:
            raise RecipeError([recipe.document.problem(table.traits.no_run, (key,))])
    plugins = plugins or load_plugins()
    directory = new_directory(Path(out) if out is not None else _free_name(recipe.run.name))
    return execute(RunInfo(recipe.run.name, directory, recipe), plugins)


def execute(
    info: RunInfo, plugins: Plugins, resumed: State | None = None, warnings: Sequence[str] = ()
) -> RunResult:
    """Run what `info` says; with `resumed`, go on from that state, or from the beginning if it is empty."""
    recipe, directory, info.plugins = info.recipe, info.directory, plugins
    history = History()
    with info.stop.listening(), _alone(directory), _follow(plugins.manager, history, recipe) as hooks:
        try:
            source = recipe.document.file
            info.facts.update(describe(plugins, Path(source).resolve().parent if source else None))
            info.facts["seed"] = recipe.run.seed
            if resumed is not None:
                at = {"stage": resumed.stage, "step": resumed.step}
                info.facts.setdefault("resumed", []).append(at)
            else:
                write_atomic(directory / RESOLVED, resolved_toml(recipe))
            # Last, because what has a manifest is a run that can be resumed.
            _write_manifest(info, "running")
            if resumed is None:
                hooks.run_started(run=info)
            else:
                hooks.run_resumed(run=info, states=resumed.content.get("trackers", {}))
                warnings = [*warnings, *history.find_items(directory)]
            for warning in warnings:
                hooks.warned(run=info, message=warning)
            _go(info, hooks, resumed if resumed and resumed.content else None)
            write_atomic(directory / RESOLVED, resolved_toml(recipe))
            report = _close(info, hooks, history, "finished", None)
        except (Exception, KeyboardInterrupt) as error:
            # The report of what there is comes first; then the error goes on its way.
            status: RunStatus = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
            for last in (
                partial(_close, info, hooks, history, status, error),
                partial(hooks.run_failed, run=info, error=error),
            ):
                try:
                    last()
                except Exception as second:  # noqa: BLE001 - a full disk, say: the first error must come through
                    error.add_note(f"nor could the run be closed in order: {second}")
            raise
        hooks.run_finished(run=info, report=report)
    _tidy(info)
    unmet = tuple(row.key for row in history.expected(recipe) if not row.met)
    return RunResult(directory, report, history.scores, unmet)


def build_encoder(recipe: Recipe, name: str | None = None) -> Encoder:
    """Build an encoder of a recipe, without training; `name` says which where there are several.

    Raises:
        RunError: where the recipe has no encoder of that name.
    """
    name = name or recipe.main_encoder
    if name not in recipe.encoders:
        names = ", ".join(f"`{known}`" for known in recipe.encoders)
        raise RunError(f"the recipe has no encoder `{name}`, it has {names}; name one of them")
    return _build(recipe, name, recipe.runtime.build())


def build_encoders(recipe: Recipe, engine: Engine) -> dict[str, Encoder]:
    """Build every encoder of a recipe on one engine."""
    return {name: _build(recipe, name, engine) for name in recipe.encoders}


def _build(recipe: Recipe, name: str, engine: Engine) -> Encoder:
    """Build one encoder; its weights depend on the recipe alone, not on what was built before it."""

    def texts() -> Iterator[str]:
        found = False
        for stage in recipe.stage:
            columns = [column for column, tower in recipe.towers(stage).items() if tower == name]
            if columns:
                found = True
                yield from stage.data.open().texts(columns)
        if not found:
            for evaluate in recipe.evaluate:
                if (evaluate.encoder or recipe.main_encoder) == name:
                    yield from getattr(evaluate.with_, "texts", tuple)()

    engine.seed(derive(recipe.run.seed, "encoder", name))
    return Encoder.build(recipe.encoders[name], engine, texts, head_seed=_head_seed(recipe, name))


def _head_seed(recipe: Recipe, name: str) -> int:
    """Return the seed of what comes after the backbone, which does not depend on what that has drawn."""
    return derive(recipe.run.seed, "encoder", name, "head")


def _accompany(info: RunInfo, encoders: dict[str, Encoder], hooks: pluggy.HookRelay) -> None:
    """Give the encoders companions: those of other recipes over the same backbones."""
    for other in info.beside:
        for name, encoder in encoders.items() if can_share(info.recipe, other) else ():
            try:
                encoder.accompany(other.encoders[name], _head_seed(other, name))
            except Exception as error:  # noqa: BLE001 - another recipe's parts must not stop this run
                message = (
                    f"`{name}` of `{other.run.name}` is not encoded in the same pass: {reason_of(error)}"
                )
                hooks.warned(run=info, message=f"{apart}: {reason_of(error)}")


def _go(info: RunInfo, hooks: pluggy.HookRelay, resumed: State | None) -> None:
    recipe = info.recipe
    _read_evaluations(info.begun)
    store = _store(info, hooks)
    engine = recipe.runtime.build()
    info.facts["engine"] = dict(engine.describe())
    if hasattr(engine, "say"):
        engine.say = lambda message: hooks.warned(run=info, message=message)
    try:
        _work(info, hooks, resumed, engine, store)
    finally:
        try:
            info.facts["counters"] = dict(engine.counters())
        except SentbedError as error:
            hooks.warned(run=info, message=f"the engine's counters cannot be read: {error}")


def _work(
    info: RunInfo, hooks: pluggy.HookRelay, resumed: State | None, engine: Engine, store: VectorStore | None
) -> None:
    """Build, evaluate and train on an engine."""
    recipe = info.recipe
    encoders = build_encoders(recipe, engine)
    require_fit(info.begun, encoders)
    if store is not None:
        _accompany(info, encoders, hooks)
    # What other runs have their encoders draw changes nothing here.
    engine.seed(derive(recipe.run.seed, "evaluate"))
    weights = plain({name: dict(encoder.backbone.origin) for name, encoder in encoders.items()})
    if plain(info.facts.get("weights", weights)) != weights:
        message = "the models' files are not those that the run was started with"
        if not info.changes_allowed:
            raise RunError(f"{message}; put them back, or allow changes to go on with them")
        hooks.warned(run=info, message=message)
    info.facts["weights"] = weights
    if resumed is None:
        _evaluate(info, encoders, "start", hooks, store)
        if recipe.stage:
            write_state(info, 0, 0, hooks)
    try:
        for index in range(resumed.stage if resumed else 0, info.last):
            _place(info, index, encoders)
            inside = resumed is not None and resumed.stage == index and resumed.step > 0
            train_stage(info, index, encoders, hooks, resumed if inside else None)
            write_state(info, index + 1, 0, hooks)
        _place(info, info.last, encoders)
        info.stepped = True
    finally:
        # Also after an interruption: the weights that training has reached are the run's most costly result.
        # A resumed run that has not taken a step knows no better ones than those that are there.
        if info.stages is None and (info.stepped or resumed is None):
            _save(info, encoders)
    if info.stages is None:
        _evaluate(info, encoders, "end", hooks, store)


def _store(info: RunInfo, hooks: pluggy.HookRelay) -> VectorStore | None:
    """Return the store of vectors; a run that goes on counts on."""
    if not info.recipe.run.cache:
        return None
    before = info.facts.get("cache", {})
    return VectorStore(
        say=lambda message: hooks.warned(run=info, message=message),
        taken=before.get("taken", 0),
        encoded=before.get("encoded", 0),
    )


def _read_evaluations(recipe: Recipe) -> None:
    """Find what is wrong with the data of any evaluation, before the first one or a training stage."""
    looks = chain.from_iterable((stage.validate, *stage.watch) for stage in recipe.stage)
    evaluators = [entry.with_ for entry in (*recipe.evaluate, *looks) if entry is not None]
    for evaluator in {repr(evaluator): evaluator for evaluator in evaluators}.values():
        if read := getattr(evaluator, "read", None):
            read()


def _place(info: RunInfo, index: int, encoders: dict[str, Encoder]) -> None:
    """Give every encoder the weights with which stage `index` begins, or, after the last, the result."""
    wanted: dict[str, str] = {}
    for stage in info.recipe.stage[:index]:
        wanted |= dict(stage.weights) | dict.fromkeys(info.recipe.trained(stage), stage.name)
    if index < len(info.recipe.stage):
        wanted |= info.recipe.stage[index].weights
    for name, source in wanted.items():
        if source == info.sources.get(name, PRETRAINED):
            continue
        if source == PRETRAINED:
            fresh = _build(info.recipe, name, encoders[name].engine)
            encoders[name].backbone, encoders[name].placed = fresh.backbone, fresh.placed
        else:
            encoders[name].restore(info.kept[source].paths[name])
        info.sources[name] = source


def _save(info: RunInfo, encoders: dict[str, Encoder]) -> None:
    """Save every encoder that can be; raises for the first that cannot."""
    target = info.directory / ENCODER
    failed: list[SentbedError] = []
    for name, encoder in encoders.items():
        if info.recipe.stage and not encoder.is_finite():
            # Training diverged before any checkpoint was kept: such weights are not a result.
            info.facts.setdefault("not_saved", []).append(name)
            continue
        try:
            encoder.save(target if len(encoders) == 1 else target / name)
        except SentbedError as error:
            failed.append(error)
    if failed:
        raise failed[0]


def _evaluate(
    info: RunInfo,
    encoders: dict[str, Encoder],
    at: Literal["start", "end"],
    hooks: pluggy.HookRelay,
    store: VectorStore | None,
) -> None:
    for entry in info.recipe.evaluate:
        if at not in entry.at:
            continue
        name = entry.encoder or info.recipe.main_encoder
        label = pair_name(name, entry.second) + (START if at == "start" else "")
        evaluator = entry.with_
        hooks.evaluation_started(run=info, evaluator=evaluator.name, encoder=label)
        told = partial(_progressed, info=info, hooks=hooks, evaluator=evaluator.name, encoder=label)
        evaluation = evaluate(encoders, evaluator, name, entry.second, label, told, store, info.plugins)
        if store is not None:
            info.facts["cache"] = {"taken": store.taken, "encoded": store.encoded}
        items.keep_items(info.directory, evaluation.scores)
        hooks.scores_ready(run=info, encoder=label, evaluator=evaluator.name, evaluation=evaluation)


def _progressed(
    what: str, done: int, total: int, *, info: RunInfo, hooks: pluggy.HookRelay, evaluator: str, encoder: str
) -> None:
    hooks.evaluation_progressed(
        run=info, evaluator=evaluator, encoder=encoder, what=what, done=done, total=total
    )


def new_directory(directory: Path) -> Path:
    """Make a directory, or take one that is empty. Raises `RunError` where it holds something."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        held = sorted(p.name for p in directory.iterdir() if p.name != LOCK)
    except OSError as error:
        raise RunError(
            f"cannot make the run directory `{directory}`: {error.strerror or error}; choose another `--out`"
        ) from error
    if held:
        what = "a run" if MANIFEST in held else f"`{held[0]}`"
        raise RunError(f"`{directory}` already holds {what}; choose another `--out`, or move it away")
    return directory


def _free_name(name: str) -> Path:
    first = Path("runs") / f"{name}-{datetime.now():%Y%m%d-%H%M%S}"
    names = chain([first], (first.with_name(f"{first.name}-{n}") for n in count(2)))
    return next(path for path in names if not path.exists())


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """Keep other processes out of a run directory. Raises `RunError` where one is in it."""
    with locked(directory / LOCK) as free:
        if not free:
            raise RunError(f"another process is at work on the run in `{directory}`; let it end first")
        yield


@contextmanager
def _follow(manager: pluggy.PluginManager, history: History, recipe: Recipe) -> Iterator[pluggy.HookRelay]:
    """Let the history and the recipe's trackers follow the run."""
    with ExitStack() as stack:
        for follower in (history, *(tracker.build() for tracker in recipe.tracker)):
            manager.register(follower)
            stack.callback(manager.unregister, follower)
        yield manager.hook


def _tidy(info: RunInfo) -> None:
    """Remove what only a run that goes on needs, and what processes that were killed while writing left."""
    shutil.rmtree(info.directory / VECTORS, ignore_errors=True)
    if info.stages is None:
        shutil.rmtree(info.directory / states.STATES, ignore_errors=True)
    else:
        states.prune(info.directory, states.found(info.directory)[0], 1)
    for stage, kept in info.kept.items():
        prune(info, stage, kept)
    places = [info.directory, *(p for p in info.directory.rglob("*") if p.is_dir())]
    ours = []
    for path in (path for place in places for path in place.glob(".*")):
        written = re.fullmatch(r"\.(.+)\.[a-z0-9_]{8}(\.old)?", path.name)
        if written and (path.parent / written[1]).exists():
            ours.append(path)
    for path in ours:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _write_manifest(info: RunInfo, status: str) -> None:
    content = {"name": info.name, "status": status, **info.facts}
    write_atomic(info.directory / MANIFEST, json.dumps(content, indent=2, default=str) + "\n")


def _close(
    info: RunInfo, hooks: pluggy.HookRelay, history: History, status: RunStatus, error: BaseException | None
) -> Path:
    """Write the manifest's last state and the report; returns the file that a person is to open."""
    info.facts["peak_memory_gib"] = peak_memory_gib()
    data = history.report_data(info, status, error, resolved_toml(info.recipe))
    sections = chain.from_iterable(hooks.report_sections(run=info, data=data))
    data = attrs.evolve(data, sections=tuple(sections))
    record = info.directory / RECORD
    # The numbers first: whatever happens while pages are written, they are on disk.
    write_atomic(record, record_json(data).encode("utf-8", "backslashreplace"))
    pages = hooks.write_report(run=info, data=data)
    _write_manifest(info, status)
    return next(iter(pages), record)
