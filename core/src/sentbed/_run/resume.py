"""Resuming a stopped run from its newest training state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import tomli

from sentbed._files import read_file
from sentbed._recipe.recipe import RESOLVED, UNDECISIVE, Recipe, resolved_toml
from sentbed._registry.offers import TABLE
from sentbed._registry.registry import Plugins, load_plugins
from sentbed._run import training_states as states
from sentbed._run.context import Kept, RunContext
from sentbed._run.manifest import describe
from sentbed._run.run_directory import read_manifest
from sentbed._run.runner import RunResult, execute
from sentbed._run.training_states import State, restoring
from sentbed.errors import RunError, reason_of


def resume(
    directory: str | Path,
    recipe: Recipe,
    plugins: Plugins | None = None,
    stages: int | None = None,
) -> RunResult:
    """Resume a stopped run from its newest training state that is not damaged.

    The result is that of an uninterrupted run. If the runtime is deterministic, it is the same bit for bit.

    Args:
        directory: Directory of the run.
        recipe: The recipe that the run was started with. If it is another one, the run goes on with it, and
            warns.
        plugins: Installed plugins; they are loaded by default.
        stages: Number of stages to run; None means all (`RunContext.stages`).

    Raises:
        RunError: if there is nothing to resume.
        Further errors: as for `run`.
    """
    directory = Path(directory)
    plugins = plugins or load_plugins()
    manifest = read_manifest(directory)
    if manifest["status"] == "finished":
        raise RunError(
            f"the run in `{directory}` has finished; there is nothing to resume"
        )

    context = RunContext(recipe.run.name, directory, recipe, stages=stages)
    state, damaged = newest_state(context)
    warnings = [f"{what}; going on from an older state" for what in damaged]
    if state is None:
        # The run starts from the beginning; a state without content stands for that.
        state = State(directory, 0, 0)
    else:
        with restoring(state):
            context.facts.update(state.content["facts"])
        warnings += _changes(context, plugins)

    # The manifest also has the resumptions since the training state was written.
    context.facts["resumed"] = manifest.get("resumed", [])
    return execute(context, plugins, state, warnings)


def _changes(context: RunContext, plugins: Plugins) -> Iterator[str]:
    """Yield a warning if the recipe is not that of the training state, and one if versions are not."""
    before = read_file(context.directory / RESOLVED).decode()
    now = resolved_toml(context.recipe)
    if _deciding(before, plugins) != _deciding(now, plugins):
        yield "the recipe is not the one that the run was started with"

    facts = describe(plugins, None)
    for name in ("plugins", "libraries", "python"):
        if context.facts.get(name) != facts[name]:
            yield "plugins or libraries have other versions than when the run was started; digits may differ"
            return


def _deciding(text: str, plugins: Plugins) -> Mapping[str, Any]:
    """Return the data of a resolved recipe without the keys that do not affect scores."""
    data = tomli.loads(text)
    for key in ("name", "cache", "allow_overlap"):
        data["run"].pop(key, None)
    for key in UNDECISIVE:
        data.pop(key, None)
    tables = plugins.names(TABLE)
    for key in list(data):
        if key in tables and not plugins.load(TABLE, key).traits.decides:
            del data[key]
    return data


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
            kept = {}
            for stage, table in state.content["kept"].items():
                kept[stage] = Kept.of(context.directory, table)
            if state.step:
                # Called for its check: the stage that had begun has kept weights, too.
                Kept.of(context.directory, state.content["keeper"])
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
