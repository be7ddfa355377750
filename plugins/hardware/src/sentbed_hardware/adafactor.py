"""The optimiser `adafactor`."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import attrs
from attrs.validators import ge, gt, lt
from sentbed.protocols import Optimizer, Tensor


@attrs.frozen
class Adafactor(Optimizer):
    """Adafactor with factored second moments (Shazeer and Stern, 2018), as Sentence-T5 trains.

    By default, the step of each parameter is multiplied by the parameter's root mean square, as in T5's
    frameworks (mesh-tensorflow and T5X). The learning rate is then relative: at 1e-3, the step of a matrix with
    the root mean square 0.05 has a root mean square of at most 5e-5. With `scale_parameter = false` it would be
    1e-3.

    This optimiser has no fields `relative_step` and `warmup_init`, because a learning rate that depends on
    the step is a schedule in sentbed. `lr = 1.0` with the schedule `relative-step` takes the same steps. It
    has no first moment either, since T5 uses none.

    The implementation is `transformers.optimization.Adafactor`. T5X differs in one point: it factors only
    matrices with at least 128 rows and 128 columns. T5's relative positions are smaller: T5X does not factor
    them, transformers does.
    """

    name: ClassVar[str] = "adafactor"
    cites = ("shazeer2018adafactor",)

    lr: float = attrs.field(default=1e-3, validator=gt(0))
    """Peak learning rate, > 0; Sentence-T5 uses 1e-3, T5's pretraining 1.0 with `relative-step`."""
    decay_rate: float = attrs.field(default=-0.8, validator=lt(0))
    """The exponent in `1 - step ** decay_rate`, which is the decay of the second moment; < 0."""
    clip_threshold: float = attrs.field(default=1.0, validator=gt(0))
    """Largest root mean square of an update before it is multiplied by the learning rate."""
    scale_parameter: bool = True
    """Whether each step is multiplied by the parameter's root mean square, or by 1e-3 if that is larger. T5X
    calls this option `multiply_by_parameter_scale`."""
    weight_decay: float = attrs.field(default=0.0, validator=ge(0))
    """Decoupled weight decay of all parameters, multiplied by the learning rate. With `scale_parameter`, it
    is also multiplied by the parameter's root mean square."""

    def build(self, parameters: Sequence[tuple[str, Tensor]]) -> Any:
        """Return a `transformers.optimization.Adafactor`; the schedule sets its learning rate."""
        # If bitsandbytes is installed, transformers imports it, and bitsandbytes logs an advertisement.
        logging.getLogger("bitsandbytes.backends.cpu.ops").setLevel(logging.ERROR)
        from transformers.optimization import Adafactor as TransformersAdafactor

        return TransformersAdafactor(
            [parameter for _, parameter in parameters],
            lr=self.lr,
            decay_rate=self.decay_rate,
            clip_threshold=self.clip_threshold,
            scale_parameter=self.scale_parameter,
            weight_decay=self.weight_decay,
            relative_step=False,
            warmup_init=False,
        )

    def state_bytes(self, shapes: Mapping[str, tuple[int, ...]]) -> int:
        """Return the bytes of the optimiser's state.

        The state of a matrix is one number per row and one per column. The state of a vector is one number per
        weight. Every parameter also has one number, its root mean square.
        """
        return sum(4 * (_second_moments(shape) + 1) for shape in shapes.values())


def _second_moments(shape: tuple[int, ...]) -> int:
    """Return the number of second moments of a parameter with this shape.

    A matrix has one per row and one per column, a vector has one per weight.
    """
    if len(shape) < 2:
        return math.prod(shape)

    return math.prod(shape[:-1]) + math.prod(shape[:-2]) * shape[-1]
