"""The vectors of a batch, apart from what led to them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from sentbed.protocols import TokenIds

from sentbed_hardware._common.processes import Processes
from sentbed_hardware._common.randomness import draws, rewind
from sentbed_hardware._torch.tower import Chunk, Tower


class Shares:
    """How the texts of a batch are dealt to the processes: of each chunk, every one has its part.

    All processes have equally many passes, since weights may be spread over them. One that has no text of a
    chunk encodes the chunk's first, and nobody looks at the vector.
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
        """Return the vectors of all texts in their order, of those of this process's passes."""
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
        for rows in self.shares.passes:
            if recompute:
                self.drawn.append(draws())
                # A compiler makes another graph without gradient, whose dropout need not be the same.
                with torch.set_grad_enabled(tower.engine.compile):
                    parts.append(tower.forward(tokens, rows).detach())
            else:
                self.kept.append(tower.forward(tokens, rows))
                parts.append(self.kept[-1].detach())
        self.vectors = self.shares.gather(parts).requires_grad_()

    def backward(self) -> None:
        """Add the gradient to the tower's parameters; the generators are left as they were found."""
        gradient = self.vectors.grad
        if gradient is None:
            return
        before = draws() if self.recompute else []
        for number, (rows, used) in enumerate(zip(self.shares.passes, self.shares.used, strict=True)):
            if self.recompute:
                rewind(self.drawn[number])
                vectors = self.tower.forward(self.tokens, rows)
            else:
                # Its activations go with it.
                vectors = self.kept.pop(0)
            part = gradient[self.tower.engine.put(rows)]
            torch.autograd.backward(vectors, part if used else torch.zeros_like(part))
            del vectors
        if self.recompute:
            rewind(before)


def encode(tower: Tower, tokens: TokenIds, chunks: Sequence[Chunk]) -> torch.Tensor:
    """Return the vectors of all texts, fp32 `(texts, width)`, without gradient."""
    shares = Shares(chunks, tower.engine.processes)
    with torch.no_grad():
        return shares.gather([tower.forward(tokens, rows) for rows in shares.passes])
