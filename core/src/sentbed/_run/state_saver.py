"""Writes the training state of a run: decides when, and collects its content."""

from __future__ import annotations

import time

import attrs

from sentbed._run import training_states
from sentbed._run.batch_sampling import Sampler
from sentbed._run.best_weights import Keeper, prune_weights
from sentbed._run.context import RunContext
from sentbed._run.training_states import State
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
        state = State(
            stage=self.index,
            step=step,
            sampler=self.sampler.state(),
            kept_so_far=self.keeper.kept,
            evaluated=evaluated,
        )
        write_state(self.context, state, self.trainer)
        prune_weights(self.context.directory, self.keeper.stage.name, self.keeper.kept)
        self.last_time = time.monotonic()


def write_state(
    context: RunContext,
    state: State,
    trainer: Trainer | None = None,
) -> None:
    """Write a training state, completed by the facts, kept weights and trackers of the run; remove old states.

    `trainer` is the trainer of the current stage; None if the stage has not begun.
    """
    whole = attrs.evolve(
        state,
        facts=context.facts,
        kept=context.kept,
        trackers=dict(context.hooks.tracker_state(run=context.run)),
    )
    save_trainer = None if trainer is None else trainer.save
    training_states.write_state(context.directory, whole, save_trainer)
    last = whole.directory(context.directory)
    training_states.prune(context.directory, last, context.recipe.checkpoint.keep)
