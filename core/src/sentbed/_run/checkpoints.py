"""Checkpoints of a stage: the best weights, and training states to resume from."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from sentbed._encoder.encoder import Encoder
from sentbed._files import read_json, remove_directory, sha256, write_atomic
from sentbed._recipe.recipe import RESOLVED, Stage, Validate, resolved_toml
from sentbed._run import training_states as states
from sentbed._run.batch_sampling import Sampler
from sentbed._run.context import Kept, RunContext
from sentbed._run.report_json import plain
from sentbed.errors import DataError, PluginError
from sentbed.protocols import Trainer

CHECKPOINTS = "checkpoints"


def prune(run: Path, stage: str, kept: Kept) -> None:
    """Remove a stage's kept weights that neither a state nor `kept` refers to."""
    needed = _needed(run) | {path.parent for path in kept.paths.values()}
    for path in (run / CHECKPOINTS / stage).glob("kept-*"):
        if path not in needed:
            remove_directory(path)


@attrs.define(eq=False)
class Keeper:
    """Validates during a stage and keeps the best weights on disk."""

    context: RunContext
    stage: Stage
    encoders: Mapping[str, Encoder]
    trained: Mapping[str, Encoder]
    """Subset of `encoders` that the stage trains."""
    kept: Kept = attrs.field(factory=Kept, init=False)
    score: float | None = attrs.field(default=None, init=False)
    """Score of the last validation."""
    at: int = attrs.field(default=0, init=False)
    """Step whose update the weights may include, completely or partly."""

    def validate(self, step: int, last: bool) -> bool:
        """Validate if due; return whether the stage should end early."""
        validate = self.stage.validate
        if validate is None or not (last or step % validate.every == 0):
            return False
        score = self.context.evaluations.observe(
            self.encoders, validate, next(iter(self.trained))
        ).primary
        best = self._is_best(validate, score)
        keeps = best and validate.keep == "best"
        self.score = score
        if best:
            self.kept = Kept(step=step, score=score)
        if keeps:
            self.kept = self._saved(self.kept)
            prune(self.context.directory, self.stage.name, self.kept)
        elif not best:
            self.kept = attrs.evolve(self.kept, misses=self.kept.misses + 1)
        event = {"run": self.context.run, "stage": self.stage.name, "step": step}
        self.context.hooks.validated(**event, score=score, best=best)
        if keeps:
            self.context.hooks.checkpoint_saved(**event, path=self._directory(step))
        return validate.patience is not None and self.kept.misses >= validate.patience

    def _is_best(self, validate: Validate, score: float) -> bool:
        if validate.keep == "last" and validate.patience is None:
            return True
        return not math.isnan(score) and (
            self.kept.score is None or score > self.kept.score
        )

    def _saved(self, kept: Kept) -> Kept:
        """Save the encoders' weights, which are those of `kept.step`; return `kept` with their paths."""
        paths = {name: self._directory(kept.step) / name for name in self.trained}
        for name, path in paths.items():
            self.trained[name].save(path)
        return attrs.evolve(
            kept, paths=paths, sums={name: sha256(path) for name, path in paths.items()}
        )

    def _directory(self, step: int) -> Path:
        return (
            self.context.directory / CHECKPOINTS / self.stage.name / f"kept-{step:08d}"
        )

    def restore(self) -> None:
        """Restore the kept weights."""
        if self.kept.paths and self.kept.step != self.at:
            for name, path in self.kept.paths.items():
                self.trained[name].restore(path)

    def finish(self, step: int) -> Kept:
        """Return the kept weights after the last step `step`, saving the current ones if none were kept."""
        if self.kept.paths:
            return self.kept
        return self._saved(Kept(step=step, score=self.score))


@attrs.define(eq=False)
class Saver:
    """Saves the training state at the intervals of `[checkpoint]`."""

    context: RunContext
    index: int
    trainer: Trainer
    sampler: Sampler
    keeper: Keeper
    saved: float = attrs.field(factory=time.monotonic, init=False)

    def save_if_due(self, step: int) -> None:
        """Write a state after step `step`, if due."""
        rule = self.context.recipe.checkpoint
        due = rule.every is not None and step % rule.every == 0
        if due or time.monotonic() - self.saved >= rule.minutes * 60:
            self.save(step)

    def save(self, step: int, looked: bool = True) -> None:
        """Write a state after step `step`; `looked` says whether the step's evaluations are done."""
        stage_content = {
            "sampler": self.sampler.state(),
            "keeper": self.keeper.kept.table(self.context.directory),
            "looked": looked,
        }
        write_state(self.context, self.index, step, stage_content, self.trainer)
        prune(self.context.directory, self.keeper.stage.name, self.keeper.kept)
        self.saved = time.monotonic()


def write_state(
    context: RunContext,
    stage: int,
    step: int,
    stage_content: Mapping[str, Any] | None = None,
    trainer: Trainer | None = None,
) -> None:
    """Write a training state of the run and remove old ones."""
    trackers = context.hooks.tracker_state(run=context.run)
    names = [name for name, _ in trackers]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise PluginError(
            f"two trackers keep a state under the name `{repeated[0]}`; give each its own (`tracker_state`)"
        )
    content = {
        "facts": plain(context.facts),
        "kept": {
            name: kept.table(context.directory) for name, kept in context.kept.items()
        },
        "trackers": dict(trackers),
        "recipe": resolved_toml(context.recipe, context.directory),
        **(stage_content or {}),
    }
    # A run resumed from this state uses this recipe, which may be a changed one that was allowed.
    write_atomic(context.directory / RESOLVED, content["recipe"])
    fill = None if trainer is None else trainer.save
    state = states.write_state(context.directory, stage, step, content, fill)
    states.prune(context.directory, state, context.recipe.checkpoint.keep)


def _needed(run: Path) -> set[Path]:
    """Return the directories of kept weights that the states on disk refer to."""
    needed = set()
    for state in states.saved_states(run):
        try:
            keeper = read_json(state.path / states.STATE_FILE).get("keeper")
        except (OSError, ValueError, DataError):
            continue  # damaged: cannot be resumed from
        for place, _ in (keeper or {"paths": {}})["paths"].values():
            needed.add((run / place).parent)
    return needed
