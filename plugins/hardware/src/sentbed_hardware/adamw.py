"""The optimiser `adamw`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import attrs
from attrs.validators import and_, ge, gt, lt
from sentbed.protocols import Optimizer, Tensor

USUAL_RATES = (1e-7, 2e-2)
"""Smallest and largest usual learning rate; `sentbed check` remarks on a rate outside them."""


@attrs.frozen
class AdamW(Optimizer):
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019), as SimCSE trains."""

    name: ClassVar[str] = "adamw"
    cites = ("loshchilov2019adamw",)

    lr: float = attrs.field(validator=gt(0))
    """Peak learning rate, > 0: 3e-5 to 5e-5 for BERT-base."""
    beta1: float = attrs.field(default=0.9, validator=and_(ge(0), lt(1)))
    """Decay of the mean of gradients, in [0, 1)."""
    beta2: float = attrs.field(default=0.999, validator=and_(ge(0), lt(1)))
    """Decay of the mean of squared gradients, in [0, 1)."""
    eps: float = attrs.field(default=1e-8, validator=gt(0))
    """Added to the root of the second moment."""
    weight_decay: float = attrs.field(default=0.0, validator=ge(0))
    """Decoupled weight decay of matrices; biases and normalisation weights are never decayed."""

    def remarks(self) -> Iterator[str]:
        """Yield a remark if the learning rate is far from the usual ones."""
        low, high = USUAL_RATES
        if not low <= self.lr <= high:
            yield (
                f"`lr = {self.lr:g}` of the optimiser `{self.name}` is outside {low:g} to {high:g}: "
                "pretrained encoders are trained with 1e-6 to 1e-4, new layers with up to 1e-2; look whether "
                "it is meant so"
            )

    def build(self, parameters: Sequence[tuple[str, Tensor]]) -> Any:
        """Return a `torch.optim.AdamW`."""
        import torch

        matrices = [parameter for _, parameter in parameters if parameter.ndim >= 2]
        others = [parameter for _, parameter in parameters if parameter.ndim < 2]
        groups = [
            {"params": matrices, "weight_decay": self.weight_decay},
            {"params": others, "weight_decay": 0.0},
        ]
        used = [group for group in groups if group["params"]]
        betas = self.beta1, self.beta2
        return torch.optim.AdamW(used, self.lr, betas, self.eps, fused=True)

    def state_bytes(self, shapes: Mapping[str, tuple[int, ...]]) -> int:
        """Return the bytes of the optimiser's state: two numbers per weight, and a counter per parameter."""
        return sum(8 * math.prod(shape) + 4 for shape in shapes.values())
