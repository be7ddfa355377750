"""Fingerprint of a module: a hash of all that determines its results, weights, settings and code."""

from __future__ import annotations

import functools
import hashlib
import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

import numpy as np
import torch
from sentbed_common import code_of

NOT_THE_MODEL = (
    "name_or_path",
    "_name_or_path",
    "transformers_version",
    "architectures",
    "dtype",
    "torch_dtype",
    "owners",
    "states_width",
    "pooled_width",
    "trained_pooled_width",
    "untransformed_width",
    "fitted_on",
    "fits",
)
"""Settings that only describe a model's origin, or follow from others."""


Hashed: TypeAlias = dict[int, tuple[torch.Tensor, list[Any]]]
"""`id` of a tensor -> the tensor, kept alive so that its id is not reused, and its hash."""


def fingerprint(
    module: torch.nn.Module, how: object, hashed: Hashed | None = None
) -> str | None:
    """Return the hash of a module's weights, settings and code, and of `how`.

    None if weights are not in memory, or code has changed since it was loaded. `hashed` is filled, so that
    weights shared by modules are hashed only once while they do not change.
    """
    tensors = dict(_tensors(module))
    hashed = {} if hashed is None else hashed
    if any(tensor.is_meta for tensor in tensors.values()):
        return None
    classes = {type(part) for part in module.modules()}
    versions, unversioned = {"torch": torch.__version__}, []
    for of_class in classes:
        package = of_class.__module__.partition(".")[0]
        version = getattr(sys.modules.get(package), "__version__", None)
        if version is None:
            unversioned.append(of_class)
        else:
            versions[package] = version
    code = code_of(*unversioned)
    if code is None:
        return None
    new = {
        id(tensor): tensor for tensor in tensors.values() if id(tensor) not in hashed
    }
    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        # Hashing many bytes releases the GIL.
        digests = zip(new.items(), pool.map(_digest, new.values()), strict=True)
        hashed.update({key: (tensor, digest) for (key, tensor), digest in digests})
    weights = {name: hashed[id(tensor)][1] for name, tensor in tensors.items()}
    settings = {name: _settings(part) for name, part in module.named_modules()}
    content = json.dumps([weights, settings, versions, code, how], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()


def weights_of(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield parameters, and the scales of 4-bit weights, by name."""
    for name, parameter in module.named_parameters():
        yield name, parameter
        if (state := getattr(parameter, "quant_state", None)) is not None:
            for key, value in state.as_dict(packed=True).items():
                if isinstance(value, torch.Tensor):
                    yield f"{name}.{key}", value


def _tensors(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield parameters and buffers, and the scales of 4-bit weights."""
    yield from weights_of(module)
    yield from module.named_buffers()
    for place, part in module.named_modules():
        for name, value in vars(part).items():
            if isinstance(value, torch.Tensor):
                yield f"{place}.{name}", value


def _digest(tensor: torch.Tensor) -> list[Any]:
    content = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    return [
        str(tensor.dtype),
        list(tensor.shape),
        hashlib.sha256(content.data).hexdigest(),
    ]


def _settings(module: torch.nn.Module) -> list[Any]:
    """Return the class of a module and those of its attributes that are plain values."""
    skipped = {*vars(torch.nn.Module()), *NOT_THE_MODEL}
    attributes = {
        key: _plain(value) for key, value in vars(module).items() if key not in skipped
    }
    # transformers gives loaded models some empty attributes that models with random weights lack.
    attributes = {
        k: v for k, v in attributes.items() if not (k.startswith("_") and _is_empty(v))
    }
    return [f"{type(module).__module__}.{type(module).__qualname__}", attributes]


def _is_empty(value: object) -> bool:
    return value is None or value is False or value == [] or value == {}


def _plain(value: object) -> object:
    """Return a value for JSON: for a function or class its name, for an object also its attributes."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case list() | tuple():
            return [_plain(item) for item in value]
        case set() | frozenset():
            return sorted(map(str, value))
        case dict():
            return {str(key): _plain(item) for key, item in value.items()}
        case np.ndarray():
            return [
                str(value.dtype),
                list(value.shape),
                hashlib.sha256(value.tobytes()).hexdigest(),
            ]
        case torch.Tensor():
            return _digest(value)
        case torch.nn.Module():
            # Submodules have their own entries.
            return type(value).__qualname__
        case torch.dtype() | torch.device() | slice():
            return str(value)
        case functools.partial():
            return [_plain(value.func), _plain(value.args), _plain(value.keywords)]
    if (to_dict := getattr(value, "to_dict", None)) is not None and not isinstance(
        value, type
    ):
        # transformers' settings.
        return _plain({k: v for k, v in to_dict().items() if k not in NOT_THE_MODEL})
    if (attributes := getattr(value, "__dict__", None)) and not callable(value):
        return [
            type(value).__qualname__,
            _plain({k: v for k, v in attributes.items() if v is not value}),
        ]
    return getattr(value, "__qualname__", type(value).__qualname__)
