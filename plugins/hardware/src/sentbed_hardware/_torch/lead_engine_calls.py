"""Calls of the lead engine: what every process does when the first one is called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import torch
from numpy.typing import NDArray
from sentbed import RunError
from sentbed.protocols import TokenBatch, Training

from sentbed_hardware._torch.sharding import gather_weights

if TYPE_CHECKING:
    from sentbed_hardware._torch.engine import TorchEngine
    from sentbed_hardware._torch.placed_encoder import TorchEncoder
    from sentbed_hardware._torch.trainer import TorchTrainer


def make_trainer(
    engine: TorchEngine, encoders: Mapping[str, TorchEncoder], training: Training
) -> TorchTrainer:
    """Make a trainer."""
    return engine.trainer(encoders, training)


def adopt(trainer: TorchTrainer, training: Training) -> None:
    """Adopt the first process's settings: a restored state may have changed its micro-batch."""
    trainer.training = training


def weights(encoder: TorchEncoder) -> dict[int, torch.nn.Parameter]:
    """Return the sharded weights, in the first process; see `sharding.gather_weights`."""
    return gather_weights(encoder.module, encoder.engine.processes)


def broken_weights(encoder: TorchEncoder) -> list[str | None] | None:
    """Return for each process the name of a weight that is NaN or infinite there, in the first one."""
    return encoder.engine.processes.collect(encoder.broken_weight())


def encode(encoder: TorchEncoder, batch: TokenBatch) -> NDArray[np.float32] | None:
    """Return the vectors of a batch, in the first process; its rows are distributed over all."""
    processes = encoder.engine.processes
    rows = len(batch.input_ids)
    # Every process has a pass, even if it repeats a row: the weights may be sharded.
    rows_of_process = np.zeros(1, np.int64)
    if processes.rank < rows:
        rows_of_process = np.arange(processes.rank, rows, processes.world)
    part = batch.select(rows_of_process)
    vectors_of_process = (
        _sharded(encoder, part) if processes.sharded else encoder.encode(part)
    )
    collected = processes.collect(vectors_of_process)
    if collected is None:
        return None
    vectors = np.empty((rows, encoder.width), np.float32)
    for rank, part_of_vectors in enumerate(collected[:rows]):
        vectors[rank :: processes.world] = part_of_vectors
    return vectors


def _sharded(encoder: TorchEncoder, batch: TokenBatch) -> Any:
    """Encode with the trained weights, because there is no memory for a copy."""
    engine, module = encoder.engine, encoder.module.eval()
    low = engine.dtype != torch.float32
    # A pass over auxiliary prompts ends early, in the middle of the collective calls of a sharded module.
    tensors, keywords = engine.arguments(attrs.evolve(batch, auxiliary=None))
    try:
        # Weights gathered in inference mode could not be used in training again.
        with torch.no_grad(), torch.autocast(engine.device.type, engine.dtype, low):
            states = module.backbone(*tensors, **keywords)
        with torch.no_grad():
            return module.finish(states, cut=True).cpu().numpy()
    except torch.OutOfMemoryError as error:
        raise RunError(
            f"a batch of {batch.input_ids.size:,} tokens does not fit into {engine.memory} of a process; "
            f"set `token_budget = {max(1, engine.token_budget // 2)}` in the runtime"
        ) from error
