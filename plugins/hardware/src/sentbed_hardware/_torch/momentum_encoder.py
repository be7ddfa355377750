"""The momentum encoder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from sentbed.protocols import TokenIds
from torch.distributed.tensor import DTensor

from sentbed_hardware._torch.gradient_caching import encode
from sentbed_hardware._torch.tower import Chunk, Tower


class MomentumEncoder:
    """An exponential moving average of a tower's weights, which encodes keys (He et al., 2020, section 3.2).

    A second use of it is the average that a stage evaluates (`Training.ema`).

    Only the trained weights and the buffers of pooler and head are held twice; the backbone's buffers are
    the tower's.
    """

    def __init__(self, tower: Tower, momentum: float) -> None:
        self.tower = tower
        self.momentum = momentum
        of_backbone = f"{tower.name}.backbone."
        buffers = {
            name: value
            for name, value in tower.buffers.items()
            if not name.startswith(of_backbone)
        }
        self.followed = tower.parameters | buffers
        self.tensors = {
            name: value.detach().clone() for name, value in self.followed.items()
        }

    def encode(self, tokens: TokenIds, chunks: Sequence[Chunk]) -> torch.Tensor:
        """Encode keys without gradient: the backbone in eval mode, pooler and head in training mode."""
        with self._in_place():
            return encode(self.tower, tokens, chunks)

    def update(self) -> None:
        """Update the average after a step: `momentum * average + (1 - momentum) * weights`."""
        with torch.no_grad():
            for name, value in self.followed.items():
                if value.is_floating_point():
                    self.tensors[name].mul_(self.momentum).add_(
                        value, alpha=1 - self.momentum
                    )

    @contextmanager
    def _in_place(self) -> Iterator[None]:
        """Put the average into the tower's module; a second module would hold frozen weights twice."""
        self.swap()
        self.tower.module.backbone.eval()
        try:
            yield
        finally:
            self.tower.module.backbone.train()
            self.swap()

    def swap(self) -> None:
        """Exchange the tower's weights with the average."""
        for name, value in self.followed.items():
            if isinstance(value, DTensor):
                # FSDP gathers the shards from their addresses in memory, so they are changed in place.
                weight = value.detach().to_local()  # type: ignore[attr-defined]
                average = self.tensors[name].to_local()  # type: ignore[attr-defined]
                weight_before = weight.clone()
                weight.copy_(average)
                average.copy_(weight_before)
            else:
                value.data, self.tensors[name].data = (
                    self.tensors[name].data,
                    value.data,
                )
