"""The optimiser `adafactor`."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, ClassVar

import attrs
from attrs.validators import ge, gt, lt
from sentbed.protocols import Tensor


@attrs.frozen
class Adafactor:
    """Adafactor with factored second moments (Shazeer and Stern, 2018), as Sentence-T5 trains."""

    name: ClassVar[str] = "adafactor"

    lr: float = attrs.field(default=1e-3, validator=gt(0))
    """Peak learning rate, > 0; Sentence-T5 uses 1e-3."""
    decay_rate: float = attrs.field(default=-0.8, validator=lt(0))
    """The second moment decays with 1 - step ** decay_rate, < 0."""
    clip_threshold: float = attrs.field(default=1.0, validator=gt(0))
    """Largest root mean square of an update, before the learning rate."""
    scale_parameter: bool = False
    """Multiply the learning rate by the root mean square of each weight."""
    weight_decay: float = attrs.field(default=0.0, validator=ge(0))
    """Decoupled decay of all weights."""

    def build(self, parameters: Sequence[tuple[str, Tensor]]) -> Any:
        """Return `transformers.optimization.Adafactor` with the given learning rate, no relative step."""
        # transformers imports bitsandbytes here where it is installed, which advertises a package of kernels.
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
