"""Plan of what a recipe needs: parameters, memory and steps. No weights are loaded.

Modules are built on the device `meta` and run on tensors without content (`_torch.fake_modules`). The lengths of
texts are those of a sample (`sampled_texts`). A number is None if it cannot be computed, for example because data
is not on this machine; the problems then have the reason.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import attrs
from sentbed.errors import ModelError, SentbedError, foreign
from sentbed.protocols import BuildContext, EncoderRecipe, Recipe, Stage

from sentbed_workbench.planned_device import Device, device_of
from sentbed_workbench.sampled_texts import sampled_texts, training_texts

if TYPE_CHECKING:
    from sentbed_common.pass_cost import PassCost

    from sentbed_workbench._torch.fake_modules import FakeBackbone, LossSize, Shapes

FILLED = 0.8
"""Largest share of a device's memory that a plan may fill and still count as fitting.

In short runs, allocators took up to 28 % more than was in use."""
PADDING = 1.1
"""Approximate number of computed tokens, including padding, per token of a batch."""


@attrs.frozen(eq=False)
class EncoderPlan:
    """Plan of an encoder."""

    recipe: EncoderRecipe
    backbone: FakeBackbone
    head: Shapes
    """Shapes of the trained parameters of pooler and head, by name."""

    @property
    def parameters(self) -> int:
        """Number of parameters of backbone, pooler and head."""
        return self.backbone.parameters + _count(self.head)

    @property
    def trained(self) -> Shapes:
        """Shapes of the trained parameters, by name."""
        return {**self.backbone.shapes, **self.head}

    @property
    def weight_bytes(self) -> int:
        """Size of all weights in bytes."""
        return self.backbone.weight_bytes + 4 * _count(self.head)

    @property
    def width(self) -> int:
        """Dimension of a vector in evaluations, before a transform, and before it is cut to fewer dimensions."""
        pooled = self.recipe.pooler.output_width(self.backbone.built.width)
        return self.recipe.head.projection or pooled

    @property
    def trained_width(self) -> int:
        """Dimension of a vector during training."""
        pooled = self.recipe.pooler.trained_width(self.backbone.built.width)
        return self.recipe.head.projection or pooled


@attrs.frozen
class StagePlan:
    """Plan of a stage."""

    title: str
    """Name of the stage."""
    rows: int | None
    """Number of rows of the stage's data."""
    steps: int | None
    tokens_a_step: float
    """Mean number of tokens per step, on all devices."""
    trained_parameters: int | None = None
    operations_a_step: float | None = None
    """Floating-point operations per step on all devices."""
    memory: Mapping[str, int] = attrs.field(factory=dict)
    """Memory in bytes of one device during training, by part; see docs/machine.md."""
    fits: bool | None = None
    """Whether the memory of the device suffices; None if it is unknown."""
    problems: tuple[str, ...] = ()


@attrs.frozen(eq=False)
class Plan:
    """Plan of a recipe."""

    device: Device
    encoders: Mapping[str, EncoderPlan]
    unknown: Mapping[str, str]
    """Name of an encoder that could not be built -> reason."""
    stages: tuple[StagePlan, ...]
    encoding: Mapping[str, int]
    """Memory in bytes of one device during the evaluations of a recipe without stages, by part."""
    problems: tuple[str, ...] = ()
    """Why that memory is unknown."""


def plan(recipe: Recipe) -> Plan:
    """Return the plan of a recipe on its runtime."""
    device = device_of(recipe.runtime)
    encoders = {}
    unknown = {}
    for name in recipe.encoders:
        try:
            encoders[name] = encoder_plan(recipe, name)
        except SentbedError as error:
            unknown[name] = str(error)
    stages = []
    for index in range(len(recipe.stage)):
        stages.append(_stage_plan(recipe, index, encoders, device))
    encoding = {}
    problems = []
    if not stages and not unknown:
        try:
            encoding = _encoding_memory(encoders, device)
        except SentbedError as error:
            problems.append(str(error))
    return Plan(device, encoders, unknown, tuple(stages), encoding, tuple(problems))


def encoder_plan(recipe: Recipe, name: str) -> EncoderPlan:
    """Return the plan of an encoder of a recipe.

    Raises:
        SentbedError: if it cannot be built without weights.
    """
    from sentbed_workbench._torch.fake_modules import fake_backbone, head_shapes

    encoder = recipe.encoders[name]
    context = BuildContext(
        lambda: training_texts(recipe, name),
        needs=encoder.needs,
        shapes_only=True,
    )
    with _counted(encoder.backbone.name):
        backbone = fake_backbone(encoder.backbone, context)
    with _counted(encoder.pooler.name):
        head = head_shapes(encoder.pooler, encoder.head, backbone.built.width)
    return EncoderPlan(encoder, backbone, head)


def _stage_plan(
    recipe: Recipe,
    index: int,
    encoders: Mapping[str, EncoderPlan],
    device: Device,
) -> StagePlan:
    """Return the plan of the stage with this index."""
    stage = recipe.stage[index]
    backbones = {name: encoder.backbone.built for name, encoder in encoders.items()}
    texts = sampled_texts(recipe, index, backbones)
    rows = min(stage.batch_size, texts.rows or stage.batch_size)
    problems = list(texts.problems)
    if rows < stage.batch_size:
        problems.append(
            f"a batch of {stage.batch_size:,} is more than the data has: {rows:,} rows"
        )
    steps = stage.steps
    if steps is None and texts.batches_an_epoch is not None:
        steps = texts.batches_an_epoch * (stage.epochs or 1)
    tokens = rows * sum(map(sum, texts.lengths.values()))
    planned = StagePlan(stage.name, texts.rows, steps, tokens)
    try:
        step = _step(recipe, stage, encoders, device, texts.lengths, rows)
        optimizer_bytes = stage.optimizer.state_bytes(step.trained_shapes)
        operations, activations = step.operations_and_activations()
    except SentbedError as error:
        return attrs.evolve(planned, problems=(*problems, str(error)))

    if step.compares_tokens:
        problems.append(
            f"the loss `{stage.loss.name}`: how many token vectors it compares is each text's own; memory and "
            "operations of their products are left out"
        )
    if optimizer_bytes is None:
        name = stage.optimizer.name
        problems.append(f"the optimiser's state: `{name}` has no `state_bytes`")
    memory = step.held_memory(optimizer_bytes or 0)
    memory["activations"] = activations
    fits = None
    if device.memory is not None:
        fits = sum(memory.values()) <= FILLED * device.memory
    return attrs.evolve(
        planned,
        trained_parameters=_count(step.trained_shapes),
        operations_a_step=device.count * operations,
        memory=_without_zeros(memory),
        fits=fits,
        problems=tuple(problems),
    )


def _step(
    recipe: Recipe,
    stage: Stage,
    encoders: Mapping[str, EncoderPlan],
    device: Device,
    lengths: Mapping[str, list[float]],
    rows: int,
) -> _Step:
    """Return a step of a stage; raises `SentbedError` if an encoder or the loss cannot be counted."""
    from sentbed_workbench._torch.fake_modules import LossSize, loss_size

    for name in recipe.towers(stage).values():
        if name not in encoders:
            raise ModelError(f"the encoder `{name}` is not known")
    encoder = encoders[recipe.trained(stage)[0]]
    loss = LossSize()
    compares_tokens = encoder.recipe.pooler.output == "tokens"
    if not compares_tokens:
        with _counted(stage.loss.name):
            loss = loss_size(
                stage.loss, encoder.trained_width, rows, stage.columns_used
            )
    return _Step(recipe, stage, encoders, device, lengths, rows, loss, compares_tokens)


@attrs.frozen(eq=False)
class _Step:
    """A step of a stage, as one of the devices computes it."""

    recipe: Recipe
    stage: Stage
    encoders: Mapping[str, EncoderPlan]
    device: Device
    lengths: Mapping[str, list[float]]
    """Column -> mean length of its texts in tokens, for each prompt."""
    rows: int
    """Number of rows of a batch, on all devices together."""
    loss: LossSize
    compares_tokens: bool

    @property
    def trained(self) -> tuple[str, ...]:
        """Names of the encoders that the stage trains."""
        return self.recipe.trained(self.stage)

    @property
    def trained_shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the trained parameters of loss and encoders, by name."""
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
                for length in self.lengths[column]:
                    padded = math.ceil(PADDING * length)
                    batches.append((rows, min(padded, longest)))
        return batches

    def operations_and_activations(self) -> tuple[float, int]:
        """Return the operations of a step on one device, and the most bytes that its passes take at a time."""
        device_rows = math.ceil(self.rows / self.device.count)
        chunk = min(self.stage.micro_batch or self.rows, device_rows)
        chunks = device_rows / chunk
        operations = self.loss.operations
        activations = 0
        # Momentum copies and frozen encoders encode without gradient.
        others = []
        for name in self.trained:
            batches = self.batches(name, chunk)
            cost = _cost(self.encoders[name], batches, self.device, trained=True)
            operations += chunks * cost.operations
            activations += cost.peak_bytes
            if chunks > 1:
                # With gradient caching, each text passes forward twice.
                cost = _cost(self.encoders[name], batches, self.device, trained=False)
                operations += chunks * cost.operations
            others.append((name, self.batches(name, chunk, keys=True)))
        for name in self.stage.freeze:
            batches = self.batches(name, chunk) + self.batches(name, chunk, keys=True)
            others.append((name, batches))

        for name, batches in others:
            if batches:
                cost = _cost(self.encoders[name], batches, self.device, trained=False)
                operations += chunks * cost.operations
                activations = max(activations, cost.peak_bytes)
        return operations, activations

    def held_memory(self, optimizer_bytes: int) -> dict[str, int]:
        """Return the memory in bytes of what is held through a step, by part."""
        shards = 1
        if self.device.parallel == "fsdp":
            shards = self.device.count
        weights = 4 * _count(self.loss.shapes)
        averages = 0
        for name, encoder in self.encoders.items():
            if name not in self.trained:
                weights += encoder.weight_bytes
                continue
            weights += encoder.weight_bytes // shards
            average_bytes = 4 * _count(encoder.trained) // shards
            if self.batches(name, 1, keys=True):
                averages += average_bytes
            if self.stage.ema is not None:
                averages += average_bytes

        for name in self.stage.freeze:
            # A frozen encoder computes with a copy of its weights.
            weights += self.encoders[name].backbone.copy_bytes(self.device.precision)
        return {
            "weights": weights,
            "gradients": 4 * _count(self.trained_shapes) // shards,
            "optimizer": optimizer_bytes // shards,
            "averages": averages,
            "loss": self.loss.peak_bytes,
            "queue": self.loss.state_bytes,
            "libraries": self.device.libraries,
        }


def _encoding_memory(
    encoders: Mapping[str, EncoderPlan],
    device: Device,
) -> dict[str, int]:
    """Return the memory in bytes of one device while these encoders encode, by part."""
    weights = activations = 0
    for encoder in encoders.values():
        length = min(encoder.recipe.max_length, encoder.backbone.built.max_length)
        batch = (max(1, device.token_budget // length), length)
        cost = _cost(encoder, [batch], device, trained=False)
        activations = max(activations, cost.peak_bytes)
        weights += encoder.weight_bytes
        weights += encoder.backbone.copy_bytes(device.precision)
    return _without_zeros(
        {
            "weights": weights,
            "activations": activations,
            "libraries": device.libraries,
        }
    )


def _cost(
    encoder: EncoderPlan,
    batches: list[tuple[int, int]],
    device: Device,
    trained: bool,
) -> PassCost:
    """Return the cost of a forward pass of an encoder over batches and, if `trained`, of a backward pass."""
    from sentbed_workbench._torch.fake_modules import backbone_cost

    with _counted(encoder.recipe.backbone.name):
        return backbone_cost(
            encoder.backbone, batches, device.precision, device.kind, trained
        )


def _counted(name: str) -> AbstractContextManager[None]:
    """Return a context in which errors say which component cannot be counted."""
    what = f"`{name}` cannot be counted without weights"
    return foreign(ModelError, what, "a run may use it all the same")


def _count(shapes: Shapes) -> int:
    """Return the total number of elements of tensors of these shapes."""
    return sum(map(math.prod, shapes.values()))


def _without_zeros(parts: Mapping[str, int]) -> dict[str, int]:
    return {name: size for name, size in parts.items() if size}
