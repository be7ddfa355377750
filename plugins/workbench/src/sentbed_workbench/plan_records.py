"""What a plan says: of a recipe, of its encoders and of its stages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs
from sentbed.protocols import EncoderRecipe

from sentbed_workbench.module_sizes import Shapes, count
from sentbed_workbench.planned_device import Device

if TYPE_CHECKING:
    from sentbed_workbench._torch.fake_modules import FakeBackbone


@attrs.frozen(eq=False)
class EncoderPlan:
    """Plan of an encoder."""

    recipe: EncoderRecipe
    fake: FakeBackbone | None = None
    """Its backbone without memory; None if it could not be built."""
    head: Shapes = attrs.field(factory=dict)
    """Shapes of the parameters of pooler and head, by name."""
    problem: str = ""
    """Reason why the backbone could not be built; empty if it could."""

    @property
    def backbone(self) -> FakeBackbone:
        """The backbone without memory. It must not be read if there is a problem."""
        assert self.fake is not None
        return self.fake

    @property
    def parameters(self) -> int:
        """Number of parameters of backbone, pooler and head."""
        return self.backbone.parameters + count(self.head)

    @property
    def trained(self) -> Shapes:
        """Shapes of the trained parameters, by name."""
        return {**self.backbone.shapes, **self.head}

    @property
    def weight_bytes(self) -> int:
        """Size of all weights in bytes."""
        return self.backbone.weight_bytes + 4 * count(self.head)

    def width(self, training: bool = False) -> int:
        """Return the dimension of a vector before a transform, and before it is cut to fewer dimensions.

        With `training`, it is the dimension during training, when the pooler may have another width.
        """
        width = self.backbone.built.width
        pooled = self.recipe.pooler.output_width(width)
        if training:
            pooled = self.recipe.pooler.trained_width(width)
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
