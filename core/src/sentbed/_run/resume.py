"""Resuming a stopped run."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import tomli

from sentbed._document.overrides import apply_overrides
from sentbed._files import read_file, read_json
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
from sentbed._run.runner import ENCODER, RunResult, alone, execute, sources_of, tidy
from sentbed._run.trainer_inputs import VECTORS
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
"""Facts of a resumed run that are updated in place, with the types that they must have in a state."""


def resume(
    directory: str | Path,
    recipe: Recipe | None = None,
    plugins: Plugins | None = None,
    allow_changes: bool = False,
    stages: int | None = None,
    *,
    trust_remote_code: bool = False,
) -> RunResult:
    """Resume a stopped run from its newest intact state.

    The result equals that of an uninterrupted run, bit for bit if the runtime is deterministic. `recipe`, if
    given, must be the one that the run was started with; differences are refused unless `allow_changes`.
    For `stages` see `RunContext`. Without `recipe`, the directory's own is used, which runs Python code that
    comes with a model only with `trust_remote_code`.

    Raises:
        RunError: if there is nothing to resume, or the recipe or the data has changed.
        ModelError: if the directory's recipe would run code that is not trusted.
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

    # The state lacks the resumptions since it was written.
    resumptions = manifest.get("resumed", [])
    if not isinstance(resumptions, list):
        raise RunError(
            f"`{directory / MANIFEST}` is damaged: `resumed` is {resumptions!r:.80}, expected a list; "
            "take it out"
        )
    context.facts["resumed"] = resumptions
    return execute(context, plugins, state, warnings)


def _unfinished_manifest(directory: Path) -> dict[str, Any]:
    """Return the manifest of a run that can be resumed. Raises `RunError` if there is no such run."""
    try:
        manifest: dict[str, Any] = read_json(directory / MANIFEST)
        status = manifest["status"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(
            f"`{directory}` is not a run directory (no `{MANIFEST}` in it); name one"
        ) from error
    if status == "finished":
        _tidy_again(directory)
        raise RunError(
            f"the run in `{directory}` has finished; there is nothing to resume"
        )
    return manifest


def _changes_of_recipe(
    context: RunContext, plugins: Plugins, state: State, before: dict[str, Any]
) -> Iterator[str]:
    """Yield a warning of the differences between the recipe and `before`, the recipe of the run so far.

    Raises:
        RunError: if changes are not allowed, or the run cannot go on with them.
    """
    directory, recipe = context.directory, context.recipe
    after = tomli.loads(resolved_toml(recipe, directory))
    after = with_absolute_paths(after, directory)
    before = with_absolute_paths(before, directory)
    before = _with_moved_files(before, after)
    _remove_what_changes_no_score(before, recipe, plugins)
    _remove_what_changes_no_score(after, recipe, plugins)
    changes = [f"  {change}" for change in differences(before, after)]
    if changes and not context.changes_allowed:
        heading = (
            f"the recipe is not the one that the run in `{directory}` was started with:"
        )
        fix = "go on without these changes, or allow them (`--allow-changes`)"
        raise RunError("\n".join([heading, *changes, fix]))
    _require_same_backbones(changes, state)
    if _begun(before, state) != _begun(after, state):
        raise RunError(
            f"the stages that the run in `{directory}` has begun have other names, or train other encoders; "
            "undo that, or start a new run"
        )
    if changes:
        heading = "the recipe has changed since the run was started:"
        yield "\n".join([heading, *changes])


def _require_same_backbones(changes: Sequence[str], state: State) -> None:
    """Raise `RunError` if a change of the recipe concerns a backbone, since the state has its weights."""
    backbones = []
    for change in changes:
        if re.match(r"  (encoder|encoders\.[^.]+)\.backbone\b", change):
            backbones.append(change)
    if backbones and state.content:
        heading = "an encoder cannot become another one within a run:"
        fix = "start a new run for it"
        raise RunError("\n".join([heading, *backbones, fix]))


def _changes_of_code(
    context: RunContext, plugins: Plugins, state: State
) -> Iterator[str]:
    """Yield a warning if the code that computes has changed since the run was started.

    A component that the recipe no longer uses, or uses only now, is a change of the recipe.

    Raises:
        RunError: if changes are not allowed.
    """
    now = computing_code(components_of(context.recipe), plugins)
    with restoring(state):
        before = hashed(context.facts.get("code", {}))
        common = [name for name in before if name in now]
        earlier = {name: before[name] for name in common}
        current = {name: now[name] for name in common}
        edited = list(code_differences(earlier, current))
    if not edited:
        return
    message = f"code is not what it was when the run was started: {'; '.join(edited)}"
    if not context.changes_allowed:
        raise RunError(
            f"{message}; put it back, start a new run, or allow changes to go on with it "
            "(`--allow-changes`)"
        )
    yield message


def _other_versions(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Yield a warning if versions of plugins, or of libraries, differ between two manifests."""
    earlier, current = _versions(before), _versions(now)
    for kind in sorted(earlier.keys() & current.keys()):
        other = "; ".join(differences(earlier[kind], current[kind]))
        if other:
            yield f"the {kind} are not those that the run was started with ({other}); digits may differ"


def _versions(facts: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the versions in a manifest: `plugins` or `libraries` -> name -> version.

    An earlier version of sentbed may have written the manifest.
    """
    versions = {}
    if isinstance(facts.get("plugins"), list):
        named = (plugin for plugin in facts["plugins"] if isinstance(plugin, Mapping))
        versions["plugins"] = {
            str(plugin.get("name")): plugin.get("version") for plugin in named
        }
    if isinstance(facts.get("libraries"), Mapping):
        libraries = {**facts["libraries"]}
        if "python" in facts:
            libraries["Python"] = facts["python"]
        versions["libraries"] = libraries
    return versions


def _require_types_of_facts(facts: Mapping[str, Any]) -> None:
    """Raise `TypeError` if a fact of a state that the run updates has another type."""
    for name, kind in FACTS_ADDED_TO.items():
        if name in facts and type(facts[name]) is not kind:
            raise TypeError(
                f"the fact `{name}` is {facts[name]!r:.80}, expected a {kind.__name__}"
            )


def _remove_what_changes_no_score(
    table: dict[str, Any], recipe: Recipe, plugins: Plugins
) -> None:
    """Remove from the TOML data of a recipe, in place, what affects no score.

    The number of processes is removed, too, although each of them draws its own dropout.
    """
    for key in ("name", "cache"):
        table.get("run", {}).pop(key, None)
    for key in UNDECISIVE:
        table.pop(key, None)
    for key in [*table]:
        offer = plugins.tables.get(key)
        if offer is not None and not offer.value.traits.decides:
            del table[key]
    remove_machine_settings(table, recipe)


def _with_moved_files(before: Any, after: Any) -> Any:
    """Return the recipe `before`, in which paths of missing files are replaced by the paths in `after`.

    A path is replaced only by one with the same file name, for runs that were moved without their project.
    Data and weights with other content are refused when they are read.
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
    """Return the recipe in a run directory, without its machine settings, which `overrides` may replace.

    Raises:
        RecipeError: if the recipe has problems.
        ModelError: if it would run code that is not trusted.
    """
    plugins = plugins or load_plugins()
    base = directory.resolve()
    document = read_document(directory / RESOLVED)
    # The machine settings are not trusted: without `look`, components do not check the paths in them.
    whole = structure_recipe(document, plugins, base, look=False)
    document = apply_overrides(without_machine_settings(document, whole), overrides)
    recipe = structure_recipe(document, plugins, base)
    check(recipe, plugins)
    running = [name for name, encoder in recipe.encoders.items() if encoder.runs_code]
    if running and not trust_remote_code:
        raise ModelError(
            f"the encoder `{running[0]}` of the run in `{directory}` wants to run Python code that comes "
            "with its model; read it, then name the RECIPE that you started the run with, or give "
            "`--trust-remote-code` (`trust_remote_code=True`)"
        )
    return recipe


def _tidy_again(directory: Path) -> None:
    """Tidy a finished run whose process was killed while tidying."""
    if not any((directory / name).exists() for name in (states.STATES, VECTORS)):
        return
    with alone(directory):
        kept = {}
        for newest in states.saved_states(directory)[:1]:
            # If the state is partly removed, the kept weights have been tidied already.
            with suppress(ValueError, KeyError):
                tables = states.read(newest).content["kept"]
                for stage, table in tables.items():
                    kept[stage] = Kept.of(directory, table)
        # A run of the first stages only, from which others go on, has no encoder.
        tidy(directory, kept, (directory / ENCODER).exists())


def differences(before: Any, after: Any, path: str = "") -> Iterator[str]:
    """Yield `PATH: BEFORE -> AFTER` for each difference between the TOML data of two recipes.

    In a path, a stage has its name, if that is the same in both recipes, and otherwise its index.
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
    """Return the `name` of two tables, if it is the same."""
    if not isinstance(before, dict) or not isinstance(after, dict):
        return None
    name: str | None = before.get("name")
    if name != after.get("name"):
        return None
    return name


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    return shortened(repr(value))


def _count_begun(state: State) -> int:
    """Return how many stages had begun when a state was written."""
    if state.step > 0:
        return state.stage + 1
    return state.stage


def _begun(recipe: Mapping[str, Any], state: State) -> list[tuple[str, list[str]]]:
    """Return name and trained encoders of each stage that had begun; `recipe` is TOML data."""
    stages = recipe.get("stage", [])[: _count_begun(state)]
    encoders = list(recipe.get("encoders", [MAIN_ENCODER]))
    return [(stage["name"], stage["train"] or encoders) for stage in stages]


def newest_state(context: RunContext) -> tuple[State | None, list[str]]:
    """Return the newest intact state and messages about damaged newer ones; set `context.kept`.

    Raises:
        RunError: if there are states, but none is intact.
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
    """Return finished stage -> its kept weights, without damaged ones that are no longer needed.

    Raises `ValueError` if weights are damaged that are still needed.
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
        # The stage that is under way has kept weights, too.
        Kept.of(context.directory, state.content["keeper"])
    return kept


def _needed(recipe: Recipe, state: State) -> set[str]:
    """Return the finished stages whose weights are needed to go on from a state."""
    needed = set()
    for index in range(state.stage, len(recipe.stage) + 1):
        sources = sources_of(recipe, index)
        if index == state.stage and state.step > 0:
            # Within a stage, the state itself has the weights that the stage trains.
            for stage in recipe.stage[index : index + 1]:
                for name in recipe.trained(stage):
                    sources.pop(name, None)
        needed |= set(sources.values())
    return needed
