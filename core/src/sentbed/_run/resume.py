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
"""Facts of a run that is resumed, to which what follows adds, and their types in a state."""


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
        Also what `run` raises.
    """
    directory = Path(directory)
    plugins = plugins or load_plugins()
    try:
        manifest = read_json(directory / MANIFEST)
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
    recipe = recipe or own_recipe(directory, (), trust_remote_code, plugins)
    left_out = left_out_sentence(recipe)
    context = RunContext(
        recipe.run.name, directory, recipe, changes_allowed=allow_changes, stages=stages
    )
    newest, damaged = newest_state(context)
    state = newest or State(directory, 0, 0)
    with restoring(state):
        before = tomli.loads(
            state.content.get("recipe") or read_file(directory / RESOLVED).decode()
        )
        _require_types_of_facts(state.content.get("facts", {}))
        context.facts.update(state.content.get("facts", {}))
    after = tomli.loads(resolved_toml(recipe, directory))
    before, after = (with_absolute_paths(table, directory) for table in (before, after))
    before = _with_moved_files(before, after)
    for table in (before, after):
        _remove_what_changes_no_score(table, recipe, plugins)
    changes = [f"  {change}" for change in differences(before, after)]
    if changes and not allow_changes:
        raise RunError(
            "\n".join(
                [
                    f"the recipe is not the one that the run in `{directory}` was started with:",
                    *changes,
                    "go on without these changes, or allow them (`--allow-changes`)",
                ]
            )
        )
    _require_same_encoders(changes, state)
    if _begun(before, state) != _begun(after, state):
        raise RunError(
            f"the stages that the run in `{directory}` has begun have other names, or train other encoders; "
            "undo that, or start a new run"
        )
    warnings = [f"{what}; going on from an older state" for what in damaged]
    if left_out is not None:
        warnings.append(left_out)
    if changes:
        heading = "the recipe has changed since the run was started:"
        warnings.append("\n".join([heading, *changes]))
    with restoring(state):
        edited = _edited_code(recipe, plugins, context.facts.get("code", {}))
    if edited:
        message = (
            f"code is not what it was when the run was started: {'; '.join(edited)}"
        )
        if not allow_changes:
            raise RunError(
                f"{message}; put it back, start a new run, or allow changes to go on with it "
                "(`--allow-changes`)"
            )
        warnings.append(message)
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


def _require_same_encoders(changes: Sequence[str], state: State) -> None:
    """Raise `RunError` if changes of the recipe give an encoder another backbone than the state has."""
    backbones = []
    for change in changes:
        if re.match(r"  (encoder|encoders\.[^.]+)\.backbone\b", change):
            backbones.append(change)
    if backbones and state.content:
        heading = "an encoder cannot become another one within a run:"
        fix = "start a new run for it"
        raise RunError("\n".join([heading, *backbones, fix]))


def _other_versions(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Yield a warning for each kind of code whose versions are not those in the facts of a run's start."""
    earlier, current = _versions(before), _versions(now)
    for kind in sorted(earlier.keys() & current.keys()):
        other = "; ".join(differences(earlier[kind], current[kind]))
        if other:
            yield f"the {kind} are not those that the run was started with ({other}); digits may differ"


def _versions(facts: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the versions that a manifest names: kind -> name -> version. It may be of an earlier version."""
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
    """Raise `TypeError` if a fact of a state that the rest of the run adds to is not what was written."""
    for name, kind in FACTS_ADDED_TO.items():
        if name in facts and type(facts[name]) is not kind:
            raise TypeError(
                f"the fact `{name}` is {facts[name]!r:.80}, expected a {kind.__name__}"
            )


def _remove_what_changes_no_score(
    table: dict[str, Any], recipe: Recipe, plugins: Plugins
) -> None:
    """Remove from the TOML data of a recipe, in place, what affects no score.

    Dropout that several processes draw is the exception.
    """
    for key in ("name", "cache"):
        table.get("run", {}).pop(key, None)
    undecisive = [
        key
        for key in table
        if key in plugins.tables and not plugins.tables[key].value.traits.decides
    ]
    for key in (*UNDECISIVE, *undecisive):
        table.pop(key, None)
    remove_machine_settings(table, recipe)


def _with_moved_files(before: Any, after: Any) -> Any:
    """Return the data of a run's recipe with the paths of `after` for files that are no longer there.

    A run that was moved without its project names places where nothing is. Files of the same name take their
    places; data and weights with other content are refused when they are read.
    """
    if isinstance(before, dict) and isinstance(after, dict):
        return {
            key: _with_moved_files(value, after.get(key))
            for key, value in before.items()
        }
    if (
        isinstance(before, list)
        and isinstance(after, list)
        and len(before) == len(after)
    ):
        return [_with_moved_files(*pair) for pair in zip(before, after, strict=True)]
    if isinstance(before, str) and isinstance(after, str):
        paths = Path(before), Path(after)
        are_paths = all(path.is_absolute() for path in paths)
        # `Path.exists` raises for a name that is too long.
        if are_paths and paths[0].name == paths[1].name and not os.path.exists(before):  # noqa: PTH110
            return after
    return before


def _edited_code(
    recipe: Recipe, plugins: Plugins, before: Mapping[str, str]
) -> list[str]:
    """Return how the code that a run computes with differs from what was noted when it was started.

    What the recipe no longer uses, or uses now, is a change of the recipe.
    """
    now = computing_code(components_of(recipe), plugins)
    in_use = {name: text for name, text in hashed(before).items() if name in now}
    return list(code_differences(in_use, {name: now[name] for name in in_use}))


def own_recipe(
    directory: Path,
    overrides: Sequence[str],
    trust_remote_code: bool,
    plugins: Plugins | None = None,
) -> Recipe:
    """Return the recipe in a run directory, without its settings of the machine; `overrides` may give them.

    Raises:
        RecipeError: if the recipe has problems.
        ModelError: if it would run code that is not trusted.
    """
    plugins = plugins or load_plugins()
    base = directory.resolve()
    document = read_document(directory / RESOLVED)
    # Without the checks of components: what is left out must not be looked at.
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
    """Tidy a finished run whose process was killed while it did so."""
    if not any((directory / name).exists() for name in (states.STATES, VECTORS)):
        return
    with alone(directory):
        kept = {}
        for newest in states.saved_states(directory)[:1]:
            with suppress(
                ValueError, KeyError
            ):  # half removed, and then the kept weights are tidied
                tables = states.read(newest).content["kept"]
                kept = {
                    stage: Kept.of(directory, table) for stage, table in tables.items()
                }
        # A run of the first stages, from which others go on, has no encoder.
        tidy(directory, kept, (directory / ENCODER).exists())


def differences(before: Any, after: Any, path: str = "") -> Iterator[str]:
    """Yield `PATH: BEFORE -> AFTER` for every difference between two recipes as TOML data; stages by name."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in {**before, **after}:
            inner_path = f"{path}.{key}" if path else key
            yield from differences(before.get(key), after.get(key), inner_path)
    elif (
        isinstance(before, list)
        and isinstance(after, list)
        and len(before) == len(after)
    ):
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
    """Return how many stages have begun by a state."""
    if state.step > 0:
        return state.stage + 1
    return state.stage


def _begun(recipe: Mapping[str, Any], state: State) -> list[tuple[str, list[str]]]:
    """Return name and trained encoders of each stage that has begun by a state; `recipe` is TOML data."""
    stages = recipe.get("stage", [])[: _count_begun(state)]
    encoders = list(recipe.get("encoders", [MAIN_ENCODER]))
    return [(stage["name"], stage["train"] or encoders) for stage in stages]


def newest_state(context: RunContext) -> tuple[State | None, list[str]]:
    """Return the newest intact state and messages about damaged newer ones; set `context.kept`.

    Raises:
        RunError: if there are states, but none is intact.
    """
    damaged = []
    for place in states.saved_states(context.directory):
        try:
            state = states.read(place)
            needed, kept = _needed(context.recipe, state), {}
            for name, table in state.content["kept"].items():
                try:
                    kept[name] = Kept.of(context.directory, table)
                except ValueError:
                    if name in needed:
                        raise
            if state.step:
                Kept.of(context.directory, state.content["keeper"])
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            why = error if isinstance(error, ValueError) else reason_of(error)
            damaged.append(f"the checkpoint `{place.path}` is damaged: {why}")
            continue
        context.kept.update(kept)
        return state, damaged
    if damaged:
        raise RunError(
            "; ".join(damaged)
            + "; no other is left, start the run again with another `--out`"
        )
    return None, damaged


def _needed(recipe: Recipe, state: State) -> set[str]:
    """Return the finished stages whose weights a run needs that goes on from a state."""
    begun = recipe.stage[state.stage : _count_begun(state)]
    # Within a stage, the state itself has the weights that the stage trains.
    inside = {name for stage in begun for name in recipe.trained(stage)}
    return {
        source
        for index in range(state.stage, len(recipe.stage) + 1)
        for name, source in sources_of(recipe, index).items()
        if index > state.stage or name not in inside
    }
