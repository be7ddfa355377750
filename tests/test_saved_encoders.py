"""No damage of a saved encoder changes a vector unseen: it is what was saved, or it is refused."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import numpy as np
import pytest
import torch
from damage import damages
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_encoders import random_encoder
from safetensors.torch import load_file, save_file
from sentbed import Encoder, ModelError, SentbedError

TEXTS = ["one sentence", "two of them are more than one"]
Weights = dict[str, torch.Tensor]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A saved encoder of random weights with a projection."""
    directory = tmp_path_factory.mktemp("saved") / "encoder"
    table = {
        "backbone": {"use": "bert", "init": "random", "size": "tiny"},
        "pooler": {"use": "mean"},
        "head": {"projection": 8},
        "max_length": 16,
    }
    random_encoder(table, TEXTS * 20).save(directory)
    return directory


def swapped(weights):
    names = [name for name in weights if name.endswith("query.weight")]
    return weights | dict(
        zip(names, [weights[name] for name in reversed(names)], strict=True)
    )


CHANGES: dict[str, Callable[[Weights], Weights]] = {
    "zeroed": lambda weights: {name: value * 0 for name, value in weights.items()},
    "swapped": swapped,
    "integer": lambda weights: {
        name: value.to(torch.int32) for name, value in weights.items()
    },
    "nan": lambda weights: {
        name: value * float("nan") for name, value in weights.items()
    },
    "overflowing": lambda weights: {
        name: value * 1e37 for name, value in weights.items()
    },
}


@pytest.mark.sweep(4)
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("file", ["backbone/model.safetensors", "modules.safetensors"])
def test_other_weights_in_the_same_places_are_refused(file, change, saved, tmp_path):
    if (file, change) == ("modules.safetensors", "swapped"):
        pytest.skip("there is one matrix")
    shutil.copytree(saved, tmp_path / "e")
    weights = {
        name: value.clone() for name, value in load_file(tmp_path / "e" / file).items()
    }
    save_file(CHANGES[change](weights), tmp_path / "e" / file, {"format": "pt"})
    with pytest.raises(
        ModelError,
        match=f"has changed since it was saved: `{file}` is not what was written",
    ):
        Encoder.load(tmp_path / "e")


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(damage=damages(), choice=st.integers(0, 99))
def test_any_damage_of_any_file_is_refused(damage, choice, saved, tmp_path):
    if not (tmp_path / "e").exists():
        shutil.copytree(saved, tmp_path / "e")
    files = sorted(path for path in (tmp_path / "e").rglob("*") if path.is_file())
    assert len(files) > 4
    file = files[choice % len(files)]
    whole = file.read_bytes()
    file.write_bytes(damaged := damage(whole))
    try:
        if damaged != whole and file.name != "checksums.json":
            with pytest.raises(SentbedError, match=file.name):
                Encoder.load(tmp_path / "e")
    finally:
        file.write_bytes(whole)


def test_an_intact_encoder_loads_with_its_vectors(saved):
    first, second = (Encoder.load(saved).encode(TEXTS) for _ in range(2))
    assert first.shape == (2, 8)
    np.testing.assert_array_equal(first, second)
