"""Gradient caching: the vectors of a batch, detached from the passes that computed them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from sentbed.protocols import TokenIds

from sentbed_hardware._common.random_generators import draws, rewind
from sentbed_hardware._torch.tower import Chunk, Tower
from sentbed_hardware.engine_parts.process_group import Processes


class Shares:
    """The distribution of a batch's texts over the processes: each has its part of every chunk.

    All processes have equally many passes, since weights may be sharded over them. A process without a text
    of a chunk encodes the chunk's first, and the vector is ignored.
    """

    def __init__(self, chunks: Sequence[Chunk], processes: Processes) -> None:
        self.processes = processes
        world = processes.world
        self.passes = [
            rows[processes.rank :: world] if processes.rank < len(rows) else rows[:1] for rows in chunks
        ]
        self.used = [processes.rank < len(rows) for rows in chunks]
        by_process = [[rows[rank::world] for rows in chunks] for rank in range(world)]
        self.counts = [sum(map(len, passes)) for passes in by_process]
        self.places = np.argsort(np.concatenate([rows for passes in by_process for rows in passes]))

    def gather(self, parts: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return the vectors of all texts, in order, given those of this process's passes."""
        own = [part for part, used in zip(parts, self.used, strict=True) if used]
        rows = torch.cat(own) if own else parts[0][:0]
        found = self.processes.gather(rows, self.counts)
        return found[torch.from_numpy(self.places).to(found.device)]


class BatchVectors:
    """The vectors of a batch, `vectors` `(texts, width)`, on which a loss leaves its gradient.

    `backward` hands each pass of this process its rows of that gradient. With `recompute` no activations
    are kept until then: the pass is repeated, with the same dropout (Gao et al., 2021, section 3.2).
    """

    def __init__(
        self, tower: Tower, tokens: TokenIds, chunks: Sequence[Chunk], recompute: bool = True
    ) -> None:
        self.tower = tower
        self.tokens = tokens
        self.recompute = recompute
        self.shares = Shares(chunks, tower.engine.processes)
        self.drawn: list[list[torch.Tensor]] = []
        self.kept: list[torch.Tensor] = []
        parts = []
        if recompute:
            for rows in self.shares.passes:
                self.drawn.append(draws())
                # Without gradient, a compiler makes another graph, whose dropout may differ.
                with torch.set_grad_enabled(tower.engine.compile):
                    parts.append(self.forward(rows).detach())
        else:
            with tower.shared_casts():
                self.kept = [self.forward(rows) for rows in self.shares.passes]
            parts = [kept.detach() for kept in self.kept]
        self.vectors = self.gather(parts).requires_grad_()

    def forward(self, rows: Chunk) -> torch.Tensor:
        """Return the vectors of these texts from one pass."""
        return self.tower.forward(self.tokens, rows)

    def gather(self, parts: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return the vectors of all texts, in order, given those of this process's passes."""
        return self.shares.gather(parts)

    def positions(self, rows: Chunk) -> Chunk:
        """Return which of all vectors are those of these texts, in the order of `forward`."""
        return rows

    def texts_of(self, vectors: Chunk) -> Chunk:
        """Return the texts that these vectors are of."""
        return vectors

    def backward(self) -> None:
        """Add the gradient to the tower's parameters, and restore the generators afterwards."""
        gradient = self.vectors.grad
        if gradient is None:
            return
        before = draws() if self.recompute else []
        for number, (rows, used) in enumerate(zip(self.shares.passes, self.shares.used, strict=True)):
            if self.recompute:
                rewind(self.drawn[number])
                vectors = self.forward(rows)
            else:
                # This frees its activations.
                vectors = self.kept.pop(0)
            part = gradient[self.tower.engine.put(self.positions(rows))]
            torch.autograd.backward(vectors, part if used else torch.zeros_like(part))
            del vectors
        if self.recompute:
            rewind(before)


def encode(tower: Tower, tokens: TokenIds, chunks: Sequence[Chunk]) -> torch.Tensor:
    """Return the vectors of all texts, fp32 `(texts, width)`, without gradient."""
    shares = Shares(chunks, tower.engine.processes)
    with torch.no_grad():
        return shares.gather([tower.forward(tokens, rows) for rows in shares.passes])
