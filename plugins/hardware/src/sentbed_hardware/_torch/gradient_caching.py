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
        rank, world = processes.rank, processes.world
        self.passes: list[Chunk] = []
        """The texts of each pass of this process."""
        self.used: list[bool] = []
        """Whether the vectors of a pass are used."""
        for rows in chunks:
            has_text = rank < len(rows)
            self.used.append(has_text)
            self.passes.append(rows[rank::world] if has_text else rows[:1])
        by_process = [[rows[rank::world] for rows in chunks] for rank in range(world)]
        self.counts = [sum(map(len, passes)) for passes in by_process]
        self.places = np.argsort(
            np.concatenate([rows for passes in by_process for rows in passes])
        )

    def gather(self, parts: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return the vectors of all texts, in order, given those of this process's passes."""
        used_parts = [part for part, used in zip(parts, self.used, strict=True) if used]
        rows = parts[0][:0]
        if used_parts:
            rows = torch.cat(used_parts)
        vectors = self.processes.gather(rows, self.counts)
        return vectors[torch.from_numpy(self.places).to(vectors.device)]


class BatchVectors:
    """The vectors of a batch, `vectors` `(texts, width)`, on which a loss leaves its gradient.

    `backward` hands each pass of this process its rows of that gradient. With `recompute` no activations
    are kept until then: the pass is repeated, with the same dropout (Gao et al., 2021, section 3.2).
    """

    def __init__(
        self,
        tower: Tower,
        tokens: TokenIds,
        chunks: Sequence[Chunk],
        recompute: bool = True,
    ) -> None:
        self.tower = tower
        self.tokens = tokens
        self.recompute = recompute
        self.shares = Shares(chunks, tower.processes)
        self.generator_states: list[list[torch.Tensor]] = []
        """Those before each pass, if it is repeated."""
        self.with_activations: list[torch.Tensor] = []
        """The vectors of each pass with its activations, if it is not."""
        parts = (
            self._parts_to_recompute() if recompute else self._parts_with_activations()
        )
        self.vectors = self.gather(parts).requires_grad_()

    def _parts_to_recompute(self) -> list[torch.Tensor]:
        """Return the vectors of each pass of this process, whose activations are dropped."""
        parts = []
        for rows in self.shares.passes:
            self.generator_states.append(draws())
            # Without gradient, a compiler makes another graph, whose dropout may differ.
            with torch.set_grad_enabled(self.tower.compiles):
                parts.append(self.forward(rows).detach())
        return parts

    def _parts_with_activations(self) -> list[torch.Tensor]:
        """Return the vectors of each pass of this process, detached from the activations, which stay."""
        with self.tower.shared_casts():
            self.with_activations = [self.forward(rows) for rows in self.shares.passes]
        return [vectors.detach() for vectors in self.with_activations]

    def forward(self, rows: Chunk) -> torch.Tensor:
        """Return the vectors of these texts from one pass."""
        vectors: torch.Tensor = self.tower.forward(self.tokens, rows)
        return vectors

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
        states_after = draws() if self.recompute else []
        for number, rows in enumerate(self.shares.passes):
            if self.recompute:
                rewind(self.generator_states[number])
                vectors = self.forward(rows)
            else:
                # This frees its activations.
                vectors = self.with_activations.pop(0)
            part = gradient[self.tower.put(self.positions(rows))]
            if not self.shares.used[number]:
                part = torch.zeros_like(part)
            torch.autograd.backward(vectors, part)
            del vectors
        if self.recompute:
            rewind(states_after)


def encode(tower: Tower, tokens: TokenIds, chunks: Sequence[Chunk]) -> torch.Tensor:
    """Return the vectors of all texts, fp32 `(texts, width)`, without gradient."""
    shares = Shares(chunks, tower.processes)
    with torch.no_grad():
        return shares.gather([tower.forward(tokens, rows) for rows in shares.passes])
