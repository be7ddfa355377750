"""Training, one stage."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import pluggy

from sentbed import states
from sentbed.encoder import Encoder
from sentbed.errors import DataError, RunError, suggest
from sentbed.frozen import FrozenColumn, text_numbers
from sentbed.paths import sha256
from sentbed.protocols import LABEL, Columns, Dataset, StepResult, Tokenizer, Trainer, Training
from sentbed.recipe import Recipe, Stage, Validate
from sentbed.sampling import Batch, Sampler
from sentbed.seeds import derive
from sentbed.structure import unstructure

if TYPE_CHECKING:
    from sentbed.runner import RunInfo

CHECKPOINTS = "checkpoints"
VECTORS = "vectors"
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
    feed = _Feed(run, stage, encoders, dataset)
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
            batch_size=stage.batch_size,
            micro_batch=stage.micro_batch,
        ),
    )
    keeper = _Keeper(run, stage, trained, hooks)
    first = 1
    if resumed is not None:
        sampler.restore(resumed.content["sampler"])
        keeper.kept = Kept.of(run.directory, resumed.content["keeper"])
        first = resumed.step + 1
    hooks.stage_started(run=run, stage=stage.name, total_steps=total_steps)
    saver = _Saver(run, index, trainer, sampler, keeper, hooks)
    watch = _Watch(run, stage, encoders, hooks)
    step = first - 1
    try:
        if resumed is None:
            watch.look(0, last=False)
        else:
            # Last, since building anything may have drawn from the generators.
            trainer.load(resumed.trainer)
        for step in range(first, total_steps + 1):
            batch = sampler.next()
            keeper.at = step
            result = trainer.step(feed(batch))
            _require_finite(result, stage.name, step, total_steps, batch)
            hooks.step_finished(run=run, stage=stage.name, step=step, total_steps=total_steps, result=result)
            last = keeper.look(step, last=step == total_steps) or step == total_steps
            watch.look(step, last)
            if last:
                break
            saver.look(step)
    except BaseException:
        keeper.restore()
        raise
    keeper.restore()
    kept = keeper.finish(step)
    run.kept[stage.name] = kept
    run.sources.update(dict.fromkeys(trained, stage.name))
    hooks.stage_finished(run=run, stage=stage.name, steps=step, best_score=kept.score, best_step=kept.step)


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
            encoders[tower].require_positions(_length(stage, encoders[tower]))


def _length(stage: Stage, encoder: Encoder) -> int:
    return stage.max_length or encoder.recipe.max_length


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
            raise RunError(f"{message}; put it back, or allow changes to go on with it")
        hooks.warned(run=run, message=message)
    left_out = dict(getattr(dataset, "left_out", {}))
    run.facts["data"][stage.name] = found | ({"left_out": left_out} if left_out else {})
    return dataset


class _Feed:
    """Turns a batch of texts into what a trainer takes."""

    def __init__(self, run: RunInfo, stage: Stage, encoders: Mapping[str, Encoder], dataset: Dataset) -> None:
        self.stage = stage
        self.trained: dict[str, tuple[Tokenizer, int]] = {}
        self.frozen: dict[str, FrozenColumn] = {}
        for column, tower in run.recipe.towers(stage).items():
            encoder = encoders[tower]
            length = _length(stage, encoder)
            if tower not in stage.freeze:
                self.trained[column] = encoder.tokenizer(stage.normalize_text), length
                continue
            path = None
            if stage.cache_frozen:
                # Also what `run.source` does not say: a resumed run may have been allowed another recipe.
                how = [unstructure(part) for part in (encoder.recipe, run.recipe.runtime, run.recipe.run)]
                decides = [dataset.fingerprint, run.source(tower), how, column, length, stage.normalize_text]
                name = hashlib.sha256(json.dumps(decides).encode()).hexdigest()[:16]
                path = run.directory / VECTORS / f"{stage.name}-{column}-{name}.npy"
            self.frozen[column] = FrozenColumn.of(encoder, length, stage.normalize_text, dataset, path)

    def __call__(self, batch: Batch) -> Columns:
        """Return tokens, vectors of frozen encoders and numbers of classes, by column."""
        columns: dict[str, Any] = {}
        for name, texts in batch.columns.items():
            if name == LABEL:
                columns[name] = self._classes(texts, batch)
            elif name in self.frozen:
                columns[name] = self.frozen[name].vectors(batch.rows, texts)
                columns[f"{name}.id"] = text_numbers(texts)
            else:
                tokenizer, max_length = self.trained[name]
                columns[name] = tokenizer.encode(texts, max_length)
        return columns

    def _classes(self, names: Sequence[str], batch: Batch) -> Any:
        import numpy as np

        classes = list(self.stage.loss.classes)  # type: ignore[attr-defined]  # of a loss that needs `label`
        for name, row in zip(names, batch.rows.tolist(), strict=True):
            if name not in classes:
                raise DataError(
                    f"row {row} of stage `{self.stage.name}` has the label {name!r}, which the loss "
                    f"`{self.stage.loss.name}` does not have in `classes`.{suggest(name, classes)}"
                )
        return np.array([classes.index(name) for name in names], np.int64)


@attrs.frozen
class Kept:
    """The weights of a stage that are kept so far."""

    paths: Mapping[str, Path] = attrs.field(factory=dict)
    """Encoder -> the directory that holds it; empty where nothing has been kept."""
    sums: Mapping[str, str] = attrs.field(factory=dict)
    """Encoder -> the SHA-256 of what was written there."""
    step: int = 0
    """After so many steps."""
    score: float | None = None
    """What the validation said of them."""
    misses: int = 0
    """Validations since then."""

    def table(self, run: Path) -> dict[str, Any]:
        """Return it as JSON, with paths below the run directory."""
        paths = {
            name: [path.relative_to(run).as_posix(), self.sums[name]] for name, path in self.paths.items()
        }
        return {"paths": paths, "step": self.step, "score": self.score, "misses": self.misses}

    @classmethod
    def of(cls, run: Path, table: Mapping[str, Any]) -> Kept:
        """Read what `table` returned. Raises `ValueError` where a directory is not what was written."""
        for place, expected in table["paths"].values():
            if not (run / place).is_dir() or sha256(run / place) != expected:
                raise ValueError(f"`{place}` is not what was written")
        paths = {name: run / place for name, (place, _) in table["paths"].items()}
        sums = {name: found for name, (_, found) in table["paths"].items()}
        return cls(paths, sums, table["step"], table["score"], table["misses"])


def prune(run: RunInfo, stage: str, kept: Kept) -> None:
    """Remove weights of a stage that were kept, and that neither a state nor `kept` needs any more."""
    needed = _needed(run.directory) | {path.parent for path in kept.paths.values()}
    for path in (run.directory / CHECKPOINTS / stage).glob("kept-*"):
        if path not in needed:
            shutil.rmtree(path, ignore_errors=True)


class _Keeper:
    """Validates, and keeps the best weights on disk."""

    def __init__(
        self, run: RunInfo, stage: Stage, trained: Mapping[str, Encoder], hooks: pluggy.HookRelay
    ) -> None:
        self.run, self.stage, self.trained, self.hooks = run, stage, trained, hooks
        self.directory: Path = run.directory / CHECKPOINTS / stage.name
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
        encoder = self.trained[validate.encoder or next(iter(self.trained))]
        score = validate.with_.evaluate(encoder).primary
        best = self._is_best(validate, score)
        keeps = best and validate.keep == "best"
        self.score = score
        if best:
            self.kept = Kept(step=step, score=score)
        if keeps:
            self.kept = self._saved(self.kept)
            prune(self.run, self.stage.name, self.kept)
        elif not best:
            self.kept = attrs.evolve(self.kept, misses=self.kept.misses + 1)
        self.hooks.validated(run=self.run, stage=self.stage.name, step=step, score=score, best=best)
        if keeps:
            path = self.directory / _name(step)
            self.hooks.checkpoint_saved(run=self.run, stage=self.stage.name, step=step, path=path)
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


class _Saver:
    """Saves the training state when it is time to."""

    def __init__(
        self,
        run: RunInfo,
        index: int,
        trainer: Trainer,
        sampler: Sampler,
        keeper: _Keeper,
        hooks: pluggy.HookRelay,
    ) -> None:
        self.run, self.index, self.hooks = run, index, hooks
        self.trainer, self.sampler, self.keeper = trainer, sampler, keeper
        self.saved = time.monotonic()

    def look(self, step: int) -> None:
        """Write a state after step `step`, where it is time to."""
        rule = self.run.recipe.checkpoint
        due = rule.every is not None and step % rule.every == 0
        if not due and time.monotonic() - self.saved < rule.minutes * 60:
            return
        own = {"sampler": self.sampler.state(), "keeper": self.keeper.kept.table(self.run.directory)}
        write_state(self.run, self.index, step, self.hooks, own, self.trainer)
        prune(self.run, self.run.recipe.stage[self.index].name, self.keeper.kept)
        self.saved = time.monotonic()


def write_state(
    run: RunInfo,
    stage: int,
    step: int,
    hooks: pluggy.HookRelay,
    own: Mapping[str, Any] | None = None,
    trainer: Trainer | None = None,
) -> None:
    """Write a state of the run, and drop the ones that are no longer kept."""
    content = {
        "facts": run.facts,
        "kept": {name: kept.table(run.directory) for name, kept in run.kept.items()},
        "trackers": dict(hooks.tracker_state(run=run)),
        **(own or {}),
    }
    state = states.write(run.directory, stage, step, content, None if trainer is None else trainer.save)
    states.prune(run.directory, state, run.recipe.checkpoint.keep)


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
            second = None if watch.second is None else self.encoders[watch.second]
            evaluation = self.encoders[name].evaluate(watch.with_, name, second)
            self.hooks.observed(
                run=self.run, stage=self.stage.name, step=step, encoder=name, evaluation=evaluation
            )
