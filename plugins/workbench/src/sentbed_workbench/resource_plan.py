"""Plan of what a recipe needs: parameters, memory and steps. No weights are loaded.

Modules are built on the device `meta` and run on tensors without content (`_torch.module_costs`). The lengths of
texts are those of a sample (`text_lengths`).
A number is None if it cannot be computed, for example because data is not on this machine; `problems` then
has the reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import attrs
from sentbed.errors import ModelError, SentbedError, foreign
from sentbed.protocols import BuildContext, Component, Recipe, Stage

from sentbed_workbench.module_sizes import BackboneSize, Lengths, LossSize
from sentbed_workbench.plan_records import (
    EncoderPlan,
    Plan,
    Shapes,
    StagePlan,
    count,
    number_of_validations,
)
from sentbed_workbench.planned_device import Device, device_of
from sentbed_workbench.text_lengths import (
    Texts,
    stage_texts,
    training_texts,
)

T = TypeVar("T")
FILLED = 0.8
"""Largest share of a device's memory that a plan may fill and still count as fitting.

In short runs, allocators took up to 28 % more than was in use."""
BLOCKS_IN_BACKWARD = 2
"""Number of blocks whose gradients are in memory at the same time during the backward pass."""
STATES_PER_TOKEN = 6
"""Approximate number of hidden states per token that a pass without gradient keeps in memory."""
INNER_STATES_PER_TOKEN = 2
"""Approximate number of states of an MLP's inner width per token that a pass without gradient keeps."""
PADDING = 1.1
"""Approximate number of computed tokens, including padding, per token of a batch."""
LARGEST_BATCH = 1.1
"""Approximate ratio of the activations of the largest batch to the activations of a mean batch."""
TRAINING_ONLY = ("gradients", "activations", "temporary", "loss")
"""Parts of the memory that are freed before a validation."""


def plan(recipe: Recipe) -> Plan:
    """Return the plan of a recipe on its runtime."""
    return Planner().plan(recipe)


@attrs.define(eq=False)
class Planner:
    """Plans several recipes, such as the cells of a study. What they have in common is computed once."""

    unusable: list[str] = attrs.field(factory=list, init=False)
    """Problems with data that would also stop a run of one of the planned recipes."""
    _results: dict[str, Any] = attrs.field(factory=dict, init=False)

    def plan(self, recipe: Recipe) -> Plan:
        """Return the plan of a recipe."""
        device = self._device(recipe)
        encoders = self._encoders(recipe, device)
        stages = []
        for index in range(len(recipe.stage)):
            stages.append(self._stage_plan(recipe, index, encoders, device))
        encoding = encoding_memory(encoders, list(encoders), device)
        return Plan(device, encoders, tuple(stages), encoding)

    def _cached(self, key: tuple[Any, ...], compute: Callable[[], T]) -> T:
        """Return the result of `compute` for a key. It is computed once."""
        # Components may contain mappings, and so have no hash.
        typed_key = repr([(type(part), part) for part in key])
        if typed_key not in self._results:
            self._results[typed_key] = compute()
        result: T = self._results[typed_key]
        return result

    def _record_unusable(self, texts: Texts) -> None:
        """Append the problem of texts to `unusable` if it would stop a run, too."""
        if texts.unusable and texts.problem not in self.unusable:
            self.unusable.append(texts.problem)

    def _device(self, recipe: Recipe) -> Device:
        """Return the device of a recipe's runtime."""
        runtime = recipe.runtime
        return self._cached(("device", runtime), lambda: device_of(runtime))

    def _encoders(self, recipe: Recipe, device: Device) -> dict[str, EncoderPlan]:
        """Return the plan of each encoder of a recipe by name."""
        trained: set[str] = set()
        for stage in recipe.stage:
            trained.update(recipe.trained(stage))
        encoders = {}
        for name in recipe.encoders:
            encoders[name] = self._encoder_plan(recipe, name, device, name in trained)
        return encoders

    def _encoder_plan(
        self,
        recipe: Recipe,
        name: str,
        device: Device,
        trained: bool,
    ) -> EncoderPlan:
        """Return the plan of an encoder. The cost of its backward pass is counted if it is `trained`."""
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

        needs = sorted(encoder.needs)
        key = (needs, encoder.readings, device.precision, device.kind, trained)
        size = self._cached(
            ("backbone", backbone, *key),
            lambda: _size_or_problem(backbone, count_backbone),
        )
        if isinstance(size, str):
            return EncoderPlan(encoder, problem=size)

        def count_head() -> Shapes:
            from sentbed_workbench._torch.module_costs import head_shapes

            return head_shapes(pooler, encoder.head, size.width)

        head = self._cached(
            ("head", pooler, encoder.head, size.width),
            lambda: _size_or_problem(pooler, count_head),
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
        """Return the plan of the stage with this index."""
        stage = recipe.stage[index]
        texts = self._stage_texts(recipe, index, encoders)
        self._record_unusable(texts)
        rows = min(stage.batch_size, texts.rows or stage.batch_size)
        planned = _plan_of_batches(stage, texts, rows)
        problems = list(planned.problems)
        for name in recipe.towers(stage).values():
            if encoders[name].size is None:
                problems.append(f"the encoder `{name}` is not known")
                return attrs.evolve(planned, problems=tuple(problems))

        loss = self._loss_size(stage, encoders[recipe.trained(stage)[0]], rows)
        if isinstance(loss, str):
            problems.append(loss)
            loss = LossSize()
        step = _Step(recipe, stage, encoders, device, texts, rows, loss)
        shapes = step.trained_shapes()
        trained = count(shapes)
        optimizer_bytes = stage.optimizer.state_bytes(shapes)
        if optimizer_bytes is None:
            name = stage.optimizer.name
            problems.append(f"the optimiser's state: `{name}` has no `state_bytes`")

        memory = step.memory(trained, optimizer_bytes or 0)
        evaluating = step.validation_memory(memory)
        peak = max(sum(memory.values()), sum(evaluating.values()))
        fits = fits_on(peak, device)
        advice = ""
        if fits is False:
            advice = step.advice(memory)
        flops = step.flops()
        return attrs.evolve(
            planned,
            trained_parameters=trained,
            flops_a_step=device.count * flops,
            memory=memory,
            evaluating=evaluating,
            peak=peak,
            fits=fits,
            advice=advice,
            problems=tuple(problems),
        )

    def _stage_texts(
        self,
        recipe: Recipe,
        index: int,
        encoders: Mapping[str, EncoderPlan],
    ) -> Texts:
        """Return a stage's texts. Stages with equal data, batches and tokenizers have the same sample."""
        stage = recipe.stage[index]
        # Everything that texts and batches depend on. Learning rate and schedule, for example, do not matter.
        key: list[Any] = ["texts", stage.data, stage.columns_used, stage.batch_size]
        key += [stage.distinct, stage.max_length, stage.normalize_text]
        for column, name in recipe.towers(stage).items():
            encoder = recipe.encoders[name]
            prompts = encoder.resolved_prompts
            key += [column, encoder.backbone, encoder.max_length, prompts]
        sizes = {name: encoder.size for name, encoder in encoders.items()}
        return self._cached(tuple(key), lambda: stage_texts(recipe, index, sizes))

    def _loss_size(
        self,
        stage: Stage,
        encoder: EncoderPlan,
        rows: int,
    ) -> LossSize | str:
        """Return the size of a stage's loss for a batch of `rows` rows, or why it is unknown."""
        loss, columns = stage.loss, stage.columns_used
        if encoder.recipe.pooler.output == "tokens":
            what = "how many token vectors it compares is each text's own"
            return f"the loss `{loss.name}`: {what}; memory and operations of their products are left out"
        width = encoder.width(training=True)

        def count_loss() -> LossSize:
            from sentbed_workbench._torch.module_costs import loss_size

            return loss_size(loss, width, rows, columns)

        return self._cached(
            ("loss", _fields_that_set_size(loss), width, rows, columns),
            lambda: _size_or_problem(loss, count_loss),
        )


def _plan_of_batches(
    stage: Stage,
    texts: Texts,
    rows: int,
) -> StagePlan:
    """Return the part of a stage's plan that depends on data and batches alone; a batch has `rows` rows."""
    steps = stage.steps
    if steps is None and texts.batches_an_epoch is not None:
        steps = texts.batches_an_epoch * (stage.epochs or 1)
    validations = None
    if stage.validate is not None and steps is not None:
        validations = number_of_validations(stage.validate.every, steps)
    problems = []
    if texts.problem:
        problems.append(texts.problem)
    if rows < stage.batch_size:
        problems.append(
            f"a batch of {stage.batch_size:,} is more than the data has: {rows:,} rows"
        )
    row = sum(texts.lengths.values(), Lengths())
    return StagePlan(
        name=stage.name,
        rows=texts.rows,
        steps=steps,
        validations=validations,
        tokens_a_text=row.tokens / row.texts,
        tokens_a_step=rows * row.tokens,
        lengths=texts.source,
        problems=tuple(problems),
    )


@attrs.frozen(eq=False)
class _Step:
    """A step of a stage, as one of the devices computes it. The sizes of the encoders in the step are known."""

    recipe: Recipe
    stage: Stage
    encoders: Mapping[str, EncoderPlan]
    device: Device
    texts: Texts
    rows: int
    """Number of rows of a batch, on all devices together."""
    loss: LossSize

    @property
    def trained(self) -> tuple[str, ...]:
        """Names of the encoders that the stage trains."""
        return self.recipe.trained(self.stage)

    @property
    def device_rows(self) -> int:
        """Number of rows of a batch on one device."""
        return math.ceil(self.rows / self.device.count)

    @property
    def shards(self) -> int:
        """Number of devices among which FSDP splits the trained weights; 1 without FSDP."""
        return self.device.count if self.device.parallel == "fsdp" else 1

    def trained_shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the trained parameters of loss and encoders, by name."""
        shapes = {f"loss.{key}": shape for key, shape in self.loss.trained.items()}
        for name in self.trained:
            for key, shape in self.encoders[name].trained.items():
                shapes[f"{name}.{key}"] = shape
        return shapes

    def lengths(self, encoder: str, keys: bool) -> Lengths:
        """Return the lengths of the texts of a batch that an encoder encodes on one device, including padding.

        With `keys`, they are the texts that the encoder's momentum copy (the moving average) encodes.
        """
        loss = self.stage.loss
        total = Lengths()
        for column, name in self.recipe.towers(self.stage).items():
            is_key = loss.momentum is not None and column in loss.keys
            if name == encoder and is_key == keys:
                total += self.texts.lengths[column]
        return total * (PADDING * self.device_rows)

    def flops(self) -> float:
        """Return the floating-point operations of the step."""
        flops = self.loss.flops
        forward_passes = 1
        if (self.stage.micro_batch or self.rows) < self.device_rows:
            # With gradient caching, each text passes forward twice.
            forward_passes = 2
        for name in self.trained:
            size = self.encoders[name].known_size
            lengths = self.lengths(name, keys=False)
            flops += forward_passes * size.forward.of(lengths)
            flops += size.backward.of(lengths)
            flops += size.forward.of(self.lengths(name, keys=True))

        for name in self.stage.freeze:
            lengths = self.lengths(name, keys=False) + self.lengths(name, keys=True)
            flops += self.encoders[name].known_size.forward.of(lengths)
        return flops

    def activations(self) -> tuple[float, float]:
        """Return the bytes that autograd keeps whatever the rows are, and the bytes that it keeps for a batch."""
        once = batch = 0.0
        for name in self.trained:
            cost = self.encoders[name].known_size.activations
            once += cost.once
            batch_bytes = cost.of(self.lengths(name, keys=False)) - cost.once
            batch += LARGEST_BATCH * batch_bytes
        return once, batch

    def memory(self, trained: int, optimizer_bytes: int) -> dict[str, int]:
        """Return the memory in bytes during training, by part; `trained` is the number of trained weights."""
        towers = self.recipe.towers(self.stage)
        weights = 4 * count(self.loss.trained)
        averages = 0
        for name, encoder in self.encoders.items():
            if encoder.size is None:
                continue
            if name not in self.trained:
                weights += encoder.weight_bytes
                continue
            weights += encoder.weight_bytes // self.shards
            average_bytes = 4 * count(encoder.trained) // self.shards
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
            "gradients": 4 * trained // self.shards,
            "optimizer": optimizer_bytes // self.shards,
            "averages": averages,
            "activations": round(activations),
            "temporary": round(activations * BLOCKS_IN_BACKWARD / blocks),
            "loss": self.loss.activation_bytes + vectors,
            "queue": self.loss.state_bytes,
            "frozen copies": frozen_copies,
            "libraries": self.device.libraries,
        }
        return _without_zeros(parts)

    def validation_memory(self, memory: Mapping[str, int]) -> dict[str, int]:
        """Return the memory in bytes during a validation, by part. `memory` is the memory during training.

        The result is empty if the stage has no validation, or if the size of a validated encoder is unknown.
        """
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
        """Return advice if the step or a validation does not fit; `memory` is the memory during training."""
        room = FILLED * (self.device.memory or 0)
        if sum(memory.values()) <= room:
            return "training fits, a validation beside it does not; hold the weights in a smaller `dtype`"

        once, batch = self.activations()
        activations = memory.get("activations", 0)
        # Temporary memory is proportional to the activations.
        per_batch = activations + memory.get("temporary", 0)
        room -= sum(memory.values()) - per_batch
        rows = 0.0
        if batch:
            share = (room * activations / per_batch - once) / batch
            rows = min(share, 1) * self.device_rows
        if rows >= 1:
            micro_batch = 2 ** int(math.log2(rows))
            return f"set `micro_batch = {micro_batch}` in the stage"

        advice = "train less of the model (`lora` or `freeze` of the backbone)"
        if self.device.kind in ("cuda", "tpu"):
            advice = f'set `parallel = "fsdp"` and more `devices` in the runtime, or {advice}'
        return f"{advice}, with `micro_batch = 1`"


def fits_on(size: int, device: Device) -> bool | None:
    """Return whether `size` bytes fit on a device, or None if its memory is unknown."""
    if device.memory is None:
        return None
    return size <= FILLED * device.memory


def encoding_memory(
    encoders: Mapping[str, EncoderPlan],
    names: Sequence[str],
    device: Device,
) -> dict[str, int]:
    """Return the memory in bytes of one device while these encoders encode, by part.

    It is empty if the size of an encoder is unknown.
    """
    if any(encoders[name].size is None for name in names):
        return {}

    weights = copies = 0
    buffers = [0]
    for name in names:
        size = encoders[name].known_size
        numbers = STATES_PER_TOKEN * size.width + INNER_STATES_PER_TOKEN * size.inner
        buffers.append(4 * device.token_budget * numbers)
        weights += encoders[name].weight_bytes
        copies += size.copy_bytes

    parts = {
        "weights": weights,
        "encoding copies": copies,
        "encoding buffers": max(buffers),
        "libraries": device.libraries,
    }
    return _without_zeros(parts)


def _without_zeros(parts: Mapping[str, int]) -> dict[str, int]:
    return {name: size for name, size in parts.items() if size}


def _size_or_problem(component: Component, count_size: Callable[[], T]) -> T | str:
    """Return the size of a component, or why `count_size` cannot count it."""
    what = f"`{component.name}` cannot be counted without weights"
    try:
        with foreign(ModelError, what, "a run may use it all the same"):
            return count_size()
    except SentbedError as error:
        return str(error)


def _fields_that_set_size(component: Any) -> tuple[type, Any]:
    """Return the class and the fields of a component, each float replaced by whether it is zero.

    Other values of floats, such as temperatures, change neither shapes nor operations.
    """

    def serialise(
        _: type,
        __: attrs.Attribute[Any] | None,
        value: Any,
    ) -> Any:
        return value != 0 if isinstance(value, float) else value

    return type(component), attrs.asdict(component, value_serializer=serialise)
