"""The training loop of a stage: takes steps, evaluates, and saves the training state."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NoReturn, cast

from sentbed._encoder.encoder import Encoder, pair_name
from sentbed._recipe.checks import loss_of
from sentbed._run.batch_sampling import Batch
from sentbed._run.best_weights import Keeper
from sentbed._run.context import RunContext
from sentbed._run.state_saver import Saver
from sentbed._run.trainer_inputs import Feed, length_of, sampler_of
from sentbed._run.training_states import Kept, State, restoring
from sentbed._seeds import derive
from sentbed.errors import RunError, SentbedError
from sentbed.protocols import (
    Dataset,
    Recipe,
    Stage,
    StepResult,
    TokenIds,
    Trainer,
    Training,
    TrainingEngine,
    Watch,
)

FIRST_ROWS = 5
"""Largest number of rows of a batch that a message lists."""


def train_stage(
    context: RunContext,
    index: int,
    encoders: Mapping[str, Encoder],
    resumed: State | None = None,
) -> None:
    """Train the stage of the recipe with this index.

    Afterwards, the encoders have the weights that the stage keeps: the best, or those after its last step.

    With a training state `resumed`, the stage goes on from that state; with None, the stage starts from its
    beginning. If an error or an interruption ends the stage early, the best weights so far are restored, and the
    exception is raised again.

    Raises:
        RunError: if the loss is no longer finite, or the data has changed since the run was started.
        DataError: if the data cannot be read.
    """
    loop = _Loop(context, index, encoders)
    context.hooks.stage_started(
        run=context.run,
        stage=loop.stage.name,
        total_steps=loop.total_steps,
    )
    try:
        loop.train(resumed)
    except BaseException as error:
        try:
            loop.keeper.restore()
        except SentbedError as second:
            error.add_note(f"nor could the best weights be restored: {second}")
        raise
    loop.finish()


class _Loop:
    """The training loop of one stage."""

    def __init__(
        self,
        context: RunContext,
        index: int,
        encoders: Mapping[str, Encoder],
    ) -> None:
        self.context = context
        self.encoders = encoders
        self.stage = stage = context.recipe.stage[index]
        self.trained = {name: encoders[name] for name in context.recipe.trained(stage)}
        self.step = 0
        """Number of steps taken."""
        self.ended = False
        """Whether the stage has ended, after its last step or because validation did not improve."""

        seed = context.recipe.run.seed
        dataset = _open(context, stage)
        self.feed = Feed(context, stage, encoders)
        self.sampler = sampler_of(stage, dataset, (seed, index))
        self.total_steps = stage.steps or 0
        if stage.epochs is not None:
            self.total_steps = stage.epochs * self.sampler.batches_an_epoch

        # The random numbers of the stage must not depend on what ran before it, or on whether it was resumed.
        first = next(iter(self.trained.values()))
        first.engine.seed(derive(seed, "stage", index))
        self.trainer = self._trainer(first)
        self.keeper = Keeper(context, stage, encoders, self.trained)
        self.saver = Saver(context, index, self.trainer, self.sampler, self.keeper)

    def _trainer(self, first: Encoder) -> Trainer:
        """Return the trainer; all encoders have the engine and the similarity of the `first`."""
        stage = self.stage
        training = Training(
            loss=loss_of(stage, first.similarity),
            optimizer=stage.optimizer,
            schedule=stage.schedule,
            total_steps=self.total_steps,
            towers=self.feed.towers,
            max_grad_norm=stage.max_grad_norm,
            micro_batch=stage.micro_batch,
            ema=stage.ema,
        )
        placed = {name: encoder.placed for name, encoder in self.trained.items()}
        return cast(TrainingEngine, first.engine).trainer(placed, training)

    def train(self, resumed: State | None) -> None:
        """Take steps until the last one, or until validation does not improve any more."""
        if resumed is None:
            # The initial weights are validated, too, since the stage may keep them.
            self._evaluate()
        else:
            self._resume(resumed)

        stop = self.context.stop
        while not self.ended:
            self.step += 1
            with stop.patient():
                interrupted = self._take_step()
                reason = stop.asked or interrupted
                if reason is not None:
                    self._interrupt(reason, evaluated=False)

            self._evaluate()
            if not self.ended:
                with stop.patient():
                    self.saver.save_if_due(self.step)
                if stop.asked is not None:
                    self._interrupt(stop.asked, evaluated=True)

    def _resume(self, resumed: State) -> None:
        """Go on from a training state."""
        self.keeper.kept = resumed.kept_so_far or Kept()
        self.step = resumed.step
        self.ended = self.step == self.total_steps
        if self.step > self.total_steps:
            raise RunError(
                f"the stage `{self.stage.name}` has {self.total_steps} steps, and {self.step} are done; "
                "give it more"
            )
        with restoring(resumed.directory(self.context.directory)):
            self.sampler.restore(resumed.sampler or {})
            # The trainer is loaded last, since building the rest may have drawn random numbers.
            self.trainer.load(resumed.trainer(self.context.directory))
        if not resumed.evaluated:
            # The run was interrupted after the step, but before its evaluations.
            self._evaluate()

    def _take_step(self) -> str | None:
        """Train on one batch.

        Return why the run should end, if another process of the engine received a signal.
        """
        batch = self.sampler.next()
        columns = self.feed(batch, (self.step - 1) / self.total_steps)
        result = self.trainer.step(columns)

        self.context.stepped = True
        facts = self.context.facts
        facts.setdefault("trained_tokens", 0)
        for column in columns.values():
            if isinstance(column, TokenIds):
                facts["trained_tokens"] += len(column.ids)
        self._require_finite(result, batch)
        self.context.hooks.step_finished(
            run=self.context.run,
            stage=self.stage.name,
            step=self.step,
            total_steps=self.total_steps,
            result=result,
        )
        return result.interrupted

    def _evaluate(self) -> None:
        """Run the evaluations of `validate` and `watch` that belong to the current step; set `ended`."""
        is_last = self.step == self.total_steps
        with self._averaged():
            out_of_patience = self.keeper.validate(self.step, is_last)
            self.ended = is_last or (out_of_patience and self.step > 0)
            for watch in self.stage.watch:
                if self.ended or self.step % watch.every == 0:
                    self._watch(watch)

    @contextmanager
    def _averaged(self) -> Iterator[None]:
        """Use the moving average of the trained weights in the block, if the stage has one."""
        if self.stage.ema is None:
            yield
            return
        self.trainer.swap_average()
        try:
            yield
        finally:
            self.trainer.swap_average()

    def _watch(self, watch: Watch) -> None:
        """Run an evaluation whose result is only shown."""
        trained = next(iter(self.trained))
        evaluation = self.context.evaluations.observe(self.encoders, watch, trained)
        self.context.hooks.observed(
            run=self.context.run,
            stage=self.stage.name,
            step=self.step,
            encoder=pair_name(watch.encoder or trained, watch.second),
            evaluation=evaluation,
        )

    def _interrupt(self, reason: str, evaluated: bool) -> NoReturn:
        """Save the training state after the current step, and end the run; `evaluated` is as in `Saver.save`."""
        self.saver.save(self.step, evaluated)
        error = KeyboardInterrupt(f"ended by {reason}")
        error.add_note(
            f"{reason}: the state after step {self.step} is saved; "
            f"go on with `sentbed run RECIPE --resume {self.context.directory}`"
        )
        raise error

    def _require_finite(self, result: StepResult, batch: Batch) -> None:
        """Raise `RunError` if the loss or the gradient norm of a step is NaN or infinite."""
        what, value = "loss", result.loss
        if math.isfinite(value):
            what, value = "gradient norm", result.grad_norm
        if math.isfinite(value):
            return

        rows = ", ".join(map(str, batch.rows[:FIRST_ROWS].tolist()))
        remedy = f"lower the learning rate (it was {result.learning_rate:.3g}) or raise the temperature"
        if result.fault:
            remedy = f"{result.fault}; {remedy}"
        raise RunError(
            f"the {what} of stage `{self.stage.name}` is {value} at step {self.step} of {self.total_steps} "
            f"(batch {batch.number} of epoch {batch.epoch + 1}, first rows {rows}); {remedy}"
        )

    def finish(self) -> None:
        """Restore the kept weights, and tell the hooks that the stage has ended."""
        if self.stage.ema is not None:
            self.trainer.swap_average()
        kept = self.keeper.finish(self.step)
        if kept.score is not None and math.isnan(kept.score):
            self.context.warn(
                f"the validation of the stage `{self.stage.name}` has no defined score; the weights are those of "
                "its last step"
            )
        if self.step and kept.step == 0:
            self.context.warn(
                f"the stage `{self.stage.name}` made the encoder worse, or no better: none of its "
                f"validations was above the one before its first step, {kept.score:.2f}; the weights stay "
                "those that it began with"
            )

        self.context.kept[self.stage.name] = kept
        self.context.hooks.stage_finished(
            run=self.context.run,
            stage=self.stage.name,
            steps=self.step,
            best_score=kept.score,
            best_step=kept.step,
        )


def require_fit(recipe: Recipe, encoders: Mapping[str, Encoder]) -> None:
    """Raise an error if the built encoders do not fit the stages of a recipe.

    Raises:
        RunError: if the vectors of a stage's encoders have different widths.
        ModelError: if a stage has a `max_length` for which an encoder has too few positions.
    """
    for stage in recipe.stage:
        widths = {}
        for column, name in recipe.towers(stage).items():
            encoder = encoders[name]
            encoder.require_positions(length_of(stage, encoder))
            # The vectors of a teacher may have another width.
            if column not in stage.loss.targets:
                widths[name] = encoder.placed.width
                if name in recipe.trained(stage):
                    widths[name] = encoder.placed.trained_width or encoder.placed.width

        if len(set(widths.values())) > 1:
            listed = [f"`{name}` gives {width}" for name, width in widths.items()]
            raise RunError(
                f"the vectors of stage `{stage.name}` have several widths: {' and '.join(listed)}; "
                "give one of them `head = { projection = N }` with the other's width"
            )


def _open(context: RunContext, stage: Stage) -> Dataset:
    """Open the data of a stage, and record its facts. Warn if it does not suit the stage."""
    dataset = stage.data.open()
    rows = len(dataset)
    if rows < stage.batch_size:
        context.warn(
            f"the data of stage `{stage.name}` has {rows} rows, fewer than its `batch_size` of "
            f"{stage.batch_size}: a batch is all rows, with fewer negatives; lower `batch_size`"
        )
    facts = {"rows": rows, "sha256": dataset.fingerprint}
    facts_of_stages = context.facts.setdefault("data", {})
    earlier = facts_of_stages.get(stage.name, facts)
    if earlier["sha256"] != facts["sha256"]:
        context.warn(
            f"the data of stage `{stage.name}` is not what it was when the run started"
        )
    left_out = dict(dataset.left_out)
    if left_out:
        facts["left_out"] = left_out
    facts_of_stages[stage.name] = facts
    return dataset
