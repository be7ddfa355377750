"""The training loop of a stage: takes steps, evaluates, and saves the training state."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NoReturn, cast

from sentbed._component_names import full_name
from sentbed._encoder.encoder import Encoder, pair_name
from sentbed._recipe.checks import loss_of
from sentbed._recipe.recipe import Recipe, Stage
from sentbed._run.batch_sampling import Batch
from sentbed._run.best_weights import Keeper
from sentbed._run.context import RunContext
from sentbed._run.state_saver import Saver
from sentbed._run.trainer_inputs import Feed, length_of, open_data, sampler_of
from sentbed._run.training_states import Kept, State, restoring
from sentbed._seeds import derive
from sentbed.errors import PluginError, RunError, SentbedError
from sentbed.protocols import (
    Dataset,
    Engine,
    Runtime,
    StepResult,
    TokenIds,
    Training,
    TrainingEngine,
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
    loop = _Loop(context, index, encoders, resumed)
    context.hooks.stage_started(
        run=context.run,
        stage=loop.stage.name,
        total_steps=loop.total_steps,
    )
    try:
        loop.begin()
        loop.train()
    except BaseException as error:
        try:
            loop.keeper.restore(averaged=False)
        except SentbedError as second:
            error.add_note(f"nor could the best weights be restored: {second}")
        raise
    loop.finish()


def _training_engine(runtime: Runtime, engine: Engine) -> TrainingEngine:
    """Return the engine, which must be a `TrainingEngine`.

    Raises:
        PluginError: if the engine only encodes, although its runtime is not `untrainable`.
    """
    if not callable(getattr(engine, "trainer", None)):
        raise PluginError(
            f"`build` of {full_name(runtime)} returned an engine that only encodes, and it is not `untrainable`"
        )
    return cast(TrainingEngine, engine)


class _Loop:
    """The training loop of one stage."""

    def __init__(
        self,
        context: RunContext,
        index: int,
        encoders: Mapping[str, Encoder],
        resumed: State | None,
    ) -> None:
        self.context = context
        self.encoders = encoders
        self.resumed = resumed
        self.stage = stage = context.recipe.stage[index]
        self.trained = {name: encoders[name] for name in context.recipe.trained(stage)}
        self.step = 0
        """Number of steps taken."""
        self.ended = False
        """Whether the stage has ended, after its last step or because validation did not improve."""

        dataset = _open(context, stage)
        self.feed = Feed(context, stage, encoders)
        self.sampler = sampler_of(stage, dataset, (context.recipe.run.seed, index))
        epochs = stage.epochs or 1
        self.total_steps = stage.steps or self.sampler.batches_an_epoch * epochs
        if resumed is None:
            self._warn_of_settings(len(dataset))

        first = next(iter(self.trained.values()))
        engine = _training_engine(context.recipe.runtime, first.engine)
        # The random numbers of the stage must not depend on what ran before it, or on whether it was resumed.
        engine.seed(derive(context.recipe.run.seed, "stage", index))
        placed = {name: encoder.placed for name, encoder in self.trained.items()}
        self.trainer = engine.trainer(placed, self._training())
        self.keeper = Keeper(context, stage, encoders, self.trained)
        self.saver = Saver(context, index, self.trainer, self.sampler, self.keeper)

        if resumed is not None:
            with restoring(resumed.directory(context.directory)):
                self.sampler.restore(resumed.sampler or {})
            self.keeper.kept = resumed.kept_so_far or Kept()
            self.step = resumed.step
        if self.step > self.total_steps:
            raise RunError(
                f"the stage `{stage.name}` has {self.total_steps} steps, and {self.step} are done; "
                "give it more"
            )

    def _warn_of_settings(self, rows: int) -> None:
        """Warn of a batch size that is larger than data of `rows` rows."""
        stage, warn = self.stage, self.context.warn
        if rows < stage.batch_size:
            warn(
                f"the data of stage `{stage.name}` has {rows} rows, fewer than its `batch_size` of "
                f"{stage.batch_size}: a batch is all rows, with fewer negatives; lower `batch_size`"
            )

    def _training(self) -> Training:
        """Return the arguments of the trainer."""
        stage = self.stage
        towers = {}
        for column, name in self.context.recipe.towers(stage).items():
            if name in self.trained:
                towers[column] = name
        first = next(iter(self.trained.values()))
        return Training(
            loss=loss_of(stage, first.similarity),
            optimizer=stage.optimizer,
            schedule=stage.schedule,
            total_steps=self.total_steps,
            towers=towers,
            max_grad_norm=stage.max_grad_norm,
            micro_batch=stage.micro_batch,
            ema=stage.ema,
        )

    def begin(self) -> None:
        """Evaluate before the first step; if the stage is resumed, load the training state instead."""
        if self.resumed is None:
            # The initial weights are validated, too, since the stage may keep them.
            with self._averaged():
                self.keeper.validate(0, last=False)
            self._watch()
            return

        # The trainer is loaded last, since building the rest may have drawn random numbers.
        directory = self.context.directory
        with restoring(self.resumed.directory(directory)):
            self.trainer.load(self.resumed.trainer(directory))
        self.keeper.current_step = self.step
        self.ended = self.step == self.total_steps
        if not self.resumed.evaluated:
            # The run was interrupted after the step, but before its evaluations.
            self._evaluate_step()

    def train(self) -> None:
        """Take steps until the last one, or until validation does not improve any more."""
        stop = self.context.stop
        while not self.ended:
            self.step += 1
            self.keeper.current_step = self.step
            with stop.patient():
                interrupted = self._take_step()
                reason = stop.asked or interrupted
                if reason is not None:
                    self._interrupt(reason)

            self._evaluate_step()
            if not self.ended:
                with stop.patient():
                    self.saver.save_if_due(self.step)
                if stop.asked is not None:
                    self._interrupt(stop.asked, evaluated=True)

    def finish(self) -> None:
        """Restore the kept weights, and tell the hooks that the stage has ended."""
        if self.stage.ema is not None:
            self.trainer.swap_average()
        self.keeper.restore()
        if self.step < self.total_steps:
            self.context.warn(
                f"the stage `{self.stage.name}` ended at step {self.step} of {self.total_steps}: "
                "its validation rose no more"
            )

        kept = self.keeper.finish(self.step)
        rule = self.stage.validate
        keeps_best = rule is not None and rule.keep == "best"
        if keeps_best and kept.score is not None and math.isnan(kept.score):
            self.context.warn(
                f"none of the validations of the stage `{self.stage.name}` has a defined score; the weights are "
                "those of its last step"
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

    def _take_step(self) -> str | None:
        """Train on one batch.

        Return why the run should end, if another process of the engine received a signal.
        """
        batch = self.sampler.next()
        columns = self.feed(batch, (self.step - 1) / self.total_steps)
        result = self.trainer.step(columns)

        facts = self.context.facts
        facts.setdefault("trained_tokens", 0)
        for column in columns.values():
            if isinstance(column, TokenIds):
                facts["trained_tokens"] += len(column.ids)
        self.context.stepped = True
        self._require_finite(result, batch)

        event = {"run": self.context.run, "stage": self.stage.name, "step": self.step}
        self.context.hooks.step_finished(
            **event, total_steps=self.total_steps, result=result
        )
        return result.interrupted

    def _evaluate_step(self) -> None:
        """Run the evaluations of `validate` and `watch` that belong to the current step; set `ended`."""
        last = self.step == self.total_steps
        with self._averaged():
            self.ended = self.keeper.validate(self.step, last=last) or last
            self._watch()

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

    def _watch(self) -> None:
        """Run the evaluations of `watch` that belong to the current step."""
        for watch in self.stage.watch:
            if self.step % watch.every != 0 and not self.ended:
                continue
            trained = next(iter(self.trained))
            evaluation = self.context.evaluations.observe(self.encoders, watch, trained)
            label = pair_name(watch.encoder or trained, watch.second)
            event = {
                "run": self.context.run,
                "stage": self.stage.name,
                "step": self.step,
            }
            self.context.hooks.observed(**event, encoder=label, evaluation=evaluation)

    def _interrupt(self, reason: str, evaluated: bool = False) -> NoReturn:
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
        if not math.isfinite(result.loss):
            culprit = f"loss of stage `{self.stage.name}` is {result.loss}"
        elif not math.isfinite(result.grad_norm):
            culprit = (
                f"gradient norm of stage `{self.stage.name}` is {result.grad_norm}"
            )
        else:
            return

        rows = ", ".join(map(str, batch.rows[:FIRST_ROWS].tolist()))
        if len(batch.rows) > FIRST_ROWS:
            rows += ", ..."
        remedy = f"lower the learning rate (it was {result.learning_rate:.3g}) or raise the temperature"
        if self.step == 1:
            remedy = (
                "no step has been taken, so look at these rows, and test the components with "
                "`sentbed_testing`"
            )
        if result.fault:
            remedy = f"{result.fault}; {remedy}"
        raise RunError(
            f"the {culprit} at step {self.step} of {self.total_steps} "
            f"(batch {batch.number} of epoch {batch.epoch + 1}, rows {rows}); {remedy}"
        )


def require_fit(recipe: Recipe, encoders: Mapping[str, Encoder]) -> None:
    """Raise an error if the built encoders do not fit the stages of a recipe.

    Raises:
        RunError: if the vectors of a stage's encoders have different widths.
        ModelError: if a stage has a `max_length` for which an encoder has too few positions.
    """
    for stage in recipe.stage:
        towers = recipe.towers(stage)
        trained = recipe.trained(stage)
        widths = {}
        for column, name in towers.items():
            if column in stage.loss.targets:
                # The vectors of a teacher may have another width.
                continue
            encoder = encoders[name]
            width = encoder.placed.width
            if name in trained and encoder.placed.trained_width:
                width = encoder.placed.trained_width
            widths[name] = width
        if len(set(widths.values())) > 1:
            listed = [f"`{name}` gives {width}" for name, width in widths.items()]
            raise RunError(
                f"the vectors of stage `{stage.name}` have several widths: {' and '.join(listed)}; "
                "give one of them `head = { projection = N }` with the other's width"
            )

        for name in towers.values():
            encoders[name].require_positions(length_of(stage, encoders[name]))


def _open(context: RunContext, stage: Stage) -> Dataset:
    """Open the data of a stage, and record its facts. Warn if a resumed run began the stage with other data."""
    dataset = open_data(stage)
    rows = len(dataset)
    data_facts = {"rows": rows, "sha256": dataset.fingerprint}
    earlier = context.facts.setdefault("data", {}).get(stage.name, data_facts)
    if earlier["sha256"] != data_facts["sha256"]:
        context.warn(
            f"the data of stage `{stage.name}` is not what it was when the run started"
        )
    left_out = dict(dataset.left_out)
    if left_out:
        data_facts["left_out"] = left_out
    context.facts["data"][stage.name] = data_facts
    return dataset
