"""Classes for the results of a plan: the plan of a recipe, of its encoders and of its stages."""

from __future__ import annotations

import math
from collections.abc import Mapping

import attrs
from sentbed.protocols import EncoderRecipe

from sentbed_workbench.module_sizes import BackboneSize
from sentbed_workbench.planned_device import Device

Shapes = Mapping[str, tuple[int, ...]]
"""Name of a parameter -> its shape."""


@attrs.frozen(eq=False)
class EncoderPlan:
    """Plan of an encoder."""

    recipe: EncoderRecipe
    size: BackboneSize | None = None
    """Size of the backbone; None if it is unknown."""
    head: Shapes = attrs.field(factory=dict)
    """Shapes of the parameters of pooler and head, by name."""
    problem: str = ""
    """Reason why the size is unknown; empty if it is known."""

    @property
    def known_size(self) -> BackboneSize:
        """Size of the backbone. It must not be read if the size is unknown."""
        assert self.size is not None
        return self.size

    @property
    def parameters(self) -> int:
        """Number of parameters of backbone, pooler and head."""
        return self.known_size.parameters + count(self.head)

    @property
    def trained(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the trained parameters, by name."""
        return {**self.known_size.trained, **self.head}

    @property
    def weight_bytes(self) -> int:
        """Size of all weights in bytes."""
        return self.known_size.weight_bytes + 4 * count(self.head)

    def width(self, training: bool = False) -> int:
        """Return the dimension of a vector before a transform, and before it is cut to fewer dimensions.

        With `training`, it is the dimension during training, when the pooler may have another width.
        """
        pooled = self.recipe.pooler.output_width(self.known_size.width)
        if training:
            pooled = self.recipe.pooler.trained_width(self.known_size.width)
        return self.recipe.head.projection or pooled


@attrs.frozen
class StagePlan:
    """Plan of a stage."""

    name: str
    rows: int | None = None
    """Number of rows of the stage's data; None if it is unknown."""
    steps: int | None = None
    validations: int | None = None
    """Number of validations, including those before the first and after the last step."""
    tokens_a_text: float | None = None
    """Mean number of tokens per text."""
    tokens_a_step: float | None = None
    """Mean number of tokens per step, on all devices."""
    lengths: str = ""
    """How the lengths of the texts were determined."""
    trained_parameters: int | None = None
    flops_a_step: float | None = None
    """Floating-point operations per step on all devices."""
    memory: Mapping[str, int] = attrs.field(factory=dict)
    """Memory in bytes of one device during training, by part; see docs/machine.md."""
    evaluating: Mapping[str, int] = attrs.field(factory=dict)
    """Memory in bytes of one device during validation, by part."""
    peak: int | None = None
    """Memory in bytes of one device: the larger of the memory during training and during validation."""
    fits: bool | None = None
    """Whether the memory of the device suffices; None if it is unknown."""
    advice: str = ""
    """What to change if the memory does not suffice."""
    problems: tuple[str, ...] = ()


@attrs.frozen(eq=False)
class Plan:
    """Plan of a recipe."""

    device: Device
    encoders: Mapping[str, EncoderPlan]
    stages: tuple[StagePlan, ...]
    encoding: Mapping[str, int]
    """Memory in bytes of one device during evaluations outside of stages, by part."""


def count(shapes: Shapes) -> int:
    """Return the total number of elements of tensors of these shapes."""
    return sum(map(math.prod, shapes.values()))


def number_of_validations(every: int, steps: int) -> int:
    """Return the number of validations: before the first step, after every `every` steps, and after the last."""
    return 1 + math.ceil(steps / every)
