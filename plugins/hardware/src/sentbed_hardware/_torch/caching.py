"""Gradient caching: the gradient of a large batch in the memory of a small one."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from sentbed.protocols import TokenIds

from sentbed_hardware._torch.randomness import draws, rewind
from sentbed_hardware._torch.tower import Chunk, Tower


class CachedVectors:
    """The vectors of a batch without the activations that led to them.

    A loss over `vectors` leaves its gradient in them; `backward` then repeats the forward pass of one chunk
    after the other, with the same dropout, and hands each its rows of that gradient.

    Source: Gao et al., 2021, section 3.2.
    """

    def __init__(self, tower: Tower, tokens: TokenIds, chunks: Sequence[Chunk]) -> None:
        self.tower = tower
        self.tokens = tokens
        self.chunks = chunks
        self.drawn = []
        vectors = torch.empty(len(tokens), tower.module.width, device=tower.engine.device)
        for rows in chunks:
            self.drawn.append(draws())
            # A compiler makes another graph without gradient, whose dropout need not be the same.
            with torch.set_grad_enabled(tower.engine.compile):
                vectors[self._place(rows)] = tower.forward(tokens, rows).detach()
        self.vectors = vectors.requires_grad_()

    def backward(self) -> None:
        """Add the gradient to the tower's parameters; the generators are left as they were found."""
        gradient = self.vectors.grad
        if gradient is None:
            return
        before = draws()
        for rows, states in zip(self.chunks, self.drawn, strict=True):
            rewind(states)
            torch.autograd.backward(self.tower.forward(self.tokens, rows), gradient[self._place(rows)])
        rewind(before)

    def _place(self, rows: Chunk) -> torch.Tensor:
        return torch.from_numpy(rows).to(self.tower.engine.device)
