"""Plan of a recipe's needs without loading anything: parameters, memory, steps, time.

Components say what they know (`sentbed_common.resource_planning`); here it is put together, stage by stage.
Where a part does not say, or what it needs is not on this machine, the number is None and `problems` has the
reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, TypeVar

import attrs
from sentbed.errors import SentbedError
from sentbed.protocols import Backbone, Head, Runtime
from sentbed.tools import (
    EncoderRecipe,
    Evaluate,
    Recipe,
    Stage,
    Validate,
    Watch,
    unstructure,
)
from sentbed_common import (
    Device,
    Outline,
    OutlineContext,
    PlannedBackbone,
    PlannedRuntime,
    Sketch,
)

from sentbed_workbench.step_cost_estimates import (
    Costs,
    Parts,
    encoding,
    fits,
    numbers,
    unsaid,
)
from sentbed_workbench.workload_estimates import (
    Listed,
    Texts,
    encoded,
    listed,
    sample_text_lengths,
)

T = TypeVar("T")

LENGTH = 32
"""Length in tokens of the texts for which the speed of encoding is given."""

PRECISIONS = ("fp32", "bf16", "fp16")
"""Precisions whose cost backbones know; that of another one, such as an engine's own int8, is taken for the
highest of them, fp32's."""


@attrs.frozen
class EncoderPlan:
    """Plan of an encoder."""

    name: str
    backbone: str
    source: str = ""
    parameters: int | None = None
    """Number of parameters of backbone, pooler and head."""
    trainable: int | None = None
    at_most: str = ""
    """Clause on why the real numbers may be lower."""
    width: int | None = None
    """Dimension of its vectors."""
    layers: int | None = None
    hidden: int | None = None
    """Dimension of a token state."""
    inner: int | None = None
    heads: int | None = None
    vocabulary: int | None = None
    positions: int | None = None
    weight_bytes: int | None = None
    copy_bytes: int | None = None
    """Size in bytes of the copy of the weights for encoding."""
    tokens_a_second: tuple[float, float] | None = None
    """Range of tokens per second for encoding texts of 32 tokens on one device."""
    problem: str = ""
    """Why the numbers are unknown."""


@attrs.frozen
class StagePlan:
    """Plan of a stage."""

    name: str
    trained: tuple[str, ...]
    frozen: tuple[str, ...]
    batch_size: int
    micro_batch: int | None
    epochs: int | None
    rows: int | None = None
    steps: int | None = None
    validations: int | None = None
    """Number of validations, with those before the first and after the last step."""
    negatives: int | None = None
    """Maximum number of negatives per anchor in a full batch."""
    tokens_a_text: float | None = None
    tokens_a_step: float | None = None
    lengths: str = ""
    """Source of the lengths of the texts."""
    trained_parameters: int | None = None
    flops_a_step: float | None = None
    """Floating-point operations per step on all devices."""
    memory: Mapping[str, int] = attrs.field(factory=dict)
    """Memory in bytes of one device during training, by part; see docs/machine.md."""
    evaluating: Mapping[str, int] = attrs.field(factory=dict)
    """Memory in bytes of one device during validation, by part."""
    peak: int | None = None
    fits: bool | None = None
    advice: str = ""
    seconds: tuple[float, float] | None = None
    """Range of the duration in seconds, without validations."""
    remarks: tuple[str, ...] = ()
    """The loss's remarks on fields that have no effect on this number of rows."""
    problems: tuple[str, ...] = ()


@attrs.frozen
class Plan:
    """Plan of a recipe."""

    name: str
    device: Device
    device_problem: str
    encoders: tuple[EncoderPlan, ...]
    stages: tuple[StagePlan, ...]
    encoding: Mapping[str, int]
    """Memory in bytes of one device for evaluations outside of stages, by part."""
    encoding_fits: bool | None


def plan(recipe: Recipe, on: str | None = None) -> Plan:
    """Return the plan of a recipe on its runtime; `on` names another device."""
    return Planner(on).plan(recipe)


@attrs.define(eq=False)
class Planner:
    """Plans recipes, such as the cells of a study; what several have in common is computed once.

    A device is timed, a backbone outlined, texts counted and a loss sketched once for all recipes that agree
    in what decides the answer.
    """

    on: str | None = None
    """Name of another device than this machine's."""
    unusable: list[str] = attrs.field(factory=list, init=False)
    """What is wrong with the data of the recipes that were planned, so that they cannot be run."""
    _results: dict[str, Any] = attrs.field(factory=dict, init=False)

    def plan(self, recipe: Recipe) -> Plan:
        """Return the plan of a recipe."""
        device, problem = self.device(recipe.runtime)
        encoders = self.encoders(recipe, device)
        encoder_plans = [
            _encoder_plan(name, encoder, device) for name, encoder in encoders.items()
        ]
        stage_plans = [
            self._stage_plan(recipe, index, encoders, device)
            for index in range(len(recipe.stage))
        ]
        encoding_memory = encoding(encoders, list(encoders), device)
        encoding_fits = None
        if encoding_memory:
            encoding_fits = fits(sum(encoding_memory.values()), device)
        return Plan(
            name=recipe.run.name,
            device=device,
            device_problem=problem,
            encoders=tuple(encoder_plans),
            stages=tuple(stage_plans),
            encoding=encoding_memory,
            encoding_fits=encoding_fits,
        )

    def device(self, runtime: Runtime) -> tuple[Device, str]:
        """Return the runtime's device, and why its speed is unknown, or an empty string."""
        return self.once(("device", runtime), lambda: _device(runtime, self.on))

    def encoders(self, recipe: Recipe, device: Device) -> dict[str, Parts]:
        """Return what is known of each encoder of a recipe."""
        trained: set[str] = set()
        for stage in recipe.stage:
            trained.update(recipe.trained(stage))
        encoders = {}
        for name, encoder in recipe.encoders.items():
            encoders[name] = self._encoder(
                encoder, recipe.runtime, device, name in trained
            )
        return encoders

    def evaluation(
        self, recipe: Recipe, entry: Evaluate | Validate | Watch, name: str
    ) -> tuple[float, float] | str:
        """Return the minimum and maximum seconds of encoding for an evaluation, or why they are unknown.

        `name` is the encoder's. Reading of data and training of classifiers on the vectors come on top.
        """
        device, problem = self.device(recipe.runtime)
        # In evaluations an encoder is as it is for training, but for the backward pass.
        parts = self.encoders(recipe, device)[name]
        texts = self.once(("listed", entry.with_), lambda: listed(entry.with_))
        self._note(texts)
        if parts.outline is None or device.flops is None or texts.problem:
            return (
                texts.problem
                or parts.problem
                or problem
                or "the speed of the device is unknown"
            )
        outline, encoder = parts.outline, recipe.encoders[name]
        flops = self.once(
            (
                "encoded",
                id(texts),
                id(outline),
                encoder.max_length,
                encoder.resolved_prompts,
            ),
            lambda: encoded(texts, encoder, outline, device.token_budget),
        )
        slow_share, fast_share = device.share
        return flops / (device.flops * fast_share), flops / (device.flops * slow_share)

    def once(self, key: tuple[Any, ...], find: Callable[[], T]) -> T:
        """Return what `find` returned for a key of the same `repr` before, or call it."""
        # Components hold mappings and cannot be hashed.
        typed_key = repr([(type(part), part) for part in key])
        if typed_key not in self._results:
            self._results[typed_key] = find()
        result: T = self._results[typed_key]
        return result

    def _note(self, data: Texts | Listed) -> None:
        """Note the problem of data that cannot be used, once."""
        if data.unusable and data.problem not in self.unusable:
            self.unusable.append(data.problem)

    def _encoder(
        self, recipe: EncoderRecipe, runtime: Runtime, device: Device, training: bool
    ) -> Parts:
        context = OutlineContext(
            recipe.needs, device.precision, device.kind, training, recipe.readings
        )
        needs = sorted(context.needs)
        backbone = self.once(
            (
                "outline",
                recipe.backbone,
                needs,
                context.readings,
                device.precision,
                device.kind,
                training,
            ),
            lambda: _outline(recipe.backbone, context),
        )
        if isinstance(backbone, str):
            return Parts(recipe, problem=backbone)
        width = backbone.width
        sketch = self.once(
            ("pooler", runtime, recipe.pooler, width),
            lambda: _sketch(runtime, recipe, width),
        )
        if isinstance(sketch, str):
            return Parts(recipe, problem=sketch)

        shapes = {f"pooler.{name}": shape for name, shape in sketch.trained.items()}
        pooled_width = recipe.pooler.trained_width(width)
        shapes |= _head_shapes(recipe.head, pooled_width)
        encoded_width = recipe.head.projection or pooled_width
        return Parts(recipe, backbone, shapes, encoded_width * recipe.joined)

    def _stage_plan(
        self, recipe: Recipe, index: int, encoders: Mapping[str, Parts], device: Device
    ) -> StagePlan:
        stage = recipe.stage[index]
        towers = recipe.towers(stage)
        texts = self._texts(recipe, index, encoders)
        self._note(texts)
        steps = stage.steps
        if steps is None and texts.batches_an_epoch is not None:
            steps = texts.batches_an_epoch * (stage.epochs or 1)

        problems = []
        if texts.problem:
            problems.append(texts.problem)
        unknown = [
            name
            for name in dict.fromkeys(towers.values())
            if encoders[name].outline is None
        ]
        for name in unknown:
            problems.append(f"the encoder `{name}` is not known")
        fields: dict[str, Any] = {}
        if not unknown:
            costs = Costs(recipe, stage, encoders, device, texts, self.once)
            problems += costs.problems
            fields = costs.fields(steps)

        remarks: tuple[str, ...] = ()
        if steps is not None and texts.rows is not None:
            remarks = tuple(stage.loss.without_effect(stage.rows_taken(texts.rows)))
        rows_in_batch = min(stage.batch_size, texts.rows or stage.batch_size)
        return StagePlan(
            name=stage.name,
            trained=recipe.trained(stage),
            frozen=tuple(stage.freeze),
            batch_size=stage.batch_size,
            micro_batch=stage.micro_batch,
            epochs=stage.epochs,
            rows=texts.rows,
            steps=steps,
            validations=_validations(stage, steps),
            negatives=stage.loss.negatives(
                rows_in_batch, frozenset(stage.columns_used)
            ),
            remarks=remarks,
            tokens_a_text=float(
                sum(values.mean() for values in texts.lengths.values()) / len(towers)
            ),
            lengths=texts.source,
            problems=tuple(problems),
            **fields,
        )

    def _texts(
        self, recipe: Recipe, index: int, encoders: Mapping[str, Parts]
    ) -> Texts:
        """Return the lengths of a stage's texts, sampled once for stages that read and tokenise alike."""
        stage = recipe.stage[index]
        # Learning rate, schedule, validation and what the loss computes change neither texts nor batches.
        read = (
            stage.data,
            stage.columns_used,
            stage.batch_size,
            stage.distinct,
            stage.shuffle_buffer,
        )
        tokenised = []
        for column, name in recipe.towers(stage).items():
            encoder = recipe.encoders[name]
            tokenised.append(
                (column, encoder.backbone, encoder.max_length, encoder.resolved_prompts)
            )

        outlines = {name: encoder.outline for name, encoder in encoders.items()}
        return self.once(
            ("texts", *read, stage.max_length, stage.normalize_text, tokenised),
            lambda: sample_text_lengths(recipe, index, outlines),
        )


def number_of_looks(every: int, steps: int) -> int:
    """Return how often a stage is looked at: before its first step, every few steps, after its last one."""
    return 1 + math.ceil(steps / every)


def _validations(stage: Stage, steps: int | None) -> int | None:
    """Return how often a stage is validated; None if never, or if its steps are unknown."""
    if stage.validate is None or steps is None:
        return None
    return number_of_looks(stage.validate.every, steps)


def _device(runtime: Runtime, on: str | None) -> tuple[Device, str]:
    try:
        if not isinstance(runtime, PlannedRuntime):
            raise unsaid(runtime, "outline")
        return runtime.outline(on), ""
    except SentbedError as error:
        problem = str(error)

    table = unstructure(runtime)
    precision = table.get("precision", "fp32")
    if precision == "auto":
        precision = "bf16"
    elif precision not in PRECISIONS:
        precision = "fp32"
    count = (table.get("devices") or 1) * table.get("nodes", 1)
    parallel = table.get("parallel", "ddp")
    return Device(
        runtime.name, "unknown", precision, count=count, parallel=parallel
    ), problem


def _outline(backbone: Backbone, context: OutlineContext) -> Outline | str:
    """Return the outline of a backbone, or why there is none."""
    try:
        if not isinstance(backbone, PlannedBackbone):
            raise unsaid(backbone, "outline")
        return backbone.outline(context)
    except SentbedError as error:
        return str(error)


def _sketch(runtime: Runtime, recipe: EncoderRecipe, width: int) -> Sketch | str:
    """Return the sketch of an encoder's pooler, or why there is none."""
    try:
        if not isinstance(runtime, PlannedRuntime):
            raise unsaid(runtime, "sketch_pooler")
        return runtime.sketch_pooler(recipe.pooler, width)
    except SentbedError as error:
        return str(error)


def _encoded_width(recipe: EncoderRecipe, states_width: int) -> int:
    """Return the dimension of a vector when encoding, before a transform or a choice of dimensions."""
    return (
        recipe.head.projection or recipe.pooler.output_width(states_width)
    ) * recipe.joined


def _encoder_plan(name: str, encoder: Parts, device: Device) -> EncoderPlan:
    outline = encoder.outline
    if outline is None:
        return EncoderPlan(name, encoder.recipe.backbone.name, problem=encoder.problem)
    speed = None
    if device.flops is not None:
        tokens_at_peak = device.flops / outline.forward.of(1, LENGTH) * LENGTH
        low, high = device.share
        speed = low * tokens_at_peak, high * tokens_at_peak
    return EncoderPlan(
        name=name,
        backbone=encoder.recipe.backbone.name,
        source=outline.source,
        parameters=outline.parameters + numbers(encoder.after),
        trainable=numbers(encoder.trained),
        at_most=outline.at_most,
        width=_encoded_width(encoder.recipe, outline.width),
        layers=outline.layers,
        hidden=outline.width,
        inner=outline.inner,
        heads=outline.heads,
        vocabulary=outline.vocabulary,
        positions=outline.max_length,
        weight_bytes=encoder.weight_bytes,
        copy_bytes=outline.copy_bytes,
        tokens_a_second=speed,
    )


def _head_shapes(head: Head, pooled_width: int) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the projection's weights, by name."""
    if head.projection is None:
        return {}
    # Activations are numbered among the layers.
    step = 2
    if head.activation == "none":
        step = 1
    shapes: dict[str, tuple[int, ...]] = {}
    for number, (before, width) in enumerate(
        pairwise([pooled_width, *head.hidden, head.projection])
    ):
        name = "projection"
        if head.hidden:
            name = f"projection.{step * number}"
        shapes[f"{name}.weight"] = (width, before)
        if head.bias:
            shapes[f"{name}.bias"] = (width,)

    return shapes
