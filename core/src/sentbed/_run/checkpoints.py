"""What a run keeps of a stage: the best weights, and the state from which it can go on."""

from __future__ import annotations

import json
import math
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import pluggy

from sentbed._encoder.encoder import Encoder
from sentbed._paths import sha256, write_atomic
from sentbed._recipe.recipe import RESOLVED, Stage, Validate, resolved_toml
from sentbed._run import training_states as states
from sentbed._run.context import Kept, RunContext
from sentbed._run.record import plain
from sentbed._run.sampling import Sampler
from sentbed.errors import PluginError
from sentbed.protocols import Trainer

CHECKPOINTS = "checkpoints"


def prune(context: RunContext, stage: str, kept: Kept) -> None:
    """Remove weights of a stage that were kept, and that neither a state nor `kept` needs any more."""
    needed = _needed(context.directory) | {path.parent for path in kept.paths.values()}
    for path in (context.directory / CHECKPOINTS / stage).glob("kept-*"):
        if path not in needed:
            shutil.rmtree(path, ignore_errors=True)


class Keeper:
    """Validates, and keeps the best weights on disk."""

    def __init__(
        self, context: RunContext, stage: Stage, encoders: Mapping[str, Encoder], hooks: pluggy.HookRelay
    ) -> None:
        self.context, self.stage, self.encoders, self.hooks = context, stage, encoders, hooks
        self.trained = {name: encoders[name] for name in context.recipe.trained(stage)}
        self.directory: Path = context.directory / CHECKPOINTS / stage.name
        self.kept = Kept()
        self.score: float | None = None
        """Of the last validation."""
        self.at = 0
        """The step whose update the weights may hold, in whole or in part."""

    def look(self, step: int, last: bool) -> bool:
        """Validate where it is time to; return whether the stage is to end early."""
        validate = self.stage.validate
        if validate is None or not (last or step % validate.every == 0):
            return False
        score = self.context.evaluations.look(self.encoders, validate, next(iter(self.trained))).primary
        best = self._is_best(validate, score)
        keeps = best and validate.keep == "best"
        self.score = score
        if best:
            self.kept = Kept(step=step, score=score)
        if keeps:
            self.kept = self._saved(self.kept)
            prune(self.context, self.stage.name, self.kept)
        elif not best:
            self.kept = attrs.evolve(self.kept, misses=self.kept.misses + 1)
        self.hooks.validated(run=self.context.run, stage=self.stage.name, step=step, score=score, best=best)
        if keeps:
            path = self.directory / _name(step)
            self.hooks.checkpoint_saved(run=self.context.run, stage=self.stage.name, step=step, path=path)
        return validate.patience is not None and self.kept.misses >= validate.patience

    def _is_best(self, validate: Validate, score: float) -> bool:
        if validate.keep == "last" and validate.patience is None:
            return True
        return not math.isnan(score) and (self.kept.score is None or score > self.kept.score)

    def _saved(self, kept: Kept) -> Kept:
        """Return `kept` with the weights of its step, which the encoders hold, on disk."""
        paths = {name: self.directory / _name(kept.step) / name for name in self.trained}
        for name, path in paths.items():
            self.trained[name].save(path)
        return attrs.evolve(kept, paths=paths, sums={name: sha256(path) for name, path in paths.items()})

    def restore(self) -> None:
        """Go back to the weights that are kept."""
        if self.kept.paths and self.kept.step != self.at:
            for name, path in self.kept.paths.items():
                self.trained[name].restore(path)

    def finish(self, step: int) -> Kept:
        """Return what is kept, on disk, when the last step was `step`."""
        if self.kept.paths:
            return self.kept
        return self._saved(Kept(step=step, score=self.score))


def _name(step: int) -> str:
    return f"kept-{step:08d}"


class Saver:
    """Saves the training state when it is time to."""

    def __init__(
        self,
        context: RunContext,
        index: int,
        trainer: Trainer,
        sampler: Sampler,
        keeper: Keeper,
        hooks: pluggy.HookRelay,
    ) -> None:
        self.context, self.index, self.hooks = context, index, hooks
        self.trainer, self.sampler, self.keeper = trainer, sampler, keeper
        self.saved = time.monotonic()

    def look(self, step: int) -> None:
        """Write a state after step `step`, where it is time to."""
        rule = self.context.recipe.checkpoint
        due = rule.every is not None and step % rule.every == 0
        if due or time.monotonic() - self.saved >= rule.minutes * 60:
            self.save(step)

    def save(self, step: int, looked: bool = True) -> None:
        """Write a state after step `step`; `looked`: its validation, where it has one, is done."""
        own = {
            "sampler": self.sampler.state(),
            "keeper": self.keeper.kept.table(self.context.directory),
            "looked": looked,
        }
        write_state(self.context, self.index, step, self.hooks, own, self.trainer)
        prune(self.context, self.context.recipe.stage[self.index].name, self.keeper.kept)
        self.saved = time.monotonic()


def write_state(
    context: RunContext,
    stage: int,
    step: int,
    hooks: pluggy.HookRelay,
    own: Mapping[str, Any] | None = None,
    trainer: Trainer | None = None,
) -> None:
    """Write a state of the run, and drop the ones that are no longer kept."""
    trackers = hooks.tracker_state(run=context.run)
    names = [name for name, _ in trackers]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise PluginError(
            f"two trackers keep a state under the name `{repeated[0]}`; give each its own (`tracker_state`)"
        )
    content = {
        "facts": plain(context.facts),
        "kept": {name: kept.table(context.directory) for name, kept in context.kept.items()},
        "trackers": dict(trackers),
        "recipe": resolved_toml(context.recipe),
        **(own or {}),
    }
    # What goes on from this state goes on with this recipe, also where a changed one has been allowed.
    write_atomic(context.directory / RESOLVED, content["recipe"])
    state = states.write(context.directory, stage, step, content, None if trainer is None else trainer.save)
    states.prune(context.directory, state, context.recipe.checkpoint.keep)


def _needed(run: Path) -> set[Path]:
    """Return the directories of kept weights that the states on disk speak of."""
    needed = set()
    for state in states.found(run):
        try:
            keeper = json.loads((state.path / states.STATE_FILE).read_bytes()).get("keeper")
        except (OSError, ValueError):
            continue  # damaged: nobody will go on from it
        for place, _ in (keeper or {"paths": {}})["paths"].values():
            needed.add((run / place).parent)
    return needed
