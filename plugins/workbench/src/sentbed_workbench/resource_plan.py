"""Plan of what a recipe needs: parameters, memory and steps. No weights are loaded.

Modules are built on the device `meta` and run on tensors without content (`_torch.fake_modules`). The lengths of
texts are those of a sample (`sampled_texts`).
A number is None if it cannot be computed, for example because data is not on this machine; `problems` then
has the reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
from sentbed.errors import ModelError, SentbedError, foreign
from sentbed.protocols import BuildContext, Component, Recipe, Stage

from sentbed_workbench.module_sizes import LossSize, Shapes, count
from sentbed_workbench.plan_records import EncoderPlan, Plan, StagePlan
from sentbed_workbench.planned_device import Device, device_of
from sentbed_workbench.sampled_texts import (
    SampledTexts,
    sampled_texts,
    training_texts,
)

if TYPE_CHECKING:
    from sentbed_common.pass_cost import PassCost

    from sentbed_workbench._torch.fake_modules import FakeBackbone

T = TypeVar("T")
FILLED = 0.8
"""Largest share of a device's memory that a plan may fill and still count as fitting.

In short runs, allocators took up to 28 % more than was in use."""
PADDING = 1.1
"""Approximate number of computed tokens, including padding, per token of a batch."""


def plan(recipe: Recipe) -> Plan:
    """Return the plan of a recipe on its runtime."""
    return Planner().plan(recipe)


@attrs.define(eq=False)
class Planner:
    """Plans several recipes, such as the cells of a study. What they have in common is computed once."""

    _results: dict[str, Any] = attrs.field(factory=dict, init=False)

    def plan(self, recipe: Recipe) -> Plan:
        """Return the plan of a recipe."""
        device = device_of(recipe.runtime)
        encoders = {}
        for name in recipe.encoders:
            encoders[name] = self._encoder_plan(recipe, name)
        stages = []
        for index in range(len(recipe.stage)):
            stages.append(self._stage_plan(recipe, index, encoders, device))
        encoding = self._encoding_memory(encoders, device)
        return Plan(device, encoders, tuple(stages), encoding)

    def _once(self, compute: Callable[[], T], *key: object) -> T:
        """Return the result of `compute` for a key. It is computed once."""
        # Components may contain mappings, and so have no hash.
        text = repr(key)
        if text not in self._results:
            self._results[text] = compute()
        result: T = self._results[text]
        return result

    def _encoder_plan(self, recipe: Recipe, name: str) -> EncoderPlan:
        """Return the plan of an encoder."""
        encoder = recipe.encoders[name]
        backbone, pooler = encoder.backbone, encoder.pooler
        context = BuildContext(
            lambda: training_texts(recipe, name),
            needs=encoder.needs,
            shapes_only=True,
        )

        def build_backbone() -> FakeBackbone | str:
            from sentbed_workbench._torch.fake_modules import fake_backbone

            return _or_problem(backbone, lambda: fake_backbone(backbone, context))

        needs = sorted(encoder.needs)
        fake = self._once(build_backbone, backbone, needs)
        if isinstance(fake, str):
            return EncoderPlan(encoder, problem=fake)

        width = fake.built.width

        def build_head() -> Shapes | str:
            from sentbed_workbench._torch.fake_modules import head_shapes

            return _or_problem(pooler, lambda: head_shapes(pooler, encoder.head, width))

        head = self._once(build_head, pooler, encoder.head, width)
        if isinstance(head, str):
            return EncoderPlan(encoder, problem=head)
        return EncoderPlan(encoder, fake, head)

    def _stage_plan(
        self,
        recipe: Recipe,
        index: int,
        encoders: Mapping[str, EncoderPlan],
        device: Device,
    ) -> StagePlan:
        """Return the plan of the stage with this index."""
        stage = recipe.stage[index]
        texts = self._sampled_texts(recipe, index, encoders)
        rows = min(stage.batch_size, texts.rows or stage.batch_size)
        planned = _plan_of_batches(stage, texts, rows)
        problems = list(planned.problems)
        for name in recipe.towers(stage).values():
            if encoders[name].fake is None:
                problems.append(f"the encoder `{name}` is not known")
                return attrs.evolve(planned, problems=tuple(problems))

        loss = self._loss(stage, encoders[recipe.trained(stage)[0]], rows)
        if isinstance(loss, str):
            problems.append(loss)
            loss = LossSize()
        step = _Step(recipe, stage, encoders, device, texts, rows, loss)
        optimizer_bytes = stage.optimizer.state_bytes(step.trained_shapes())
        if optimizer_bytes is None:
            name = stage.optimizer.name
            problems.append(f"the optimiser's state: `{name}` has no `state_bytes`")

        held = step.held_memory(optimizer_bytes or 0)
        chunk = min(stage.micro_batch or rows, step.device_rows)
        flops, activations = self._cost_of_step(step, chunk)
        memory = _without_zeros({**held, "activations": activations})
        fits = fits_on(sum(memory.values()), device)
        advice = ""
        if fits is False:
            advice = self._advice(step, held)
        return attrs.evolve(
            planned,
            trained_parameters=count(step.trained_shapes()),
            flops_a_step=device.count * flops,
            memory=memory,
            fits=fits,
            advice=advice,
            problems=tuple(problems),
        )

    def _sampled_texts(
        self,
        recipe: Recipe,
        index: int,
        encoders: Mapping[str, EncoderPlan],
    ) -> SampledTexts:
        """Return a stage's texts. Stages with equal data, batches and tokenizers have the same sample."""
        stage = recipe.stage[index]
        # Everything that texts and batches depend on. Learning rate and schedule, for example, do not matter.
        key: list[object] = [stage.data, stage.columns_used, stage.batch_size]
        key += [stage.distinct, stage.max_length, stage.normalize_text]
        for column, name in recipe.towers(stage).items():
            encoder = recipe.encoders[name]
            key += [column, encoder.backbone, encoder.max_length]
            key.append(encoder.resolved_prompts)
        return self._once(lambda: sampled_texts(recipe, index, encoders), *key)

    def _loss(
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

        def count_loss() -> LossSize | str:
            from sentbed_workbench._torch.fake_modules import loss_size

            return _or_problem(loss, lambda: loss_size(loss, width, rows, columns))

        return self._once(
            count_loss, _fields_that_set_size(loss), width, rows, sorted(columns)
        )

    def _cost(
        self,
        encoder: EncoderPlan,
        batches: Sequence[tuple[int, int]],
        device: Device,
        trained: bool,
    ) -> PassCost:
        """Return the cost of a forward pass of an encoder over batches and, if `trained`, of a backward pass."""

        def count_pass() -> PassCost:
            from sentbed_workbench._torch.fake_modules import backbone_cost

            return backbone_cost(
                encoder.backbone, batches, device.precision, device.kind, trained
            )

        recipe = encoder.recipe
        key = (recipe.backbone, sorted(recipe.needs), batches)
        return self._once(
            count_pass, *key, device.precision, device.kind, "trained", trained
        )

    def _cost_of_step(self, step: _Step, chunk: int) -> tuple[float, int]:
        """Return the operations of a step on one device, and the bytes of its passes over `chunk` rows each."""
        flops = step.loss.flops
        chunks = step.device_rows / chunk
        activations = 0
        for name in step.trained:
            encoder, batches = step.encoders[name], step.batches(name, chunk)
            trained = self._cost(encoder, batches, step.device, trained=True)
            flops += chunks * trained.operations
            activations += trained.peak_bytes
            if chunks > 1:
                # With gradient caching, each text passes forward twice.
                forward = self._cost(encoder, batches, step.device, trained=False)
                flops += chunks * forward.operations

        for name, batches in step.passes_without_gradient(chunk):
            cost = self._cost(step.encoders[name], batches, step.device, trained=False)
            flops += chunks * cost.operations
            activations = max(activations, cost.peak_bytes)
        return flops, activations

    def _encoding_memory(
        self,
        encoders: Mapping[str, EncoderPlan],
        device: Device,
    ) -> Mapping[str, int]:
        """Return the memory in bytes of one device while these encoders encode, by part.

        It is empty if the size of an encoder is unknown.
        """
        weights = activations = 0
        for encoder in encoders.values():
            if encoder.fake is None:
                return {}
            length = min(encoder.recipe.max_length, encoder.fake.built.max_length)
            batch = (max(1, device.token_budget // length), length)
            cost = self._cost(encoder, [batch], device, trained=False)
            activations = max(activations, cost.peak_bytes)
            weights += encoder.weight_bytes
            weights += encoder.fake.copy_bytes(device.precision)
        return _without_zeros(
            {
                "weights": weights,
                "activations": activations,
                "libraries": device.libraries,
            }
        )

    def _advice(self, step: _Step, held: Mapping[str, int]) -> str:
        """Return advice if a step does not fit; `held` is the memory that it holds beside activations."""
        chunk = step.device_rows
        while chunk > 1:
            chunk = math.ceil(chunk / 2)
            _, activations = self._cost_of_step(step, chunk)
            if fits_on(sum(held.values()) + activations, step.device):
                return f"set `micro_batch = {chunk}` in the stage"

        advice = "train less of the model (`lora` or `freeze` of the backbone)"
        if step.device.kind in ("cuda", "tpu"):
            advice = f'set `parallel = "fsdp"` and more `devices` in the runtime, or {advice}'
        return f"{advice}, with `micro_batch = 1`"


def _plan_of_batches(
    stage: Stage,
    texts: SampledTexts,
    rows: int,
) -> StagePlan:
    """Return the part of a stage's plan that depends on data and batches alone; a batch has `rows` rows."""
    steps = stage.steps
    if steps is None and texts.batches_an_epoch is not None:
        steps = texts.batches_an_epoch * (stage.epochs or 1)
    validations = None
    if stage.validate is not None and steps is not None:
        # The first is before the first step, the last after the last.
        validations = 1 + math.ceil(steps / stage.validate.every)
    problems = []
    if texts.problem:
        problems.append(texts.problem)
    if rows < stage.batch_size:
        problems.append(
            f"a batch of {stage.batch_size:,} is more than the data has: {rows:,} rows"
        )
    lengths = [length for column in texts.lengths.values() for length in column]
    return StagePlan(
        name=stage.name,
        rows=texts.rows,
        steps=steps,
        validations=validations,
        tokens_a_text=sum(lengths) / len(lengths),
        tokens_a_step=rows * sum(lengths),
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
    texts: SampledTexts
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

    def trained_shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the trained parameters of loss and encoders, by name."""
        shapes = {f"loss.{key}": shape for key, shape in self.loss.shapes.items()}
        for name in self.trained:
            for key, shape in self.encoders[name].trained.items():
                shapes[f"{name}.{key}"] = shape
        return shapes

    def batches(
        self, name: str, rows: int, keys: bool = False
    ) -> list[tuple[int, int]]:
        """Return the number of texts and the padded length of each batch that an encoder encodes of `rows` rows.

        With `keys`, they are those that the encoder's momentum copy (the moving average) encodes.
        """
        loss = self.stage.loss
        longest = self.encoders[name].backbone.built.max_length
        batches = []
        for column, tower in self.recipe.towers(self.stage).items():
            is_key = loss.momentum is not None and column in loss.keys
            if tower == name and is_key == keys:
                for length in self.texts.lengths[column]:
                    padded = math.ceil(PADDING * length)
                    batches.append((rows, min(padded, longest)))
        return batches

    def passes_without_gradient(
        self, rows: int
    ) -> Iterator[tuple[str, list[tuple[int, int]]]]:
        """Yield encoders that encode without gradient, momentum copies and frozen ones, with their batches."""
        for name in self.trained:
            keys = self.batches(name, rows, keys=True)
            if keys:
                yield name, keys
        for name in self.stage.freeze:
            yield name, self.batches(name, rows) + self.batches(name, rows, keys=True)

    def held_memory(self, optimizer_bytes: int) -> Mapping[str, int]:
        """Return the memory in bytes of what is held through a step, by part."""
        shards = 1
        if self.device.parallel == "fsdp":
            shards = self.device.count
        weights = 4 * count(self.loss.shapes)
        averages = 0
        for name, encoder in self.encoders.items():
            if encoder.fake is None:
                continue
            if name not in self.trained:
                weights += encoder.weight_bytes
                continue
            weights += encoder.weight_bytes // shards
            average_bytes = 4 * count(encoder.trained) // shards
            if self.batches(name, 1, keys=True):
                averages += average_bytes
            if self.stage.ema is not None:
                averages += average_bytes

        for name in self.stage.freeze:
            # A frozen encoder computes with a copy of its weights.
            weights += self.encoders[name].backbone.copy_bytes(self.device.precision)
        return _without_zeros(
            {
                "weights": weights,
                "gradients": 4 * count(self.trained_shapes()) // shards,
                "optimizer": optimizer_bytes // shards,
                "averages": averages,
                "loss": self.loss.peak_bytes,
                "queue": self.loss.state_bytes,
                "libraries": self.device.libraries,
            }
        )


def fits_on(size: int, device: Device) -> bool | None:
    """Return whether `size` bytes fit on a device, or None if its memory is unknown."""
    if device.memory is None:
        return None
    return size <= FILLED * device.memory


def _without_zeros(parts: Mapping[str, int]) -> dict[str, int]:
    return {name: size for name, size in parts.items() if size}


def _or_problem(component: Component, count_size: Callable[[], T]) -> T | str:
    """Return what is counted of a component, or why it cannot be counted."""
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
