"""Resuming a stopped run: checks that recipe, code and data are the same, and goes on from a training state."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import tomli

from sentbed._document.overrides import apply_overrides
from sentbed._files import read_file
from sentbed._locations import with_absolute_paths
from sentbed._recipe.checks import check
from sentbed._recipe.load import read_document, structure_recipe
from sentbed._recipe.machine_settings import (
    left_out_sentence,
    remove_machine_settings,
    without_machine_settings,
)
from sentbed._recipe.recipe import (
    MAIN_ENCODER,
    RESOLVED,
    UNDECISIVE,
    Recipe,
    resolved_toml,
)
from sentbed._registry.computing_code import (
    code_differences,
    components_of,
    computing_code,
    hashed,
)
from sentbed._registry.registry import Plugins, load_plugins
from sentbed._run import training_states as states
from sentbed._run.context import Kept, RunContext
from sentbed._run.manifest import MANIFEST, describe
from sentbed._run.run_directory import ENCODER, alone, read_manifest, tidy
from sentbed._run.runner import RunResult, execute, sources_of
from sentbed._run.training_states import State, restoring
from sentbed.errors import ModelError, RunError, reason_of, shortened

FACTS_ADDED_TO: Mapping[str, type] = {
    "cache": dict,
    "code": dict,
    "data": dict,
    "evaluation_data": dict,
    "evaluations": list,
    "not_saved": list,
    "tokenizers": dict,
    "trained_tokens": int,
    "weights": dict,
}
"""Facts that a resumed run adds to, and the types that they must have in a training state."""


def resume(
    directory: str | Path,
    recipe: Recipe | None = None,
    plugins: Plugins | None = None,
    allow_changes: bool = False,
    stages: int | None = None,
    *,
    trust_remote_code: bool = False,
) -> RunResult:
    """Resume a stopped run from its newest training state that is not damaged.

    The result is that of an uninterrupted run. If the runtime is deterministic, it is the same bit for bit.

    Args:
        directory: Directory of the run.
        recipe: The recipe that the run was started with; by default the recipe in the directory.
        plugins: Installed plugins; they are loaded by default.
        allow_changes: Whether to go on although the recipe, the code or the data has changed.
        stages: Number of stages to run; None means all (`RunContext.stages`).
        trust_remote_code: Whether the recipe in the directory may run Python code that comes with a model.

    Raises:
        RunError: if there is nothing to resume, or the recipe, the code or the data has changed.
        ModelError: if the recipe in the directory would run code without `trust_remote_code`.
        Further errors: as for `run`.
    """
    directory = Path(directory)
    plugins = plugins or load_plugins()
    manifest = _unfinished_manifest(directory)
    recipe = recipe or own_recipe(directory, (), trust_remote_code, plugins)

    context = RunContext(
        recipe.run.name, directory, recipe, changes_allowed=allow_changes, stages=stages
    )
    newest, damaged = newest_state(context)
    # Without a training state, the run starts from the beginning; a state without content stands for that.
    state = newest or State(directory, 0, 0)
    with restoring(state):
        text = state.content.get("recipe") or read_file(directory / RESOLVED).decode()
        before = tomli.loads(text)
        facts = state.content.get("facts", {})
        _require_types_of_facts(facts)
        context.facts.update(facts)

    warnings = [f"{what}; going on from an older state" for what in damaged]
    left_out = left_out_sentence(recipe)
    if left_out is not None:
        warnings.append(left_out)
    warnings += _changes_of_recipe(context, plugins, state, before)
    warnings += _changes_of_code(context, plugins, state)
    warnings += _other_versions(context.facts, describe(plugins, None))

    # The manifest also has the resumptions since the training state was written.
    resumptions = manifest.get("resumed", [])
    if not isinstance(resumptions, list):
        raise RunError(
            f"`{directory / MANIFEST}` is damaged: `resumed` is {resumptions!r:.80}, expected a list; "
            "take it out"
        )
    context.facts["resumed"] = resumptions
    return execute(context, plugins, state, warnings)


def _unfinished_manifest(directory: Path) -> dict[str, Any]:
    """Return the manifest of a run. Raises `RunError` if the directory has no run, or the run has finished."""
    manifest = read_manifest(directory)
    if manifest["status"] == "finished":
        _tidy_again(directory)
        raise RunError(
            f"the run in `{directory}` has finished; there is nothing to resume"
        )
    return manifest


def _changes_of_recipe(
    context: RunContext,
    plugins: Plugins,
    state: State,
    before: dict[str, Any],
) -> Iterator[str]:
    """Yield a warning that lists the changes of the recipe, if there are any. `before` is the recipe's old data.

    Raises:
        RunError: if changes are not allowed, or the run cannot go on with them.
    """
    directory, recipe = context.directory, context.recipe
    after = tomli.loads(resolved_toml(recipe, directory))
    after = with_absolute_paths(after, directory)
    before = with_absolute_paths(before, directory)
    before = _with_moved_files(before, after)
    _remove_keys_without_effect(before, recipe, plugins)
    _remove_keys_without_effect(after, recipe, plugins)

    changes = [f"  {change}" for change in differences(before, after)]
    if changes and not context.changes_allowed:
        heading = (
            f"the recipe is not the one that the run in `{directory}` was started with:"
        )
        fix = "go on without these changes, or allow them (`--allow-changes`)"
        raise RunError("\n".join([heading, *changes, fix]))
    _require_same_backbones(changes, state)
    if _begun_stages(before, state) != _begun_stages(after, state):
        raise RunError(
            f"the stages that the run in `{directory}` has begun have other names, or train other encoders; "
            "undo that, or start a new run"
        )
    if changes:
        heading = "the recipe has changed since the run was started:"
        yield "\n".join([heading, *changes])


def _require_same_backbones(changes: Sequence[str], state: State) -> None:
    """Raise `RunError` if the recipe has another backbone: the training state has weights of the earlier one."""
    backbones = []
    for change in changes:
        if re.match(r"  (encoder|encoders\.[^.]+)\.backbone\b", change):
            backbones.append(change)
    if backbones and state.content:
        heading = "an encoder cannot become another one within a run:"
        fix = "start a new run for it"
        raise RunError("\n".join([heading, *backbones, fix]))


def _changes_of_code(
    context: RunContext,
    plugins: Plugins,
    state: State,
) -> Iterator[str]:
    """Yield a warning if the code that computes scores has changed since the run was started.

    Only distributions that the recipe used then and uses now are compared: another component is a change of the
    recipe.

    Raises:
        RunError: if changes are not allowed.
    """
    code_now = computing_code(components_of(context.recipe), plugins)
    with restoring(state):
        code_before = hashed(context.facts.get("code", {}))
        before = {}
        now = {}
        for name in code_before:
            if name in code_now:
                before[name] = code_before[name]
                now[name] = code_now[name]
        changes = list(code_differences(before, now))
    if not changes:
        return
    message = f"code is not what it was when the run was started: {'; '.join(changes)}"
    if not context.changes_allowed:
        raise RunError(
            f"{message}; put it back, start a new run, or allow changes to go on with it "
            "(`--allow-changes`)"
        )
    yield message


def _other_versions(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Yield a warning if plugins have other versions than in an earlier manifest, and one if libraries have."""
    earlier, current = _versions(before), _versions(now)
    for kind in sorted(earlier.keys() & current.keys()):
        changes = "; ".join(differences(earlier[kind], current[kind]))
        if changes:
            yield f"the {kind} are not those that the run was started with ({changes}); digits may differ"


def _versions(facts: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the versions in a manifest: of `plugins` and of `libraries`, each by name.

    An earlier version of sentbed may have written the manifest, so either may be missing.
    """
    versions: dict[str, dict[str, Any]] = {}
    if isinstance(facts.get("plugins"), list):
        versions["plugins"] = {}
        for plugin in facts["plugins"]:
            if isinstance(plugin, Mapping):
                versions["plugins"][str(plugin.get("name"))] = plugin.get("version")
    if isinstance(facts.get("libraries"), Mapping):
        versions["libraries"] = {**facts["libraries"]}
        if "python" in facts:
            versions["libraries"]["Python"] = facts["python"]
    return versions


def _require_types_of_facts(facts: Mapping[str, Any]) -> None:
    """Raise `TypeError` if one of these facts does not have the type that `FACTS_ADDED_TO` names."""
    for name, kind in FACTS_ADDED_TO.items():
        if name in facts and type(facts[name]) is not kind:
            raise TypeError(
                f"the fact `{name}` is {facts[name]!r:.80}, expected a {kind.__name__}"
            )


def _remove_keys_without_effect(
    data: dict[str, Any],
    recipe: Recipe,
    plugins: Plugins,
) -> None:
    """Remove the keys that do not affect scores from the TOML data of a recipe, in place.

    The number of processes, a machine setting, is removed as well, although each process draws its own dropout.
    """
    for key in ("name", "cache", "allow_overlap"):
        data.get("run", {}).pop(key, None)
    for key in UNDECISIVE:
        data.pop(key, None)
    for key in list(data):
        offer = plugins.tables.get(key)
        if offer is not None and not offer.value.traits.decides:
            del data[key]
    remove_machine_settings(data, recipe)


def _with_moved_files(before: Any, after: Any) -> Any:
    """Return the data `before`, in which the path of a missing file is replaced by its path in `after`.

    It is replaced only if the file names are equal. This is for runs that were moved without their project. Data
    and weights with other content are refused when they are read.
    """
    if isinstance(before, dict) and isinstance(after, dict):
        moved = {}
        for key, value in before.items():
            moved[key] = _with_moved_files(value, after.get(key))
        return moved
    if isinstance(before, list) and isinstance(after, list):
        if len(before) != len(after):
            return before
        return [_with_moved_files(*pair) for pair in zip(before, after, strict=True)]
    if isinstance(before, str) and isinstance(after, str):
        old, new = Path(before), Path(after)
        are_one_file = old.is_absolute() and new.is_absolute() and old.name == new.name
        # `Path.exists` raises for a name that is too long.
        if are_one_file and not os.path.exists(before):  # noqa: PTH110
            return after
    return before


def own_recipe(
    directory: Path,
    overrides: Sequence[str],
    trust_remote_code: bool,
    plugins: Plugins | None = None,
) -> Recipe:
    """Return the recipe in a run directory, without its machine settings. `overrides` may set them again.

    Raises:
        RecipeError: if the recipe has problems.
        ModelError: if the recipe would run code without `trust_remote_code`.
    """
    plugins = plugins or load_plugins()
    base = directory.resolve()
    document = read_document(directory / RESOLVED)
    # The machine settings are not trusted, so components must not look at the paths in them.
    with_settings = structure_recipe(document, plugins, base, check_files=False)
    document = without_machine_settings(document, with_settings)
    recipe = structure_recipe(apply_overrides(document, overrides), plugins, base)
    check(recipe, plugins)

    running_code = []
    for name, encoder in recipe.encoders.items():
        if encoder.runs_code:
            running_code.append(name)
    if running_code and not trust_remote_code:
        raise ModelError(
            f"the encoder `{running_code[0]}` of the run in `{directory}` wants to run Python code that comes "
            "with its model; read it, then name the RECIPE that you started the run with, or give "
            "`--trust-remote-code` (`trust_remote_code=True`)"
        )
    return recipe


def _tidy_again(directory: Path) -> None:
    """Tidy the directory of a finished run whose process was killed while it tidied."""
    if not (directory / states.STATES).exists():
        return
    with alone(directory):
        kept = {}
        for newest in states.saved_states(directory)[:1]:
            # If the training state cannot be read, it is partly removed, and the kept weights have been tidied.
            with suppress(ValueError, KeyError):
                tables = states.read(newest).content["kept"]
                for stage, table in tables.items():
                    kept[stage] = Kept.of(directory, table)
        # A run of only the first stages, from which other runs start, has no encoder. It keeps its training
        # state.
        tidy(directory, kept, (directory / ENCODER).exists())


def differences(
    before: Any,
    after: Any,
    path: str = "",
) -> Iterator[str]:
    """Yield `PATH: BEFORE -> AFTER` for each difference between the TOML data of two recipes.

    In the path, a stage has its name if that is the same in both recipes; otherwise it has its index.
    """
    if isinstance(before, dict) and isinstance(after, dict):
        for key in {**before, **after}:
            inner_path = f"{path}.{key}" if path else key
            yield from differences(before.get(key), after.get(key), inner_path)
        return
    are_lists = isinstance(before, list) and isinstance(after, list)
    if are_lists and len(before) == len(after):
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            part = _shared_name(old, new) or index
            yield from differences(old, new, f"{path}.{part}")
    elif before != after:
        yield f"{shortened(path)}: {_shown(before)} -> {_shown(after)}"


def _shared_name(before: Any, after: Any) -> str | None:
    """Return the `name` of two tables if it is the same in both; else None."""
    if not isinstance(before, dict) or not isinstance(after, dict):
        return None
    name: str | None = before.get("name")
    if name != after.get("name"):
        return None
    return name


def _shown(value: Any) -> str:
    """Return the text that stands for a value in messages."""
    if value is None:
        return "nothing"
    return shortened(repr(value))


def _begun_stages(data: Mapping[str, Any], state: State) -> list[tuple[str, list[str]]]:
    """Return the names of the stages in a recipe's data that had begun at a training state.

    Each name is followed by the names of the encoders that the stage trains.
    """
    count = state.stage
    if state.step > 0:
        count += 1
    encoders = list(data.get("encoders", [MAIN_ENCODER]))
    begun = []
    for stage in data.get("stage", [])[:count]:
        begun.append((stage["name"], stage["train"] or encoders))
    return begun


def newest_state(context: RunContext) -> tuple[State | None, list[str]]:
    """Return the newest training state that is not damaged, and messages about newer ones that are damaged.

    The state is None if the run has none. The kept weights of finished stages are added to `context.kept`.

    Raises:
        RunError: if there are training states, but all are damaged.
    """
    damaged = []
    for saved in states.saved_states(context.directory):
        try:
            state = states.read(saved)
            kept = _kept_weights(context, state)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            reason = str(error) if isinstance(error, ValueError) else reason_of(error)
            damaged.append(f"the checkpoint `{saved.path}` is damaged: {reason}")
            continue
        context.kept.update(kept)
        return state, damaged
    if damaged:
        reasons = "; ".join(damaged)
        raise RunError(
            f"{reasons}; no other is left, start the run again with another `--out`"
        )
    return None, damaged


def _kept_weights(context: RunContext, state: State) -> dict[str, Kept]:
    """Return the kept weights of each finished stage, without damaged ones that are not needed any more.

    Raises:
        ValueError: if weights that are still needed are damaged.
    """
    needed = _needed(context.recipe, state)
    kept = {}
    for name, table in state.content["kept"].items():
        try:
            kept[name] = Kept.of(context.directory, table)
        except ValueError:
            if name in needed:
                raise
    if state.step:
        # Called for its check: the stage that had begun has kept weights, too.
        Kept.of(context.directory, state.content["keeper"])
    return kept


def _needed(recipe: Recipe, state: State) -> set[str]:
    """Return the names of the finished stages whose weights are needed to go on from a training state."""
    needed = set()
    for index in range(state.stage, len(recipe.stage) + 1):
        sources = sources_of(recipe, index)
        if index == state.stage and state.step > 0:
            # Within a stage, the training state itself has the weights that the stage trains.
            for stage in recipe.stage[index : index + 1]:
                for name in recipe.trained(stage):
                    sources.pop(name, None)
        needed |= set(sources.values())
    return needed
