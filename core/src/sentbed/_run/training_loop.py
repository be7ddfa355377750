"""The training loop of a stage: takes steps, validates, keeps the best weights, and saves the training state."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn, cast

import attrs

from sentbed._encoder.encoder import Encoder, pair_name
from sentbed._files import write_directory
from sentbed._recipe.checks import loss_of
from sentbed._run.batch_sampling import Batch
from sentbed._run.context import RunContext
from sentbed._run.trainer_inputs import Feed, length_of, sampler_of
from sentbed._run.training_states import (
    CHECKPOINTS,
    Kept,
    State,
    prune_weights,
    restoring,
    write_state,
)
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
    Validate,
    Watch,
)

FIRST_ROWS = 5
"""Largest number of rows of a batch that a message lists."""


def train_stage(
    context: RunContext,
    index: int,
    encoders: Mapping[str, Encoder],
) -> None:
    """Train the stage of the recipe with this index.

    Afterwards, the encoders have the weights that the stage keeps: the best, or those after its last step.

    If the run has been resumed within the stage, it goes on from the training state. If an error or an
    interruption ends the stage early, the best weights so far are restored, and the exception is raised again.

    Raises:
        RunError: if the loss is no longer finite.
        DataError: if the data cannot be read.
    """
    loop = _Loop(context, index, encoders)
    context.hooks.stage_started(
        run=context.run,
        stage=loop.stage.name,
        total_steps=loop.total_steps,
    )
    try:
        loop.train()
    except BaseException as error:
        try:
            loop.restore_kept()
        except SentbedError as second:
            error.add_note(f"nor could the best weights be restored: {second}")
        raise
    loop.finish()


def save_state(
    context: RunContext,
    state: State,
    trainer: Trainer | None = None,
) -> None:
    """Write a training state, completed by the facts, kept weights, history and trackers of the run.

    `trainer` is the trainer of the current stage; None if the stage has not begun.
    """
    history = context.history
    history = attrs.evolve(history, seconds=history.total_seconds())
    trackers = dict(context.hooks.tracker_state(run=context.run))
    whole = attrs.evolve(
        state,
        facts=context.facts,
        kept=context.kept,
        history=history,
        trackers=trackers,
    )
    save_trainer = None if trainer is None else trainer.save
    write_state(context.directory, whole, save_trainer)


class _Loop:
    """The training loop of one stage."""

    def __init__(
        self,
        context: RunContext,
        index: int,
        encoders: Mapping[str, Encoder],
    ) -> None:
        self.context = context
        self.index = index
        self.encoders = encoders
        self.stage = stage = context.recipe.stage[index]
        self.trained = {name: encoders[name] for name in context.recipe.trained(stage)}
        self.step = 0
        """Number of steps taken."""
        self.ended = False
        """Whether the stage has ended, after its last step or because validation did not improve."""
        self.kept = Kept()
        """The best weights so far."""
        self.kept_by_state = Kept()
        """The best weights to which the training state on disk refers."""
        self.score: float | None = None
        """Score of the last validation; None before the first."""
        self.saved_at = time.monotonic()
        """Time at which the last training state was written."""

        seed = context.recipe.run.seed
        dataset = _open(context, stage)
        self.feed = Feed(context.recipe, stage, encoders)
        self.sampler = sampler_of(stage, dataset, (seed, index))
        self.total_steps = stage.steps or 0
        if stage.epochs is not None:
            self.total_steps = stage.epochs * self.sampler.batches_an_epoch

        # The random numbers of the stage must not depend on what ran before it, or on whether it was resumed.
        first = next(iter(self.trained.values()))
        first.engine.seed(derive(seed, "stage", index))
        self.trainer = self._trainer(first)

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

    def train(self) -> None:
        """Take steps until the last one, or until validation does not improve any more."""
        resumed = self.context.resumed
        if resumed is not None and resumed.stage == self.index and resumed.step > 0:
            self._resume(resumed)

        # The initial weights are validated, too, since the stage may keep them.
        self._evaluate()
        while not self.ended:
            self.step += 1
            with self.context.stop.patient():
                self._take_step()
                is_due = self.context.stop.asked is not None or self._is_state_due()
                if is_due:
                    self._save_state()
            # A signal may have come while the state was written.
            reason = self.context.stop.asked
            if is_due and reason is not None:
                self._interrupt(reason)
            self._evaluate()

    def _resume(self, state: State) -> None:
        """Go on from a training state."""
        self.step = state.step
        self.kept = self.kept_by_state = state.kept_so_far
        with restoring(state.directory(self.context.directory)):
            self.sampler.restore(state.sampler)
            # The trainer is loaded last, since building the rest may have drawn random numbers.
            self.trainer.load(state.trainer(self.context.directory))

    def _take_step(self) -> None:
        """Train on one batch."""
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

    def _is_state_due(self) -> bool:
        """Whether `[checkpoint]` asks for a training state after this step."""
        rule = self.context.recipe.checkpoint
        if rule.every is not None and self.step % rule.every == 0:
            return True
        return time.monotonic() - self.saved_at >= rule.minutes * 60

    def _save_state(self) -> None:
        """Write the training state after the current step."""
        state = State(
            stage=self.index,
            step=self.step,
            sampler=self.sampler.state(),
            kept_so_far=self.kept,
        )
        save_state(self.context, state, self.trainer)
        self.kept_by_state = self.kept
        self.saved_at = time.monotonic()

    def _evaluate(self) -> None:
        """Run the evaluations of `validate` and `watch` that belong to the current step; set `ended`."""
        rule = self.stage.validate
        is_last = self.step >= self.total_steps
        self.ended = is_last
        with self._averaged():
            if rule is not None and (is_last or self.step % rule.every == 0):
                self._validate(rule)
                if rule.patience is not None and self.step > 0:
                    self.ended = is_last or self.kept.misses >= rule.patience
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

    def _validate(self, rule: Validate) -> None:
        """Validate the encoders, and keep their weights if they are the best so far."""
        first = next(iter(self.trained))
        evaluation = self.context.evaluations.observe(self.encoders, rule, first)
        self.score = evaluation.primary
        is_best = self._is_best(rule, self.score)
        is_saved = is_best and rule.keep == "best"
        if not is_best:
            self.kept = attrs.evolve(self.kept, misses=self.kept.misses + 1)
        elif is_saved:
            self._keep_weights()
        else:
            self.kept = Kept(step=self.step, score=self.score)

        event = {
            "run": self.context.run,
            "stage": self.stage.name,
            "step": self.step,
        }
        self.context.hooks.validated(**event, score=self.score, best=is_best)
        if is_saved:
            path = self.context.directory / self.kept.directory
            self.context.hooks.checkpoint_saved(**event, path=path)

    def _is_best(self, rule: Validate, score: float) -> bool:
        """Whether a validation score is better than that of the kept weights."""
        if rule.keep == "last" and rule.patience is None:
            # The score does not matter.
            return True
        if math.isnan(score):
            return False
        return self.kept.score is None or score > self.kept.score

    def _keep_weights(self) -> None:
        """Save the current weights of the trained encoders as the best so far, and remove those that were."""
        name = f"{CHECKPOINTS}/{self.stage.name}/kept-{self.step:08d}"

        def save(directory: Path) -> None:
            for encoder_name, encoder in self.trained.items():
                encoder.save(directory / encoder_name)

        run = self.context.directory
        write_directory(run / name, save)
        self.kept = Kept(name, self.step, self.score)
        # A run that is killed goes on from the training state with the weights to which it refers.
        prune_weights(run, self.stage.name, {name, self.kept_by_state.directory})

    def restore_kept(self) -> None:
        """Restore the best weights, if any were saved."""
        if self.kept.directory:
            for name, encoder in self.trained.items():
                encoder.restore(self.context.directory / self.kept.directory / name)

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

    def _interrupt(self, reason: str) -> NoReturn:
        """End the run, whose training state is saved."""
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
        raise RunError(
            f"the {what} of stage `{self.stage.name}` is {value} at step {self.step} of {self.total_steps} "
            f"(batch {batch.number} of epoch {batch.epoch + 1}, first rows {rows}); "
            f"lower the learning rate (it was {result.learning_rate:.3g}) or raise the temperature"
        )

    def finish(self) -> None:
        """Restore the kept weights, and tell the hooks that the stage has ended."""
        if self.stage.ema is not None:
            self.trainer.swap_average()
        if not self.kept.directory:
            self._keep_weights()
        elif self.kept.step != self.step:
            self.restore_kept()

        kept = self.kept
        if kept.score is not None and math.isnan(kept.score):
            self.context.warn(
                f"the validation of the stage `{self.stage.name}` has no defined score; the weights are those of "
                "its last step"
            )
        if self.step and kept.step == 0:
            self.context.warn(
                f"training in `{self.stage.name}` did not help: no validation beat the initial "
                f"{kept.score:.2f}, so the initial weights were kept"
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
    left_out = dict(dataset.left_out)
    if left_out:
        facts["left_out"] = left_out
    facts_of_data = context.facts.setdefault("data", {})
    earlier = facts_of_data.get(stage.name, facts)
    if earlier["sha256"] != dataset.fingerprint:
        context.warn(
            f"the data of stage `{stage.name}` has changed since the run began: the steps before were on other "
            "rows; start a new run"
        )
    facts_of_data[stage.name] = facts
    return dataset
