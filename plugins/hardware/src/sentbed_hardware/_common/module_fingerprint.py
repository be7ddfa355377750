"""The fingerprint of a torch module: a hash of its weights, settings and code."""

from __future__ import annotations

import functools
import hashlib
import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import PurePath
from typing import Any, TypeAlias

import attrs
import numpy as np
import torch
from sentbed_common import code_of
from torch import Tensor, nn

NOT_THE_MODEL = (
    "name_or_path",
    "_name_or_path",
    "transformers_version",
    "architectures",
    "dtype",
    "torch_dtype",
    "owners",
    "autocast",
    "states_width",
    "pooled_width",
    "trained_pooled_width",
    "untransformed_width",
    "fitted_on",
    "fits",
)
"""Names of attributes and settings that are not hashed: they describe a model's origin, or follow from what is
hashed."""


Hashed: TypeAlias = dict[int, tuple[Tensor, list[Any]]]
"""`id` of a tensor -> the tensor and its `_digest`. The tensor is kept alive so that its `id` is not reused."""


def fingerprint(
    module: nn.Module,
    how: object,
    hashed: Hashed | None = None,
) -> str | None:
    """Return a hash of a module's weights, settings and code, and of `how`.

    `how` is a value for JSON that holds everything else on which the vectors depend, such as the precision.
    Returns None if a weight is not in memory, or if the code on disk has changed since it was loaded.

    `hashed` is a cache, to which the hash of each weight is added. It may be passed to calls for several
    modules that share weights, as long as these weights do not change.
    """
    tensors = dict(_tensors(module))
    if any(tensor.is_meta for tensor in tensors.values()):
        return None

    versions, unversioned = _versions(module)
    code = code_of(*unversioned)
    if code is None:
        return None

    if hashed is None:
        hashed = {}
    # A tensor may have several names, and is hashed once.
    new = {id(value): value for value in tensors.values() if id(value) not in hashed}
    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        # Hashing releases the GIL.
        for tensor, digest in zip(
            new.values(), pool.map(_digest, new.values()), strict=True
        ):
            hashed[id(tensor)] = tensor, digest

    weights = {name: hashed[id(tensor)][1] for name, tensor in tensors.items()}
    settings = {name: _settings(part) for name, part in module.named_modules()}
    content = json.dumps([weights, settings, versions, code, how], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()


def _versions(module: nn.Module) -> tuple[dict[str, str], list[type]]:
    """Return the packages of a module's classes with their versions, and the classes whose package has no
    version."""
    versions: dict[str, str] = {"torch": torch.__version__}
    unversioned: list[type] = []
    for of_class in {type(part) for part in module.modules()}:
        package = of_class.__module__.partition(".")[0]
        version = getattr(sys.modules.get(package), "__version__", None)
        if version is None:
            unversioned.append(of_class)
        else:
            versions[package] = version

    return versions, unversioned


def weights_of(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yield the names and values of a module's parameters, and of the scales of its 4-bit parameters."""
    for name, parameter in module.named_parameters():
        yield name, parameter
        state = getattr(parameter, "quant_state", None)
        if state is not None:
            for key, value in state.as_dict(packed=True).items():
                if isinstance(value, Tensor):
                    yield f"{name}.{key}", value


def _tensors(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yield the names and values of a module's weights, buffers, and tensors in ordinary attributes."""
    yield from weights_of(module)
    yield from module.named_buffers()

    for place, part in module.named_modules():
        for name, value in vars(part).items():
            if isinstance(value, Tensor):
                yield f"{place}.{name}", value


def _digest(tensor: Tensor) -> list[Any]:
    """Return the dtype, the shape and the SHA-256 of a tensor."""
    content = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    digest = hashlib.sha256(content.numpy().data).hexdigest()
    return [str(tensor.dtype), list(tensor.shape), digest]


def _settings(module: nn.Module) -> list[Any]:
    """Return the name of a module's class, and its attributes as values for JSON."""
    skipped = {*vars(nn.Module()), *NOT_THE_MODEL}
    attributes = {}
    for key in vars(module).keys() - skipped:
        value = _plain(getattr(module, key))
        # transformers gives loaded models some empty attributes that newly initialised models lack.
        if not (key.startswith("_") and _is_empty(value)):
            attributes[key] = value

    return [f"{type(module).__module__}.{type(module).__qualname__}", attributes]


def _is_empty(value: object) -> bool:
    return value is None or value is False or value == [] or value == {}


def _attributes(value: object) -> dict[str, Any]:
    """Return the attributes of an object that are in its `__dict__` and in its slots."""
    state: Any = object.__getstate__(value)
    if isinstance(state, tuple):
        inner, slots = state
        return {**(inner or {}), **slots}

    return state or {}


def _plain(value: Any) -> object:
    """Return an attribute as a value for JSON.

    A tensor becomes its hash, a function or class its name, any other object its class's name and attributes.
    """
    match value:
        case None | bool() | int() | float() | str():
            return value
        case list() | tuple():
            return [_plain(item) for item in value]
        case set() | frozenset():
            return sorted(map(str, value))
        case dict():
            return {str(key): _plain(item) for key, item in value.items()}
        case np.ndarray() | np.generic():
            digest = hashlib.sha256(value.tobytes()).hexdigest()
            return [str(value.dtype), list(value.shape), digest]
        case Tensor():
            return _digest(value)
        case nn.Module():
            # `fingerprint` hashes the settings of each submodule by itself.
            return type(value).__qualname__
        case torch.dtype() | torch.device() | slice() | bytes() | PurePath():
            return str(value)
        case functools.partial():
            return [_plain(value.func), _plain(value.args), _plain(value.keywords)]

    to_dict = getattr(value, "to_dict", None)
    if to_dict is not None and not isinstance(value, type):
        # A configuration of transformers.
        config = to_dict()
        hashed = {key: config[key] for key in config.keys() - {*NOT_THE_MODEL}}
        return _plain(hashed)

    attributes: dict[str, Any] = {}
    # A function or a class is known by its name; an attrs object may be callable, too.
    if attrs.has(type(value)) or not callable(value):
        attributes = _attributes(value)
    if attributes:
        inner = {key: item for key, item in attributes.items() if item is not value}
        return [type(value).__qualname__, _plain(inner)]

    return getattr(value, "__qualname__", type(value).__qualname__)
