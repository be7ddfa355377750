"""Training, one stage."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, NoReturn

import pluggy

from sentbed._encoder.encoder import Encoder, evaluate, pair_name
from sentbed._recipe.recipe import Recipe, Stage
from sentbed._run import training_states as states
from sentbed._run.checkpoints import Keeper, Kept, Saver
from sentbed._run.sampling import Batch, Sampler
from sentbed._run.stage_inputs import Feed, length_of
from sentbed._seeds import derive
from sentbed.errors import RunError, SentbedError
from sentbed.protocols import Dataset, StepResult, Training

if TYPE_CHECKING:
    from sentbed._run.runner import RunInfo

FIRST_ROWS = 5
"""Rows of a batch that a message names."""


def train_stage(
    run: RunInfo,
    index: int,
    encoders: Mapping[str, Encoder],
    hooks: pluggy.HookRelay,
    resumed: states.State | None = None,
) -> None:
    """Train as stage `index` of the run's recipe says; its encoders then hold the weights that are kept.

    With `resumed`, the stage goes on from that state. Where the stage is ended early, by an error or an
    interruption, the best weights so far are restored before the exception goes on.

    Raises:
        RunError: where the loss is no longer finite, or the data is not what it was.
        DataError: where the data cannot be read.
    """
    stage = run.recipe.stage[index]
    trained = {name: encoders[name] for name in run.recipe.trained(stage)}
    dataset = _open(run, stage, hooks)
    feed = Feed(run, stage, encoders, dataset)
    sampler = Sampler(
        dataset,
        stage.columns_used,
        stage.batch_size,
        (run.recipe.run.seed, index),
        distinct=stage.distinct,
        shuffle_buffer=stage.shuffle_buffer,
    )
    total_steps = stage.steps or sampler.batches_an_epoch * (stage.epochs or 1)
    engine = next(iter(trained.values())).engine
    # A stage's chance is its own: what ran before it, or whether it was resumed, changes nothing.
    engine.seed(derive(run.recipe.run.seed, "stage", index))
    trainer = engine.trainer(
        {name: encoder.placed for name, encoder in trained.items()},
        Training(
            loss=stage.loss,
            optimizer=stage.optimizer,
            schedule=stage.schedule,
            total_steps=total_steps,
            towers={c: tower for c, tower in run.recipe.towers(stage).items() if tower in trained},
            max_grad_norm=stage.max_grad_norm,
            micro_batch=stage.micro_batch,
        ),
    )
    keeper = Keeper(run, stage, encoders, hooks)
    first = 1
    if resumed is not None:
        sampler.restore(resumed.content["sampler"])
        keeper.kept = Kept.of(run.directory, resumed.content["keeper"])
        first = resumed.step + 1
    if first > total_steps + 1:
        raise RunError(
            f"the stage `{stage.name}` has {total_steps} steps, and {first - 1} are done; give it more"
        )
    hooks.stage_started(run=run, stage=stage.name, total_steps=total_steps)
    saver = Saver(run, index, trainer, sampler, keeper, hooks)
    watch = _Watch(run, stage, encoders, hooks)

    def look(step: int) -> bool:
        """Validate and watch where it is time to; return whether the stage is to end."""
        last = keeper.look(step, last=step == total_steps) or step == total_steps
        watch.look(step, last)
        return last

    step, ended = first - 1, False
    try:
        if resumed is None:
            watch.look(0, last=False)
        else:
            # Last, since building anything may have drawn from the generators.
            trainer.load(resumed.trainer)
            keeper.at = step
            # A run that was asked to end has saved its state before anything looked at the step.
            ended = not resumed.content.get("looked", True) and look(step)
        for step in () if ended else range(first, total_steps + 1):
            keeper.at = step
            with run.stop.patient():
                batch = sampler.next()
                result = trainer.step(feed(batch))
                run.stepped = True
                _require_finite(result, stage.name, step, total_steps, batch)
                hooks.step_finished(
                    run=run, stage=stage.name, step=step, total_steps=total_steps, result=result
                )
                if (asked := run.stop.asked or result.interrupted) is not None:
                    _end(asked, run, saver, step)
            if look(step):
                break
            with run.stop.patient():
                saver.look(step)
            if run.stop.asked is not None:
                _end(run.stop.asked, run, saver, step, looked=True)
    except BaseException as error:
        try:
            keeper.restore()
        except SentbedError as second:
            error.add_note(f"nor could the best weights be restored: {second}")
        raise
    keeper.restore()
    if step < total_steps:
        message = (
            f"the stage `{stage.name}` ended at step {step} of {total_steps}: its validation rose no more"
        )
        hooks.warned(run=run, message=message)
    kept = keeper.finish(step)
    run.kept[stage.name] = kept
    run.sources.update(dict.fromkeys(trained, stage.name))
    hooks.stage_finished(run=run, stage=stage.name, steps=step, best_score=kept.score, best_step=kept.step)


def _end(asked: str, run: RunInfo, saver: Saver, step: int, looked: bool = False) -> NoReturn:
    """Save the state after step `step`, and end the run."""
    saver.save(step, looked)
    error = KeyboardInterrupt(f"ended by {asked}")
    error.add_note(
        f"{asked}: the state after step {step} is saved; go on with `sentbed run --resume {run.directory}`"
    )
    raise error


def _require_finite(result: StepResult, stage: str, step: int, total_steps: int, batch: Batch) -> None:
    for what, value in (("loss", result.loss), ("gradient norm", result.grad_norm)):
        if not math.isfinite(value):
            rows = ", ".join(map(str, batch.rows[:FIRST_ROWS].tolist()))
            more = ", ..." if len(batch.rows) > FIRST_ROWS else ""
            raise RunError(
                f"the {what} of stage `{stage}` is {value} at step {step} of {total_steps} (batch "
                f"{batch.number} of epoch {batch.epoch + 1}, rows {rows}{more}); "
                f"lower the learning rate (it was {result.learning_rate:.3g}) or raise the temperature"
            )


def require_fit(recipe: Recipe, encoders: Mapping[str, Encoder]) -> None:
    """Raise `RunError` or `ModelError` where a stage cannot work with the encoders as they were built."""
    for stage in recipe.stage:
        widths = {tower: encoders[tower].width for tower in recipe.towers(stage).values()}
        if len(set(widths.values())) > 1:
            listed = " and ".join(f"`{tower}` gives {width}" for tower, width in widths.items())
            raise RunError(
                f"the vectors of stage `{stage.name}` have several widths: {listed}; "
                "give one of them `head = { projection = N }` with the other's width"
            )
        for tower in widths:
            encoders[tower].require_positions(length_of(stage, encoders[tower]))


def _open(run: RunInfo, stage: Stage, hooks: pluggy.HookRelay) -> Dataset:
    """Open the data of a stage, which are to be those with which a run that is resumed has begun it."""
    dataset = stage.data.open()
    rows = len(dataset)
    if rows < 2:
        raise RunError(
            f"the data of stage `{stage.name}` has {rows} row{'s' * (rows != 1)}, "
            "a loss over a batch needs at least 2"
        )
    found = {"rows": rows, "sha256": dataset.fingerprint}
    earlier = run.facts.setdefault("data", {}).get(stage.name, found)
    if earlier["sha256"] != found["sha256"]:
        message = (
            f"the data of stage `{stage.name}` is not what it was when the run started "
            f"({earlier['rows']} rows then, {rows} now)"
        )
        if not run.changes_allowed:
            raise RunError(f"{message}; put it back, or allow changes to go on with other texts in its rows")
        hooks.warned(run=run, message=message)
    left_out = dict(dataset.left_out)
    run.facts["data"][stage.name] = found | ({"left_out": left_out} if left_out else {})
    return dataset


class _Watch:
    """Evaluates what a stage is to be followed by."""

    def __init__(
        self, run: RunInfo, stage: Stage, encoders: Mapping[str, Encoder], hooks: pluggy.HookRelay
    ) -> None:
        self.run, self.stage, self.encoders, self.hooks = run, stage, encoders, hooks

    def look(self, step: int, last: bool) -> None:
        """Evaluate after step `step`, 0 being before the first one."""
        for watch in self.stage.watch:
            if not (last or step % watch.every == 0):
                continue
            name = watch.encoder or self.run.recipe.trained(self.stage)[0]
            evaluation = evaluate(self.encoders, watch.with_, name, watch.second, plugins=self.run.plugins)
            who = pair_name(name, watch.second)
            self.hooks.observed(
                run=self.run, stage=self.stage.name, step=step, encoder=who, evaluation=evaluation
            )
