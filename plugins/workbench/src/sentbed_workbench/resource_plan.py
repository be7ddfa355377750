"""Plan of a recipe's needs without loading weights: parameters, memory, steps, time.

Modules are built on the device `meta` and run on tensors without content (`_torch.module_costs`), texts are
sampled (`text_lengths`), and the device is measured or published (`planned_device`). Where a part cannot be
counted, or what it needs is not on this machine, the number is None and `problems` has the reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import attrs
from sentbed.errors import ModelError, SentbedError, foreign
from sentbed.protocols import BuildContext, Component
from sentbed.tools import Evaluate, Recipe, Stage, Validate, Watch

from sentbed_workbench.module_sizes import BackboneSize, Lengths, LossSize
from sentbed_workbench.plan_records import (
    EncoderPlan,
    Plan,
    Shapes,
    StagePlan,
    count,
    number_of_looks,
)
from sentbed_workbench.planned_device import Device, device_of
from sentbed_workbench.text_lengths import (
    Texts,
    evaluation_texts,
    mean_lengths,
    stage_texts,
    training_texts,
)

T = TypeVar("T")
FILLED = 0.8
"""Share of memory that a plan may fill: in short runs, allocators held up to 28 % more than was used."""
TRAFFIC = 44
"""Approximate bytes that a step reads and writes per trained weight: gradient, weight and two moments."""
BLOCKS_AT_WORK = 2
"""Number of blocks whose gradients are in memory at the same time during the backward pass."""
STATES_A_TOKEN, INNER_STATES_A_TOKEN = 6, 2
"""Approximate number of states per token, at the width of the model and at that between the layers of a block,
that a pass without gradient holds."""
PADDING = 1.1
"""Approximate ratio of computed tokens, including padding, to the tokens of a batch."""
LARGEST = 1.1
"""Approximate ratio of the activations of the largest batch to those of a mean one."""
TRAINING_ONLY = ("gradients", "activations", "temporary", "loss")
"""Parts of the memory that are released before a validation."""


def plan(recipe: Recipe, on: str | None = None, measure: bool = False) -> Plan:
    """Return the plan of a recipe on its runtime; `on` and `measure` as in `device_of`."""
    return Planner(on, measure).plan(recipe)


@attrs.define(eq=False)
class Planner:
    """Plans several recipes, such as the cells of a study; what they share is measured and counted once."""

    on: str | None = None
    """Name of a device to plan for in place of this machine's."""
    measure: bool = False
    """Whether to measure this machine again."""
    unusable: list[str] = attrs.field(factory=list, init=False)
    """Problems with the data of the planned recipes that would stop their runs."""
    _results: dict[str, Any] = attrs.field(factory=dict, init=False)

    def plan(self, recipe: Recipe) -> Plan:
        """Return the plan of a recipe."""
        device = self._device(recipe)
        encoders = self._encoders(recipe, device)
        stages = tuple(
            self._stage_plan(recipe, index, encoders, device)
            for index in range(len(recipe.stage))
        )
        encoding = encoding_memory(encoders, list(encoders), device)
        return Plan(device, encoders, stages, encoding)

    def evaluation(
        self, recipe: Recipe, entry: Evaluate | Validate | Watch, name: str
    ) -> tuple[float, float] | str:
        """Return the minimum and maximum seconds of encoding for an evaluation, or why they are unknown.

        `name` is that of the encoder. Reading data and training classifiers on the vectors take further time.
        """
        device = self._device(recipe)
        encoder = self._encoders(recipe, device)[name]
        texts = self._once(
            ("evaluation", entry.evaluator), lambda: evaluation_texts(entry.evaluator)
        )
        self._note(texts)
        problem = texts.problem or encoder.problem or device.problem
        if problem or device.rates is None:
            return problem

        def count_flops() -> float:
            flops = 0.0
            for number, sample in texts.lists:
                lengths = mean_lengths(encoder.recipe, encoder.size, sample)
                flops += encoder.known_size.forward.of(lengths * number)
            return flops

        prompts, max_length = encoder.recipe.resolved_prompts, encoder.recipe.max_length
        flops = self._once(
            ("encoding", id(texts), id(encoder.size), max_length, prompts), count_flops
        )
        slow, fast = device.rates
        return flops / fast, flops / slow

    def _once(self, key: tuple[Any, ...], find: Callable[[], T]) -> T:
        """Return `find()`, cached by the `repr` of the key."""
        # Components hold mappings and cannot be hashed.
        typed_key = repr([(type(part), part) for part in key])
        if typed_key not in self._results:
            self._results[typed_key] = find()
        result: T = self._results[typed_key]
        return result

    def _note(self, texts: Texts) -> None:
        """Add the problem of texts that cannot be used to `unusable`, once."""
        if texts.unusable and texts.problem not in self.unusable:
            self.unusable.append(texts.problem)

    def _device(self, recipe: Recipe) -> Device:
        runtime = recipe.runtime
        return self._once(
            ("device", runtime), lambda: device_of(runtime, self.on, self.measure)
        )

    def _encoders(self, recipe: Recipe, device: Device) -> dict[str, EncoderPlan]:
        trained: set[str] = set()
        for stage in recipe.stage:
            trained.update(recipe.trained(stage))
        encoders = {}
        for name in recipe.encoders:
            encoders[name] = self._encoder(recipe, name, device, name in trained)
        return encoders

    def _encoder(
        self, recipe: Recipe, name: str, device: Device, trained: bool
    ) -> EncoderPlan:
        encoder = recipe.encoders[name]
        backbone, pooler = encoder.backbone, encoder.pooler
        context = BuildContext(
            lambda: training_texts(recipe, name),
            needs=encoder.needs,
            readings=encoder.readings,
            shapes_only=True,
        )

        def count_backbone() -> BackboneSize:
            from sentbed_workbench._torch.module_costs import backbone_size

            return backbone_size(
                backbone, context, device.precision, device.kind, trained
            )

        key = (sorted(encoder.needs), encoder.readings, device.precision, device.kind)
        size = self._once(
            ("backbone", backbone, *key, trained),
            lambda: _counted(backbone, count_backbone),
        )
        if isinstance(size, str):
            return EncoderPlan(encoder, problem=size)

        def count_head() -> Shapes:
            from sentbed_workbench._torch.module_costs import head_shapes

            return head_shapes(pooler, encoder.head, size.width)

        head = self._once(
            ("head", pooler, encoder.head, size.width),
            lambda: _counted(pooler, count_head),
        )
        if isinstance(head, str):
            return EncoderPlan(encoder, problem=head)
        return EncoderPlan(encoder, size, head)

    def _stage_plan(
        self,
        recipe: Recipe,
        index: int,
        encoders: Mapping[str, EncoderPlan],
        device: Device,
    ) -> StagePlan:
        stage = recipe.stage[index]
        towers = recipe.towers(stage)
        texts = self._stage_texts(recipe, index, encoders)
        self._note(texts)
        steps = stage.steps
        if steps is None and texts.batches_an_epoch is not None:
            steps = texts.batches_an_epoch * (stage.epochs or 1)
        validations = None
        if stage.validate is not None and steps is not None:
            validations = number_of_looks(stage.validate.every, steps)
        remarks: tuple[str, ...] = ()
        if steps is not None and texts.rows is not None:
            remarks = tuple(stage.loss.without_effect(stage.rows_taken(texts.rows)))
        problems = [texts.problem] if texts.problem else []
        rows = min(stage.batch_size, texts.rows or stage.batch_size)
        if rows < stage.batch_size:
            problems.append(
                f"a batch of {stage.batch_size:,} is more than the data has: {rows:,} rows"
            )
        row = sum(texts.lengths.values(), Lengths())
        planned = StagePlan(
            name=stage.name,
            rows=texts.rows,
            steps=steps,
            validations=validations,
            negatives=stage.loss.negatives(rows, frozenset(stage.columns_used)),
            tokens_a_text=row.tokens / row.texts,
            tokens_a_step=rows * row.tokens,
            lengths=texts.source,
            remarks=remarks,
        )
        unknown = [name for name in towers.values() if encoders[name].size is None]
        if unknown:
            problems.append(f"the encoder `{unknown[0]}` is not known")
            return attrs.evolve(planned, problems=tuple(problems))

        loss = self._loss(stage, encoders[recipe.trained(stage)[0]], rows)
        if isinstance(loss, str):
            problems.append(loss)
            loss = LossSize()
        step = _Step(recipe, stage, encoders, device, texts, rows, loss)
        shapes = step.shapes()
        optimizer_bytes = stage.optimizer.state_bytes(shapes)
        if optimizer_bytes is None:
            name = stage.optimizer.name
            problems.append(f"the optimiser's state: `{name}` has no `state_bytes`")
        memory = step.memory(count(shapes), optimizer_bytes or 0)
        evaluating = step.evaluating(memory)
        peak = max(sum(memory.values()), sum(evaluating.values()))
        fits = fits_on(peak, device)
        advice = ""
        if fits is False:
            advice = step.advice(memory)
        flops = step.flops()
        return attrs.evolve(
            planned,
            trained_parameters=count(shapes),
            flops_a_step=device.count * flops,
            memory=memory,
            evaluating=evaluating,
            peak=peak,
            fits=fits,
            advice=advice,
            seconds=step.seconds(steps, flops, count(shapes)),
            problems=tuple(problems),
        )

    def _stage_texts(
        self, recipe: Recipe, index: int, encoders: Mapping[str, EncoderPlan]
    ) -> Texts:
        """Return a stage's texts, sampled once for stages with the same data, batches and tokenizers."""
        stage = recipe.stage[index]
        # Learning rate, schedule, validation and what the loss computes change neither texts nor batches.
        key: list[Any] = ["texts", stage.data, stage.columns_used, stage.batch_size]
        key += [stage.distinct, stage.shuffle_buffer]
        key += [stage.max_length, stage.normalize_text]
        for column, name in recipe.towers(stage).items():
            encoder = recipe.encoders[name]
            prompts = encoder.resolved_prompts
            key += [column, encoder.backbone, encoder.max_length, prompts]
        sizes = {name: encoder.size for name, encoder in encoders.items()}
        return self._once(tuple(key), lambda: stage_texts(recipe, index, sizes))

    def _loss(self, stage: Stage, encoder: EncoderPlan, rows: int) -> LossSize | str:
        loss, columns = stage.loss, stage.columns_used
        if loss.traits.predicts:
            what = "how many tokens it predicts is known only in training"
            return f"the loss `{loss.name}`: {what}; memory and time of their logits are left out"
        if encoder.recipe.pooler.traits.output == "tokens":
            what = "how many token vectors it compares is each text's own"
            return f"the loss `{loss.name}`: {what}; memory and time of their products are left out"
        width = encoder.width(training=True)

        def count_loss() -> LossSize:
            from sentbed_workbench._torch.module_costs import loss_size

            return loss_size(loss, width, rows, columns)

        return self._once(
            ("loss", _sized(loss), width, rows, columns),
            lambda: _counted(loss, count_loss),
        )


@attrs.frozen(eq=False)
class _Step:
    """One step of a stage on one device, for known encoders."""

    recipe: Recipe
    stage: Stage
    encoders: Mapping[str, EncoderPlan]
    device: Device
    texts: Texts
    rows: int
    """Number of rows of a batch, over all devices."""
    loss: LossSize

    @property
    def trained(self) -> tuple[str, ...]:
        return self.recipe.trained(self.stage)

    @property
    def device_rows(self) -> int:
        return math.ceil(self.rows / self.device.count)

    @property
    def shard(self) -> int:
        """Number of devices among which FSDP splits trained weights."""
        return self.device.count if self.device.parallel == "fsdp" else 1

    def shapes(self) -> dict[str, tuple[int, ...]]:
        shapes = {f"loss.{key}": shape for key, shape in self.loss.trained.items()}
        for name in self.trained:
            for key, shape in self.encoders[name].trained.items():
                shapes[f"{name}.{key}"] = shape
        return shapes

    def lengths(self, tower: str, keys: bool) -> Lengths:
        """Return the lengths of a tower's texts in a batch; `keys`: those of its momentum encoder."""
        traits = self.stage.loss.traits
        total = Lengths()
        for column, name in self.recipe.towers(self.stage).items():
            is_key = traits.momentum is not None and column in traits.keys
            if name == tower and is_key == keys:
                total += self.texts.lengths[column]
        return total * (PADDING * self.device_rows)

    def flops(self) -> float:
        flops = self.loss.flops
        # With gradient caching, each text passes forward twice.
        is_cached = (self.stage.micro_batch or self.rows) < self.device_rows
        for name in self.trained:
            size, lengths = (
                self.encoders[name].known_size,
                self.lengths(name, keys=False),
            )
            flops += (1 + is_cached) * size.forward.of(lengths)
            flops += size.backward.of(lengths)
            flops += size.forward.of(self.lengths(name, keys=True))
        for name in self.stage.freeze:
            lengths = self.lengths(name, keys=False) + self.lengths(name, keys=True)
            of_frozen = self.encoders[name].known_size.forward.of(lengths)
            if self.stage.cache_frozen:
                # With vectors cached on disk, texts are encoded in the first epoch only.
                of_frozen /= self.stage.epochs or 1
            flops += of_frozen
        return flops

    def activations(self) -> tuple[float, float]:
        """Return the bytes that autograd keeps independently of the rows, and those for a batch."""
        once = batch = 0.0
        for name in self.trained:
            cost = self.encoders[name].known_size.activations
            once += cost.once
            of_batch = cost.of(self.lengths(name, keys=False)) - cost.once
            batch += LARGEST * of_batch
        return once, batch

    def memory(self, trained: int, optimizer_bytes: int) -> dict[str, int]:
        towers = self.recipe.towers(self.stage)
        weights = 4 * count(self.loss.trained)
        averages = 0
        for name, encoder in self.encoders.items():
            if encoder.size is None:
                continue
            if name not in self.trained:
                weights += encoder.weight_bytes
                continue
            weights += encoder.weight_bytes // self.shard
            average_bytes = 4 * count(encoder.trained) // self.shard
            if self.lengths(name, keys=True).texts > 0:
                averages += average_bytes
            if self.stage.ema is not None:
                averages += average_bytes
        frozen_copies = 0
        for name in self.stage.freeze:
            frozen_copies += self.encoders[name].known_size.copy_bytes

        once, batch = self.activations()
        rows = min(self.stage.micro_batch or self.rows, self.device_rows)
        activations = once + batch * rows / self.device_rows
        blocks = max(self.encoders[name].known_size.blocks for name in self.trained)
        width = self.encoders[self.trained[0]].width(training=True)
        vectors = 2 * 4 * self.rows * width * len(towers)
        parts = {
            "weights": weights,
            "gradients": 4 * trained // self.shard,
            "optimizer": optimizer_bytes // self.shard,
            "averages": averages,
            "activations": round(activations),
            "temporary": round(activations * BLOCKS_AT_WORK / blocks),
            "loss": self.loss.activation_bytes + vectors,
            "queue": self.loss.state_bytes,
            "frozen copies": frozen_copies,
            "libraries": self.device.libraries,
        }
        return _without_zeros(parts)

    def evaluating(self, memory: Mapping[str, int]) -> dict[str, int]:
        """Return the memory in bytes during validation, by part; empty without validation."""
        names: set[str] = set()
        for validation in (self.stage.validate, *self.stage.watch):
            if validation is not None:
                names.add(validation.encoder or self.trained[0])
                names.update(filter(None, [validation.second]))
        if not names or any(self.encoders[name].size is None for name in names):
            return {}
        parts = dict(memory)
        for name in TRAINING_ONLY:
            parts.pop(name, None)
        others = sorted(names - set(self.stage.freeze))
        return {**encoding_memory(self.encoders, others, self.device), **parts}

    def advice(self, memory: Mapping[str, int]) -> str:
        """Return advice for a step or a validation that does not fit."""
        room = FILLED * (self.device.memory or 0)
        if sum(memory.values()) <= room:
            return "training fits, a validation beside it does not; hold the weights in a smaller `dtype`"
        once, batch = self.activations()
        activations = memory.get("activations", 0)
        # Temporary memory grows with the activations.
        working = activations + memory.get("temporary", 0)
        room -= sum(memory.values()) - working
        rows = 0.0
        if batch:
            share = (room * activations / working - once) / batch
            rows = min(share, 1) * self.device_rows
        if rows >= 1:
            micro_batch = 2 ** int(math.log2(rows))
            return f"set `micro_batch = {micro_batch}` in the stage"
        advice = "train less of the model (`lora` or `freeze` of the backbone)"
        if self.device.step_seconds:
            advice = f'set `parallel = "fsdp"` and more `devices` in the runtime, or {advice}'
        return f"{advice}, with `micro_batch = 1`"

    def seconds(
        self, steps: int | None, flops: float, trained: int
    ) -> tuple[float, float] | None:
        device = self.device
        if device.rates is None or steps is None:
            return None
        waiting = device.step_seconds
        if device.bandwidth is not None:
            waiting += TRAFFIC * trained / self.shard / device.bandwidth
        slow, fast = device.rates
        return steps * (flops / fast + waiting), steps * (flops / slow + waiting)


def fits_on(size: int, device: Device) -> bool | None:
    """Return whether `size` bytes fit on a device, or None if its memory is unknown."""
    if device.memory is None:
        return None
    return size <= FILLED * device.memory


def encoding_memory(
    encoders: Mapping[str, EncoderPlan], names: Sequence[str], device: Device
) -> dict[str, int]:
    """Return the memory in bytes of one device for encoding, by part; empty if an encoder is unknown."""
    if any(encoders[name].size is None for name in names):
        return {}
    copies, buffers = 0, [0]
    for name in names:
        size = encoders[name].known_size
        states = STATES_A_TOKEN * size.width + INNER_STATES_A_TOKEN * size.inner
        buffers.append(4 * device.token_budget * states)
        copies += size.copy_bytes
    parts = {
        "weights": sum(encoders[name].weight_bytes for name in names),
        "encoding copies": copies,
        "encoding buffers": max(buffers),
        "libraries": device.libraries,
    }
    return _without_zeros(parts)


def _without_zeros(parts: Mapping[str, int]) -> dict[str, int]:
    return {name: size for name, size in parts.items() if size}


def _counted(component: Component, find: Callable[[], T]) -> T | str:
    """Return what `find` counts of a component, or why it cannot be counted."""
    what = f"`{component.name}` cannot be counted without weights"
    try:
        with foreign(ModelError, what, "a run may use it all the same"):
            return find()
    except SentbedError as error:
        return str(error)


def _sized(component: Any) -> tuple[type, Any]:
    """Return the fields that may determine shapes and operations; floats only as zero or non-zero."""

    def serialise(_: type, __: attrs.Attribute[Any] | None, value: Any) -> Any:
        return value != 0 if isinstance(value, float) else value

    return type(component), attrs.asdict(component, value_serializer=serialise)
