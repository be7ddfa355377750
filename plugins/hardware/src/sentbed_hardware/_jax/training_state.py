"""A trainer's state in two files: arrays as safetensors, everything else as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import jax
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file
from sentbed import ModelError
from sentbed.helpers import read_json
from sentbed_common import host_draws, rewind_host

if TYPE_CHECKING:
    from sentbed_hardware._jax.trainer import JaxTrainer


TENSORS_FILE = "state.safetensors"
VALUES_FILE = "state.json"
REMEDY = "go on from another state, or start again"
"""Advice for the user if a state cannot be used."""


@attrs.frozen(eq=False)
class State:
    """The state read from the two files."""

    arrays: Mapping[str, NDArray[Any]]
    steps: int
    random: Mapping[str, Any]
    """States of the host's generators."""


def write(trainer: JaxTrainer, directory: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write the two files into `directory`; raises `OSError` if the system refuses."""
    values = {
        "steps": trainer.steps,
        "optimizer": trainer.training.optimizer.name,
        "random": host_draws(),
        "arrays": sorted(arrays),
    }
    directory.mkdir(parents=True, exist_ok=True)
    try:
        save_file(dict(arrays), directory / TENSORS_FILE)
    except SafetensorError as error:
        # It wraps the system's error: a full disk must be distinguished from a bug of ours.
        raise OSError(str(error)) from error
    (directory / VALUES_FILE).write_text(json.dumps(values), "utf-8")


def read(trainer: JaxTrainer, directory: Path) -> State:
    """Read the two files.

    Raises:
        ModelError: if one cannot be read, or names or shapes differ from the trainer's.
    """
    try:
        values = read_json(directory / VALUES_FILE)
        arrays = load_file(directory / TENSORS_FILE)
        optimizer, state = values["optimizer"], State(arrays, values["steps"], values["random"])
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise ModelError(f"`{directory}` cannot be read: {error}; {REMEDY}") from error
    if values.get("arrays") != sorted(arrays):
        raise ModelError(f"`{TENSORS_FILE}` and `{VALUES_FILE}` in `{directory}` are of two states; {REMEDY}")
    if optimizer != trainer.training.optimizer.name:
        raise ModelError(
            f"`{directory}` holds the state of the optimizer `{optimizer}`, the recipe has "
            f"`{trainer.training.optimizer.name}`; {REMEDY}"
        )
    here, there = ({name: _described(v) for name, v in some.items()} for some in (leaves(trainer), arrays))
    for name in [*here, *there]:
        if here.get(name) != there.get(name):
            found, expected = (some.get(name, "missing") for some in (there, here))
            raise ModelError(
                f"`{directory}` is not a state of this recipe: `{name}` is {found} there and {expected} in "
                f"the recipe; {REMEDY}"
            )
    return state


def restore(trainer: JaxTrainer, state: State) -> None:
    """Restore the trainer to a state."""
    layout = trainer.engine.layout
    placed = [layout.place(state.arrays[name], value.sharding) for name, value in leaves(trainer).items()]
    held = jax.tree.unflatten(jax.tree.structure(_held(trainer)), placed)
    trainer.take(held["weights"])
    trainer.optimizer, trainer.averages = held["optimizer"], held["averages"]
    trainer.state = held["state"] if trainer.state is not None else None
    trainer.key = jax.random.wrap_key_data(jax.numpy.asarray(state.arrays["key"]))
    trainer.steps = state.steps
    rewind_host(state.random)


def leaves(trainer: JaxTrainer) -> dict[str, jax.Array]:
    """Return every array that determines later steps, by name."""
    found = jax.tree_util.tree_flatten_with_path(_held(trainer))[0]
    return {jax.tree_util.keystr(path, simple=True, separator="/"): value for path, value in found}


def _held(trainer: JaxTrainer) -> dict[str, Any]:
    return {
        "weights": trainer.weights(),
        "optimizer": trainer.optimizer,
        "averages": trainer.averages,
        "state": trainer.state or {},
        "key": jax.random.key_data(trainer.key),
    }


def _described(value: Any) -> str:
    return f"{tuple(value.shape)} {value.dtype}"
