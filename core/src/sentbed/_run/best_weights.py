"""The best weights of a stage: validation finds them, and they are kept on disk."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import attrs

from sentbed._encoder.encoder import Encoder
from sentbed._files import read_json, remove_directory, write_directory, write_sums
from sentbed._recipe.recipe import Stage, Validate
from sentbed._run import training_states as states
from sentbed._run.context import RunContext
from sentbed._run.training_states import Kept
from sentbed.errors import DataError

CHECKPOINTS = "checkpoints"
"""Subdirectory of a run directory that has the kept weights of all stages."""


def prune_weights(
    run: Path,
    stage: str,
    kept: Kept,
) -> None:
    """Remove the kept weights of a stage that are no longer needed.

    Weights are needed if they are those of `kept`, or if a training state on disk refers to them.
    """
    needed = _needed(run) | {run / kept.directory}
    for path in (run / CHECKPOINTS / stage).glob("kept-*"):
        if path not in needed:
            remove_directory(path)


@attrs.define(eq=False)
class Keeper:
    """Validates the encoders during a stage, and keeps the best weights on disk."""

    context: RunContext
    stage: Stage
    encoders: Mapping[str, Encoder]
    trained: Mapping[str, Encoder]
    """The encoders that the stage trains."""
    kept: Kept = attrs.field(factory=Kept, init=False)
    """The best weights so far."""
    score: float | None = attrs.field(default=None, init=False)
    """Score of the last validation; None before the first."""

    def validate(self, step: int, last: bool) -> bool:
        """Validate the encoders if it is time to; return whether the stage should end early.

        `last` says whether `step` is the last step of the stage.
        """
        rule = self.stage.validate
        if rule is None or not (last or step % rule.every == 0):
            return False

        first = next(iter(self.trained))
        evaluation = self.context.evaluations.observe(self.encoders, rule, first)
        self.score = evaluation.primary
        is_best = self._is_best(rule, self.score)
        is_saved = is_best and rule.keep == "best"
        if is_best:
            self.kept = Kept(step=step, score=self.score)
        else:
            self.kept = attrs.evolve(self.kept, misses=self.kept.misses + 1)
        if is_saved:
            self.kept = self._saved(self.kept)
            prune_weights(self.context.directory, self.stage.name, self.kept)

        event = {"run": self.context.run, "stage": self.stage.name, "step": step}
        self.context.hooks.validated(**event, score=self.score, best=is_best)
        if is_saved:
            path = self.context.directory / self.kept.directory
            self.context.hooks.checkpoint_saved(**event, path=path)
        return rule.patience is not None and self.kept.misses >= rule.patience

    def _is_best(self, rule: Validate, score: float) -> bool:
        """Whether a validation score is better than that of the kept weights."""
        if rule.keep == "last" and rule.patience is None:
            # The score does not matter.
            return True
        if math.isnan(score):
            return False
        return self.kept.score is None or score > self.kept.score

    def _saved(self, kept: Kept) -> Kept:
        """Save the current weights of the encoders, after step `kept.step`; return `kept` with the directory."""
        name_of_directory = f"{CHECKPOINTS}/{self.stage.name}/kept-{kept.step:08d}"

        def save(directory: Path) -> None:
            for name, encoder in self.trained.items():
                encoder.save(directory / name)
            write_sums(directory)

        write_directory(self.context.directory / name_of_directory, save)
        return attrs.evolve(kept, directory=name_of_directory)

    def restore(self) -> None:
        """Restore the best weights, if any were saved."""
        if self.kept.directory:
            for name, encoder in self.trained.items():
                encoder.restore(self.context.directory / self.kept.directory / name)

    def finish(self, step: int) -> Kept:
        """Return the kept weights, which the encoders have from now on; `step` is the last step of the stage."""
        if not self.kept.directory:
            return self._saved(Kept(step=step, score=self.score))
        if self.kept.step != step:
            self.restore()
        return self.kept


def _needed(run: Path) -> set[Path]:
    """Return the directories of kept weights to which training states on disk refer."""
    needed = set()
    for directory in states.saved_states(run):
        try:
            kept = read_json(directory / states.STATE_FILE)["kept_so_far"]
            if kept is not None:
                needed.add(run / kept["directory"])
        except (OSError, ValueError, LookupError, TypeError, DataError):
            continue  # the state is damaged, so no run can be resumed from it
    return needed
