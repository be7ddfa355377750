"""Estimates of the cost of one step of a stage: memory and computation."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import attrs
from sentbed.errors import PluginError, SentbedError
from sentbed.protocols import Component
from sentbed.tools import EncoderRecipe, Recipe, Stage
from sentbed_common import Device, Outline, PlannedRuntime, Sketch

from sentbed_workbench.workload_estimates import Texts, Work, draw, encode, train

T = TypeVar("T")

FILLED = 0.8
"""Share of a device's memory that a plan may fill: allocators keep more than they use, up to 28 % more in
short runs on a processor."""
TRAFFIC = 44
"""Approximate bytes that a step moves for each trained weight: its gradient is written, measured, clipped and
read, the weight and two moments are read and written."""
LAYERS_AT_WORK = 2
"""Number of layers whose gradients, and the values that these are computed from, are in memory during the
backward pass, in addition to what the forward pass has kept."""
TRAINING_ONLY = ("gradients", "activations", "temporary", "loss")
"""Parts of the memory that are released before a validation."""
NUMBERS_A_TOKEN = 6
"""Approximate number of token states that a pass without gradient holds, besides two inner ones."""


@attrs.frozen(eq=False)
class Parts:
    """Known parts of an encoder."""

    recipe: EncoderRecipe
    outline: Outline | None = None
    after: Mapping[str, tuple[int, ...]] = attrs.field(factory=dict)
    """Shapes of the parameters of pooler and head, by name."""
    width: int = 0
    """Dimension of a sentence vector."""
    problem: str = ""

    @property
    def trained(self) -> dict[str, tuple[int, ...]]:
        """Shapes of all trained parameters, by name."""
        if self.outline is None:
            return dict(self.after)
        return {**self.outline.trained, **self.after}

    @property
    def weight_bytes(self) -> int:
        """Size of the weights in bytes."""
        size = 4 * numbers(self.after)
        if self.outline is not None:
            size += self.outline.weight_bytes
        return size

    def buffers(self, tokens: int) -> int:
        """Return the memory in bytes of a pass without gradient over `tokens` tokens."""
        assert self.outline is not None
        inner = self.outline.inner or 4 * self.outline.width
        return 4 * tokens * (NUMBERS_A_TOKEN * self.outline.width + 2 * inner)


class Costs:
    """Memory and computation of one step of a stage on one device, for known encoders."""

    def __init__(
        self,
        recipe: Recipe,
        stage: Stage,
        encoders: Mapping[str, Parts],
        device: Device,
        texts: Texts,
        once: Callable[[tuple[Any, ...], Callable[[], Any]], Any] = lambda _, find: (
            find()
        ),
    ) -> None:
        """`once(key, find)` returns what `find` returned for this key before (`Planner.once`)."""
        self.once, self.texts = once, texts
        self.stage, self.encoders, self.device = stage, encoders, device
        self.towers = recipe.towers(stage)
        self.trained = recipe.trained(stage)
        self.keys: frozenset[str] = frozenset()
        if self._momentum is not None:
            self.keys = stage.loss.traits.keys
        self.rows = stage.batch_size
        self.problems: list[str] = []
        if texts.rows is not None and texts.rows < stage.batch_size:
            self.rows = texts.rows
            self.problems.append(
                f"a batch of {stage.batch_size:,} is more than the data has: {self.rows:,} rows"
            )
        self.batches = draw(texts, max(1, math.ceil(self.rows / device.count)))

        self.width = encoders[self.trained[0]].width
        self.sketch = Sketch()
        sketch = once(
            (
                "loss",
                recipe.runtime,
                _sized(stage.loss),
                self.width,
                self.rows,
                stage.columns_used,
            ),
            lambda: _sketch(recipe, stage, self.width, self.rows),
        )
        if isinstance(sketch, str):
            self.problems.append(sketch)
        else:
            self.sketch = sketch
        self.shapes: dict[str, tuple[int, ...]] = {}
        for name in self.trained:
            for key, shape in encoders[name].trained.items():
                self.shapes[f"{name}.{key}"] = shape

        for key, shape in self.sketch.trained.items():
            self.shapes[f"loss.{key}"] = shape
        # Number of devices among which FSDP splits trained weights.
        self.shard = 1
        if device.parallel == "fsdp":
            self.shard = device.count

    @property
    def _momentum(self) -> float | None:
        return self.stage.loss.traits.momentum

    def fields(self, steps: int | None) -> dict[str, Any]:
        """Return the derived fields of a `StagePlan`."""
        works = [self._train(name, self.stage.micro_batch) for name in self.trained]
        frozen_works = [self._frozen(name) for name in self.stage.freeze]
        tokens, flops = 0.0, self.sketch.flops
        for work in (*works, *frozen_works):
            tokens += work.tokens
            flops += work.forward + work.backward

        memory = self._memory(self._kept(works))
        evaluating = self._evaluating(memory)
        peak = max(sum(memory.values()), sum(evaluating.values()))
        does_fit = fits(peak, self.device)
        advice = ""
        if does_fit is False:
            advice = self._advice(memory, evaluating)
        seconds = None
        if steps is not None:
            seconds = self._seconds(steps, flops)
        return {
            "tokens_a_step": self.device.count * tokens,
            "trained_parameters": numbers(self.shapes),
            "flops_a_step": self.device.count * flops,
            "memory": memory,
            "evaluating": evaluating,
            "peak": peak,
            "fits": does_fit,
            "advice": advice,
            "seconds": seconds,
        }

    def _columns(self, tower: str, keys: bool) -> list[str]:
        """Return the columns that a tower encodes, either those that are keys or the others."""
        columns = []
        for column, name in self.towers.items():
            if name == tower and (column in self.keys) == keys:
                columns.append(column)
        return columns

    def _outline(self, tower: str) -> Outline:
        outline = self.encoders[tower].outline
        assert outline is not None
        return outline

    def _train(self, tower: str, micro_batch: int | None) -> Work:
        columns = self._columns(tower, False), self._columns(tower, True)
        outline = self._outline(tower)
        work: Work = self.once(
            ("trained", id(outline), id(self.texts), self.rows, columns, micro_batch),
            lambda: train(outline, self.batches, *columns, micro_batch),
        )
        return work

    def _frozen(self, tower: str) -> Work:
        columns = [column for column, name in self.towers.items() if name == tower]
        outline, budget = self._outline(tower), self.device.token_budget
        work: Work = self.once(
            ("frozen", id(outline), id(self.texts), self.rows, columns, budget),
            lambda: encode(outline, self.batches, columns, budget),
        )
        if self.stage.cache_frozen and self.stage.epochs:
            # With vectors cached on disk, texts are encoded in the first epoch only.
            return Work(
                work.tokens / self.stage.epochs, work.forward / self.stage.epochs
            )
        return Work(work.tokens, work.forward)

    def _kept(self, works: Iterable[Work]) -> int:
        """Return the memory in bytes of what is kept for the backward pass."""
        kept = [work.kept for work in works]
        if self.stage.micro_batch is None:
            return round(sum(kept))
        return round(max(kept))

    def _memory(self, activations: int) -> dict[str, int]:
        """Return the memory in bytes of one device during training, by part."""
        trained, sketch = numbers(self.shapes), self.sketch
        vectors = 2 * 4 * self.rows * self.width * len(self.towers)
        weights = 4 * numbers(sketch.trained)
        for name, encoder in self.encoders.items():
            if name in self.trained:
                weights += encoder.weight_bytes // self.shard
            else:
                weights += encoder.weight_bytes

        frozen_copies = 0
        for name in self.stage.freeze:
            frozen_copies += self._outline(name).copy_bytes
        layers = max(self._outline(name).layers for name in self.trained)
        parts = {
            "weights": weights,
            "gradients": 4 * trained // self.shard,
            "optimizer": self._optimizer() // self.shard,
            "averages": self._averages() // self.shard,
            "activations": activations,
            "temporary": activations * LAYERS_AT_WORK // layers,
            "loss": sketch.activation_bytes + vectors,
            "queue": sketch.state_bytes,
            "frozen copies": frozen_copies,
            "libraries": self.device.libraries,
        }
        return _without_zeros(parts)

    def _optimizer(self) -> int:
        try:
            return required_result(
                self.stage.optimizer.state_bytes(self.shapes),
                self.stage.optimizer,
                "state_bytes",
            )
        except SentbedError as error:
            if (message := f"the optimiser's state: {error}") not in self.problems:
                self.problems.append(message)
            return 0

    def _averages(self) -> int:
        size = 0
        for name in self.trained:
            weights = 4 * numbers(self.encoders[name].trained)
            if self._columns(name, keys=True):
                # The momentum encoder.
                size += weights
            if self.stage.ema is not None:
                size += weights
        return size

    def _evaluating(self, memory: Mapping[str, int]) -> dict[str, int]:
        """Return the memory in bytes of one device during validation, by part; empty without validation."""
        names: set[str] = set()
        for validation in (self.stage.validate, *self.stage.watch):
            if validation is None:
                continue
            names.add(validation.encoder or self.trained[0])
            if validation.second:
                names.add(validation.second)

        if not names or any(self.encoders[name].outline is None for name in names):
            return {}
        parts = {
            name: size for name, size in memory.items() if name not in TRAINING_ONLY
        }
        added = encoding(
            self.encoders, sorted(names - set(self.stage.freeze)), self.device
        )
        for name in ("encoding copies", "encoding buffers"):
            if name in added:
                parts[name] = added[name]

        return parts

    def _advice(self, memory: Mapping[str, int], evaluating: Mapping[str, int]) -> str:
        """Return advice for a step or a validation that does not fit."""
        assert self.device.memory is not None
        room = FILLED * self.device.memory
        if sum(evaluating.values()) > room >= sum(memory.values()):
            return "training fits, a validation beside it does not; hold the weights in a smaller `dtype`"
        working = memory.get("activations", 0) + memory.get("temporary", 0)
        others = sum(memory.values()) - working
        layers = min(self._outline(name).layers for name in self.trained)
        micro_batch = 2 ** math.floor(
            math.log2(self.stage.micro_batch or self.stage.batch_size)
        )
        smallest = 0.0
        while micro_batch >= 1:
            kept = max(self._train(name, micro_batch).kept for name in self.trained)
            smallest = kept * (1 + LAYERS_AT_WORK / layers)
            if others + smallest <= room:
                return f"set `micro_batch = {micro_batch}` in the stage"
            micro_batch //= 2

        split = ("weights", "gradients", "optimizer", "averages")
        static = self.shard * sum(memory.get(name, 0) for name in split)
        free = room - smallest - (others - static / self.shard)
        advice = "train less of the model (`lora` or `freeze` of the backbone)"
        if self.device.kind != "cpu" and free > 0:
            devices = math.ceil(static / free)
            advice = f'set `parallel = "fsdp"` and `devices = {devices}` or more in the runtime, or {advice}'
        return f"{advice}, with `micro_batch = 1`"

    def _seconds(self, steps: int, flops: float) -> tuple[float, float] | None:
        """Return the shortest and the longest time of a stage."""
        device = self.device
        if device.flops is None:
            return None
        waiting = device.step_seconds
        if device.bandwidth is not None:
            waiting += TRAFFIC * numbers(self.shapes) / self.shard / device.bandwidth
        slow_share, fast_share = device.share
        fast = steps * (flops / (device.flops * fast_share) + waiting)
        slow = steps * (flops / (device.flops * slow_share) + waiting)
        return fast, slow


def _sized(component: Any) -> tuple[type, Any]:
    """Return the fields that may decide shapes and operations: of a float only whether it is 0."""

    def serialise(_: type, __: attrs.Attribute[Any] | None, value: Any) -> Any:
        if isinstance(value, float):
            return value != 0
        return value

    return type(component), attrs.asdict(component, value_serializer=serialise)


def _sketch(recipe: Recipe, stage: Stage, width: int, rows: int) -> Sketch | str:
    """Return the sketch of a stage's loss, or why there is none."""
    columns = frozenset(stage.columns_used)
    if stage.loss.traits.predicts:
        return (
            f"the loss `{stage.loss.name}`: how many tokens it predicts is known only in training; memory "
            "and time of their logits are left out"
        )
    try:
        if not isinstance(recipe.runtime, PlannedRuntime):
            raise unsaid(recipe.runtime, "sketch_loss")
        return recipe.runtime.sketch_loss(stage.loss, width, rows, columns)
    except SentbedError as error:
        return f"the loss `{stage.loss.name}`: {error}"


def encoding(
    encoders: Mapping[str, Parts], names: Sequence[str], device: Device
) -> dict[str, int]:
    """Return the memory in bytes of one device for encoding, by part; empty if an encoder is unknown."""
    copies = buffers = 0
    for name in names:
        outline = encoders[name].outline
        if outline is None:
            return {}
        copies += outline.copy_bytes
        buffers = max(buffers, encoders[name].buffers(device.token_budget))

    parts = {
        "weights": sum(encoder.weight_bytes for encoder in encoders.values()),
        "encoding copies": copies,
        "encoding buffers": buffers,
        "libraries": device.libraries,
    }
    return _without_zeros(parts)


def _without_zeros(parts: Mapping[str, int]) -> dict[str, int]:
    return {name: size for name, size in parts.items() if size}


def fits(size: int, device: Device) -> bool | None:
    """Return whether `size` bytes fit on a device, or None if its memory is unknown."""
    if device.memory is None:
        return None
    return size <= FILLED * device.memory


def numbers(shapes: Mapping[str, tuple[int, ...]]) -> int:
    """Return the total number of elements of tensors of these shapes."""
    return sum(map(math.prod, shapes.values()))


def required_result(result: T | None, component: Component, name: str) -> T:
    """Return the result of a component's method. Raises `PluginError` if it is None."""
    if result is None:
        raise unsaid(component, name)
    return result


def unsaid(component: Component, name: str) -> PluginError:
    """Return the error for a component without a method that a plan needs."""
    return PluginError(f"`{component.name}` does not say: it has no `{name}`")
