"""Writes the training state of a run: decides when, and collects its content."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import attrs

from sentbed._files import write_atomic
from sentbed._json import plain
from sentbed._recipe.recipe import RESOLVED, resolved_toml
from sentbed._run import training_states as states
from sentbed._run.batch_sampling import Sampler
from sentbed._run.best_weights import Keeper, prune_weights
from sentbed._run.context import RunContext
from sentbed.errors import PluginError
from sentbed.protocols import Trainer


@attrs.define(eq=False)
class Saver:
    """Saves the training state during a stage, at the intervals that `[checkpoint]` sets."""

    context: RunContext
    index: int
    """Index of the stage."""
    trainer: Trainer
    sampler: Sampler
    keeper: Keeper
    last_time: float = attrs.field(factory=time.monotonic, init=False)
    """Time at which the last training state was written (`time.monotonic`)."""

    def save_if_due(self, step: int) -> None:
        """Write the training state after a step, if it is time to."""
        rule = self.context.recipe.checkpoint
        is_due = rule.every is not None and step % rule.every == 0
        if is_due or time.monotonic() - self.last_time >= rule.minutes * 60:
            self.save(step)

    def save(self, step: int, evaluated: bool = True) -> None:
        """Write the training state after a step, and remove kept weights that are no longer needed.

        `evaluated` says whether the evaluations of that step are done. Otherwise, a resumed run begins with them.
        """
        stage_content = {
            "sampler": self.sampler.state(),
            "keeper": self.keeper.kept.table(self.context.directory),
            "evaluated": evaluated,
        }
        write_state(self.context, self.index, step, stage_content, self.trainer)
        prune_weights(self.context.directory, self.keeper.stage.name, self.keeper.kept)
        self.last_time = time.monotonic()


def write_state(
    context: RunContext,
    stage: int,
    step: int,
    stage_content: Mapping[str, Any] | None = None,
    trainer: Trainer | None = None,
) -> None:
    """Collect and write the training state of a run with `training_states`, and remove old states.

    Args:
        context: The run.
        stage: Index of the current stage.
        step: Number of finished steps of the stage; 0 if it has not begun.
        stage_content: Content that is needed to go on within a stage: the position of the sampler, the kept
            weights, and whether the evaluations of the step are done. None if the stage has not begun.
        trainer: Trainer of the current stage; None if the stage has not begun.

    Raises:
        PluginError: if two trackers return states under the same name.
    """
    trackers = context.hooks.tracker_state(run=context.run)
    tracker_states: dict[str, Any] = {}
    for name, tracker_state in trackers:
        if name in tracker_states:
            raise PluginError(
                f"two trackers keep a state under the name `{name}`; give each its own (`tracker_state`)"
            )
        tracker_states[name] = tracker_state

    kept_of_stages = {}
    for name, weights in context.kept.items():
        kept_of_stages[name] = weights.table(context.directory)
    content = {
        "facts": plain(context.facts),
        "kept": kept_of_stages,
        "trackers": tracker_states,
        **(stage_content or {}),
    }

    # If the run was resumed with a changed recipe, the directory gets the changed recipe.
    recipe = resolved_toml(context.recipe)
    write_atomic(context.directory / RESOLVED, recipe)
    fill = None if trainer is None else trainer.save
    state = states.write_state(context.directory, stage, step, content, fill)
    states.prune(context.directory, state, context.recipe.checkpoint.keep)
