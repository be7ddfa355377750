"""The fingerprint of a torch module: a hash of its weights and of its structure.

Recipe, code of components, and engine are hashed besides (`sentbed_common.fingerprint_of`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from typing import Any

import torch
from torch import Tensor, nn

ORIGIN = (
    "_name_or_path",
    "transformers_version",
    "architectures",
    "dtype",
    "torch_dtype",
)
"""Settings of transformers that describe where a model comes from, and are not hashed."""


def fingerprint(module: nn.Module, how: object) -> str | None:
    """Return a hash of a module's weights and buffers, of the module as torch prints it, of its models'
    configurations, and of `how`.

    `how` is a value for JSON that holds what else the vectors depend on, such as the precision. Returns None if a
    weight is not in memory.
    """
    tensors = dict(weights_of(module))
    tensors.update(module.named_buffers())
    if any(tensor.is_meta for tensor in tensors.values()):
        return None

    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        # Hashing releases the GIL.
        digests = pool.map(_digest, tensors.values())
    weights = dict(zip(tensors, digests, strict=True))

    versions = [torch.__version__, version("transformers")]
    parts = [weights, repr(module), _configurations(module), versions, how]
    content = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(content.encode()).hexdigest()


def weights_of(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yield the names and values of a module's parameters, and of the scales of its 4-bit parameters."""
    for name, parameter in module.named_parameters():
        yield name, parameter
        state = getattr(parameter, "quant_state", None)
        if state is not None:
            for key, value in state.as_dict(packed=True).items():
                if isinstance(value, Tensor):
                    yield f"{name}.{key}", value


def _digest(tensor: Tensor) -> list[Any]:
    """Return the dtype, the shape and the SHA-256 of a tensor."""
    content = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    digest = hashlib.sha256(content.numpy().data).hexdigest()
    return [str(tensor.dtype), list(tensor.shape), digest]


def _configurations(module: nn.Module) -> dict[str, Any]:
    """Return the configurations of the models of transformers in a module, by their place in it."""
    configurations = {}
    for place, part in module.named_modules():
        to_dict = getattr(getattr(part, "config", None), "to_dict", None)
        if to_dict is not None:
            settings = to_dict()
            for name in ORIGIN:
                settings.pop(name, None)
            configurations[place] = settings

    return configurations
