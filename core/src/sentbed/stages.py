"""Training, one stage."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pluggy

from sentbed.encoder import Encoder
from sentbed.errors import RunError
from sentbed.protocols import StepResult
from sentbed.recipe import Stage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sentbed.runner import RunInfo

CHECKPOINTS = "checkpoints"


def train_stage(run: RunInfo, index: int, encoder: Encoder, hooks: pluggy.HookRelay) -> None:
    """Train `encoder` as stage `index` of the run's recipe says; it then holds the weights that are kept.

    Where the stage is ended early, by an error or an interruption, the best checkpoint so far is restored
    before the exception goes on.

    Raises:
        RunError: where the loss is no longer finite.
        DataError: where the data cannot be read.
    """
    stage = run.recipe.stage[index]
    dataset = stage.data.open()
    if len(dataset) < 2:
        raise RunError(
            f"the data of stage `{stage.name}` has {len(dataset)} row, a loss over a batch needs at least 2"
        )
    run.facts.setdefault("data", {})[stage.name] = {"rows": len(dataset), "sha256": dataset.fingerprint}
    per_epoch = _batches_an_epoch(len(dataset), stage.batch_size)
    total_steps = stage.steps or per_epoch * (stage.epochs or 1)
    trainer = encoder.engine.trainer(
        encoder.placed, stage.loss, stage.optimizer, stage.schedule, total_steps, stage.max_grad_norm
    )
    encoder.require_positions(stage.max_length or encoder.recipe.max_length)
    keeper = _Keeper(run, stage, encoder, hooks)
    hooks.stage_started(run=run, stage=stage.name, total_steps=total_steps)
    tokenizer, max_length = (
        encoder.tokenizer(stage.normalize_text),
        stage.max_length or encoder.recipe.max_length,
    )
    try:
        for step, rows in enumerate(_batches(stage, len(dataset), run.recipe.run.seed, index), start=1):
            columns = dataset.rows(rows.tolist())
            keeper.at = step
            result = trainer.step(
                {name: tokenizer.encode(texts, max_length) for name, texts in columns.items()}
            )
            _require_finite(result, stage.name, step, total_steps)
            hooks.step_finished(run=run, stage=stage.name, step=step, total_steps=total_steps, result=result)
            keeper.look(step, last=step == total_steps)
            if step == total_steps:
                break
    except BaseException:
        keeper.restore()
        raise
    keeper.restore()
    hooks.stage_finished(
        run=run, stage=stage.name, steps=total_steps, best_score=keeper.score, best_step=keeper.step
    )


def _require_finite(result: StepResult, stage: str, step: int, total_steps: int) -> None:
    for what, value in (("loss", result.loss), ("gradient norm", result.grad_norm)):
        if not math.isfinite(value):
            raise RunError(
                f"the {what} of stage `{stage}` is {value} at step {step} of {total_steps}; "
                f"lower the learning rate (it was {result.learning_rate:.3g}) or raise the temperature"
            )


class _Keeper:
    """Validates, and keeps the best checkpoint on disk."""

    def __init__(self, run: RunInfo, stage: Stage, encoder: Encoder, hooks: pluggy.HookRelay) -> None:
        self.run, self.stage, self.encoder, self.hooks = run, stage, encoder, hooks
        self.path: Path = run.directory / CHECKPOINTS / stage.name
        self.score: float | None = None
        self.step = 0
        self.at = 0
        """The step whose update the weights may hold, in whole or in part."""

    def look(self, step: int, last: bool) -> None:
        validate = self.stage.validate
        if validate is None or not (last or step % validate.every == 0):
            return
        score = validate.with_.evaluate(self.encoder).primary
        latest = validate.keep == "last"
        best = latest or (not math.isnan(score) and (self.score is None or score > self.score))
        if best:
            self.score, self.step = score, step
        self.hooks.validated(run=self.run, stage=self.stage.name, step=step, score=score, best=best)
        if best and validate.keep == "best":
            self.encoder.save(self.path)
            self.hooks.checkpoint_saved(run=self.run, stage=self.stage.name, step=step, path=self.path)

    def restore(self) -> None:
        keeps_best = self.stage.validate is not None and self.stage.validate.keep == "best"
        if keeps_best and self.score is not None and self.step != self.at:
            self.encoder.restore(self.path)


def _batches_an_epoch(rows: int, batch_size: int) -> int:
    """Every row is seen; a last batch of a single row has no negatives and is left out."""
    return rows // batch_size + (rows % batch_size > 1)


def _batches(stage: Stage, rows: int, seed: int, index: int) -> Iterator[NDArray[np.int64]]:
    """Yield the rows of each batch, epoch after epoch without end, shuffled by (seed, stage, epoch)."""
    import numpy as np

    epoch = 0
    while True:
        order = np.random.default_rng([seed, index, epoch]).permutation(rows)
        for batch in range(_batches_an_epoch(rows, stage.batch_size)):
            yield order[batch * stage.batch_size : (batch + 1) * stage.batch_size]
        epoch += 1
