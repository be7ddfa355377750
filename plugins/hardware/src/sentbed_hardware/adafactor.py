"""The optimiser `adafactor`."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import attrs
from attrs.validators import ge, gt, lt
from sentbed.protocols import ComponentTraits, Optimizer, Tensor


@attrs.frozen
class Adafactor(Optimizer):
    """Adafactor with factored second moments (Shazeer and Stern, 2018), as Sentence-T5 trains.

    The default multiplies the step of each weight by the weight's root mean square, as T5's frameworks
    (mesh-tensorflow and T5X) do. The learning rate is then relative: at 1e-3, a matrix whose root mean square
    is 0.05 moves by at most 5e-5 per weight. With `scale_parameter = false` it would move by 1e-3.

    There are no fields `relative_step` and `warmup_init`: a learning rate that depends on the step is a
    schedule here, which the log shows. `lr = 1.0` with the schedule `relative-step` takes the same steps.
    There is no first moment either, which T5 does not use.

    Equal to `transformers.optimization.Adafactor`. T5X factors only matrices whose sides both have at least
    128 entries; of T5 that leaves out the relative positions, which transformers factors.
    """

    name: ClassVar[str] = "adafactor"
    traits = ComponentTraits(cites=("shazeer2018adafactor",))

    lr: float = attrs.field(default=1e-3, validator=gt(0))
    """Peak learning rate, > 0; Sentence-T5 uses 1e-3, T5's pretraining 1.0 with `relative-step`."""
    decay_rate: float = attrs.field(default=-0.8, validator=lt(0))
    """Exponent of the second moment's decay 1 - step ** decay_rate, < 0."""
    clip_threshold: float = attrs.field(default=1.0, validator=gt(0))
    """Largest root mean square of an update, before the learning rate."""
    scale_parameter: bool = True
    """Whether each step is multiplied by the weight's root mean square, at least 1e-3; T5X calls it
    `multiply_by_parameter_scale`."""
    weight_decay: float = attrs.field(default=0.0, validator=ge(0))
    """Decoupled decay of all weights, multiplied by the learning rate; with `scale_parameter`, by the root
    mean square as well."""

    def build(self, parameters: Sequence[tuple[str, Tensor]]) -> Any:
        """Return `transformers.optimization.Adafactor`, whose learning rate the schedule sets."""
        # transformers imports bitsandbytes here if it is installed, which advertises a package of kernels.
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
        """Return the bytes of its state.

        It has one number for each row and column of a matrix, one for each weight of other parameters, and
        the root mean square of each parameter.
        """
        return sum(4 * (_second_moments(shape) + 1) for shape in shapes.values())


def _second_moments(shape: tuple[int, ...]) -> int:
    """Return the number of second moments of a weight: a matrix has one per row and one per column."""
    if len(shape) < 2:
        return math.prod(shape)

    return math.prod(shape[:-1]) + math.prod(shape[:-2]) * shape[-1]
